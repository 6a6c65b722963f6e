-- Loads runs with the entries of their incarnation and the open items of their inboxes.
--
-- Arguments: numbers of runs. Answer: of each run that exists its row, its entries
-- (location, head), its items.

local snapshots = {}
for i = 1, num() do
	local no = arg()
	local r = row(no)
	if r then
		local items = {}
		for item_no, entry in pairs(open(r)) do
			if state(entry) ~= STATE.dead then items[#items + 1] = head(item_no, entry) end
		end
		snapshots[#snapshots + 1] = { snapshot(no, ROW_ALL), call('HGETALL', T .. 'e:' .. no .. ':' .. r.ic), items }
	end
end
return snapshots
