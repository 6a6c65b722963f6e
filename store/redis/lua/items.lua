-- Returns items of a run: those with the IDs, or with none those new or seen after a number,
-- without large values; as many of the first ones as fit into one answer, but one at least.
--
-- Arguments: run, number, IDs. Answer: how many are left; items, those with IDs in their order.

local no, after, items, seen, size = arg(), num(), {}, {}, 0

-- add adds an item, and reports whether the answer has room for more.
local function add(it)
	items[#items + 1] = it
	for i = 1, #it do size = size + (it[i] and #it[i] or 0) end
	return size < MAX.load
end

local n = num()
for i = 1, n do
	local found = call('HGET', T .. 'x:' .. no, arg())
	if found and not seen[found] then
		seen[found] = true
		if not add(item(found)) then return { dec(n - i), items } end
	end
end
if n > 0 then return { '0', items } end
local unfinished, nos = open({ no = no }), {}
for item_no, entry in pairs(unfinished) do
	local st = state(entry)
	if (st == STATE.new or st == STATE.seen) and tonumber(item_no) > after then nos[#nos + 1] = item_no end
end
table.sort(nos, function(a, b) return tonumber(a) < tonumber(b) end)
for i, item_no in ipairs(nos) do
	if not add(head(item_no, unfinished[item_no])) then return { dec(#nos - i), items } end
end
return { '0', items }
