-- Reads the outboxes of a part, and takes commands out that have arrived.
--
-- Arguments: the receiving part, or '' for all; the highest number that has arrived there,
-- or 0; how many to return at most.
-- Answer: for one part, the number of the first and the packed commands; for all, of each
-- part with an outbox that is not empty the number of the first, see waiting.

local to, arrived, limit = arg(), num(), num()
if to == '' then return waiting() end
local key = T .. 'o:' .. to
local first = foremost(to)
if arrived >= first then
	call('LTRIM', key, arrived - first + 1, -1)
	first = arrived + 1
	if call('EXISTS', key) == 0 then call('SREM', T .. 'ow', to) end
end
-- LRANGE with -1 would return everything, which a caller with limit 0 must not deliver.
return { dec(first), limit > 0 and call('LRANGE', key, 0, limit - 1) or {} }
