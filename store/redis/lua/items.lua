-- Returns items of a run: those with the IDs, or with none those new or seen,
-- without large values.
--
-- Arguments: run, IDs. Answer: items, in no order.

local no, items, seen = arg(), {}, {}
local n = num()
for i = 1, n do
	local found = call('HGET', T .. 'x:' .. no, arg())
	if found and not seen[found] then
		seen[found] = true
		items[#items + 1] = item(found)
	end
end
if n > 0 then return items end
for item_no, entry in pairs(open({ no = no })) do
	if state(entry) == STATE.new or state(entry) == STATE.seen then items[#items + 1] = head(item_no, entry) end
end
return items
