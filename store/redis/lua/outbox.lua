-- Looks at the outboxes of a part and forgets what has arrived.
--
-- Arguments: the receiving part, or '' for which parts something waits; the highest
-- number that has arrived there, or 0; how many to return at most.
-- Answer: of one part, the number of the first and what was packed by post; else the
-- parts.

local to, arrived, limit = arg(), num(), num()
if to == '' then
	local waiting, flat = {}, call('HGETALL', T .. 'oq')
	for i = 1, #flat, 2 do
		if call('EXISTS', T .. 'o:' .. flat[i]) == 1 then waiting[#waiting + 1] = flat[i] end
	end
	return waiting
end
local key = T .. 'o:' .. to
local first = tonumber(call('HGET', T .. 'oq', to) or '0') - call('LLEN', key) + 1
if arrived >= first then
	call('LTRIM', key, arrived - first + 1, -1)
	first = arrived + 1
end
-- LRANGE with -1 would return everything: who only forgets must not deliver.
return { dec(first), limit > 0 and call('LRANGE', key, 0, limit - 1) or {} }
