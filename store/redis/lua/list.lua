-- Lists runs of some indexes, or those claimed in some shards, newest first, or some by
-- number or ID. The caller filters.
--
-- Arguments: by what, '1' with values; by indexes: the number below which the list begins
-- or '+inf', how many, indexes; by claimed: the same with groups, and their shards; by numbers: numbers; by IDs: IDs.
-- Answer: rows.

local by, values = arg(), flag()
local nos = {}

-- newest sorts the numbers, and keeps some.
local function newest(limit)
	table.sort(nos, function(a, b) return tonumber(a) > tonumber(b) end)
	for i = #nos, limit + 1, -1 do nos[i] = nil end
end

if by == LIST.indexes then
	local below, limit = arg(), num()
	if below ~= '+inf' then below = '(' .. below end
	local seen = {}
	for i = 1, num() do
		for _, no in ipairs(call('ZREVRANGEBYSCORE', T .. arg(), below, '-inf', 'LIMIT', 0, limit)) do
			if not seen[no] then
				seen[no] = true
				nos[#nos + 1] = no
			end
		end
	end
	newest(limit)
elseif by == LIST.claimed then
	local below, limit, groups, wanted = arg(), num(), {}, {}
	for i = 1, num() do groups[i] = arg() end
	for _ = 1, num() do wanted[arg()] = true end
	for _, gr in ipairs(groups) do
		for _, no in ipairs(call('HKEYS', T .. INDEX.claimed .. ':' .. gr)) do
			if wanted[shardOf(no, gr)] and (below == '+inf' or tonumber(no) < tonumber(below)) then nos[#nos + 1] = no end
		end
	end
	newest(limit)
else
	for i = 1, num() do
		nos[i] = arg()
		if by == LIST.ids then nos[i] = call('HGET', T .. 'id', nos[i]) or '0' end
	end
end
local rows = {}
for i = 1, #nos do
	if call('EXISTS', T .. 'r:' .. nos[i]) == 1 then
		rows[#rows + 1] = snapshot(nos[i], values and ROW_ALL or ROW)
	end
end
return rows
