-- Returns entries of one incarnation of a run.
--
-- Arguments: run, incarnation, '1' with large values, locations; none: the locations
-- alone, in no order. Answer: locations; or of each given one that is there location,
-- head, and the large value or nothing.

local key, values = arg() .. ':' .. arg(), flag()
local n = num()
if n == 0 then return call('HKEYS', T .. 'e:' .. key) end
local entries = {}
for i = 1, n do
	local loc = arg()
	local head = call('HGET', T .. 'e:' .. key, loc)
	if head then
		entries[#entries + 1] = loc
		entries[#entries + 1] = head
		entries[#entries + 1] = values and string.byte(head, 1) >= BYTE.large and call('HGET', T .. 'v:' .. key, loc) or false
	end
end
return entries
