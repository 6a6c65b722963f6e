-- Loads runs with the entries of their incarnation and the open items of their inboxes, as many
-- of the first ones as fit into one answer, but one at least.
--
-- Arguments: numbers of runs. Answer: how many of these were looked at; of each of them that exists
-- its row, its entries (location, head), its items.

local snapshots, size, looked = {}, 0, 0
for i = 1, num() do
	looked = i
	local no = arg()
	local r = row(no)
	if r then
		local items = {}
		for item_no, entry in pairs(open(r)) do
			if state(entry) ~= STATE.dead then
				local it = head(item_no, entry)
				items[#items + 1] = it
				for k = 1, #it do size = size + (it[k] and #it[k] or 0) end
			end
		end
		local entries = call('HGETALL', T .. 'e:' .. no .. ':' .. r.ic)
		for k = 1, #entries do size = size + #entries[k] end
		local values = snapshot(no, ROW_ALL)
		for k = 1, #values do size = size + (values[k] and #values[k] or 0) end
		snapshots[#snapshots + 1] = { values, entries, items }
		if size >= MAX.load then break end
	end
end
return { dec(looked), snapshots }
