-- Returns entries of one incarnation of a run.
--
-- Arguments: run, incarnation, '1' with large values, locations; none: the locations
-- alone, in no order. Answer: locations; or how many of the given ones were looked at, as many as
-- fit into one answer, but one at least; and of each that is there location, head, and the large
-- value or nothing.

local key, values = arg() .. ':' .. arg(), flag()
local n = num()
if n == 0 then return call('HKEYS', T .. 'e:' .. key) end
local entries, size, looked = {}, 0, 0
for i = 1, n do
	looked = i
	local loc = arg()
	local head = call('HGET', T .. 'e:' .. key, loc)
	if head then
		local large = values and string.byte(head, 1) >= BYTE.large and call('HGET', T .. 'v:' .. key, loc) or false
		entries[#entries + 1] = loc
		entries[#entries + 1] = head
		entries[#entries + 1] = large
		size = size + #loc + #head + (large and #large or 0)
		if size >= MAX.load then break end
	end
end
return { dec(looked), entries }
