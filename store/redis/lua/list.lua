-- Lists runs of some indexes, or those claimed in some shards, newest first, or some by
-- number or ID. The caller filters.
--
-- By listings and by ends the lists are those of some statuses, and of some workflows or all.
--
-- Arguments: by what, '1' with values, the bytes above which an input, and the output of a run that has succeeded, is
-- left out of them (0: none is, -1: all are); by listings and by ends: the number below which the list
-- begins or '+inf', how many, the time at which it goes on by ends, '1' without entities, statuses,
-- workflows; by indexes: the number below which the list begins
-- or '+inf', how many, indexes; by claimed: the same with groups, and their shards; by numbers: numbers; by IDs: IDs.
-- Answer: rows.

local by, values, longest = arg(), flag(), num()
local nos = {}

-- newest sorts the numbers, and keeps some.
local function newest(limit)
	table.sort(nos, function(a, b) return tonumber(a) > tonumber(b) end)
	for i = #nos, limit + 1, -1 do nos[i] = nil end
end

-- entity reports whether a workflow is the rules of an entity.
local function entity(wf) return string.sub(wf, 1, 5) == 'stet.' end

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
elseif by == LIST.listings or by == LIST.ends then
	local below, limit, en, plain = arg(), num(), arg(), flag()
	local sts, wfs = {}, {}
	for i = 1, num() do sts[i] = arg() end
	for i = 1, num() do wfs[i] = arg() end
	if #wfs == 0 then wfs = call('SMEMBERS', T .. 'w') end
	if by == LIST.listings then
		if below ~= '+inf' then below = '(' .. below end
		for _, wf in ipairs(wfs) do
			for _, st in ipairs(plain and entity(wf) and {} or sts) do
				for _, no in ipairs(call('ZREVRANGEBYSCORE', T .. 'l:' .. st .. ':' .. wf, below, '-inf', 'LIMIT', 0, limit)) do
					nos[#nos + 1] = no
				end
			end
		end
		newest(limit)
	else
		local found, max = {}, below == '+inf' and math.huge or tonumber(below)
		for _, wf in ipairs(wfs) do
			for _, st in ipairs(plain and entity(wf) and {} or sts) do
				for _, kind in ipairs({ 'E:', 'K:' }) do
					local from, got, list = 0, 0, nil
					repeat -- what ended at the same time, and stands before, is passed by
						list = call('ZREVRANGEBYSCORE', T .. kind .. st .. ':' .. wf, en, '-inf', 'WITHSCORES', 'LIMIT', from, limit)
						for i = 1, #list, 2 do
							local at, no = tonumber(list[i + 1]), tonumber(list[i])
							if at < tonumber(en) or no < max then
								got = got + 1
								found[#found + 1] = { at, no }
							end
						end
						from = from + limit
					until #list < 2 * limit or got >= limit
				end
			end
		end
		table.sort(found, function(a, b)
			if a[1] ~= b[1] then return a[1] > b[1] end
			return a[2] > b[2]
		end)
		for i = 1, math.min(#found, limit) do nos[i] = dec(found[i][2]) end
	end
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

-- listed returns the row of a run, without what is left out.
local function listed(no)
	if not values then return snapshot(no, ROW) end
	local r = longest ~= 0 and row(no)
	if not r then return snapshot(no, ROW_ALL) end
	local function fits(size) return tonumber(size or '0') <= longest end
	local found = call('HMGET', T .. 'r:' .. no, unpack(ROW_WAITS))
	found[#ROW_WAITS + 1] = fits(r.is) and call('HGET', T .. 'r:' .. no, 'ip')
	found[#ROW_WAITS + 2] = (r.st ~= STATUS.succeeded or fits(r.os)) and call('HGET', T .. 'r:' .. no, 'op')
	found[#ROW_WAITS + 3] = no
	return found
end

local rows = {}
for i = 1, #nos do
	if call('EXISTS', T .. 'r:' .. nos[i]) == 1 then
		rows[#rows + 1] = listed(nos[i])
	end
end
return rows
