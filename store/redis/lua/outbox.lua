-- Looks at the outboxes of a part and forgets what has arrived.
--
-- Arguments: the receiving part, or '' for which parts something waits; the highest
-- number that has arrived there, or 0; how many to return at most.
-- Answer: of one part, the number of the first and what was packed by post; else of
-- each such part the number of the first, see waiting.

local to, arrived, limit = arg(), num(), num()
if to == '' then return waiting() end
local key = T .. 'o:' .. to
local first = foremost(to)
if arrived >= first then
	call('LTRIM', key, arrived - first + 1, -1)
	first = arrived + 1
	if call('EXISTS', key) == 0 then call('SREM', T .. 'ow', to) end
end
-- LRANGE with -1 would return everything: who only forgets must not deliver.
return { dec(first), limit > 0 and call('LRANGE', key, 0, limit - 1) or {} }
