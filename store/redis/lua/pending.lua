-- Counts items of a run that are new or seen.
--
-- Arguments: run, name or '' for any, kinds; none: any. Answer: how many there are, the bytes
-- of their values, the ID of the last one or ''.

local no, name, kinds = arg(), arg(), {}
local n = num()
for _ = 1, n do kinds[arg()] = true end
local items, bytes, last = 0, 0, nil
for item_no, entry in pairs(open({ no = no })) do
	if (state(entry) == STATE.new or state(entry) == STATE.seen) and (n == 0 or kinds[kind(entry)]) and
		(name == '' or call('HGET', T .. 'i:' .. item_no, 'n') == name) then
		items = items + 1
		bytes = bytes + math.max(call('HSTRLEN', T .. 'i:' .. item_no, 'v') - 1, 0)
		if not last or later(item_no, last) then last = item_no end
	end
end
return { dec(items), dec(bytes), last and call('HGET', T .. 'i:' .. last, 'd') or '' }
