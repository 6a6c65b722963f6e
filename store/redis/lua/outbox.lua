-- Reads the outboxes of a part, and takes commands out that have arrived.
--
-- Arguments: the receiving part, or '' for all; the highest number that has arrived there,
-- or 0; how many to return at most.
-- Answer: for one part the packed commands from the first on; for all, of each part with an
-- outbox that is not empty the number of the first, see waiting.

local to, arrived, limit = arg(), num(), num()
if to == '' then return waiting() end
local key = T .. 'o:' .. to
if tonumber(call('HGET', T .. 'oq', to) or '0') <= arrived then
	call('DEL', key)
elseif arrived > 0 then
	-- Numbers have gaps: the first that has not arrived is found by halves.
	local first, after = 0, call('LLEN', key)
	while first < after do
		local middle = math.floor((first + after) / 2)
		if tonumber(numberAt(to, middle)) <= arrived then first = middle + 1 else after = middle end
	end
	call('LTRIM', key, first, -1)
end
if call('EXISTS', key) == 0 then call('SREM', T .. 'ow', to) end
-- LRANGE with -1 would return everything, which a caller with limit 0 must not deliver.
return limit > 0 and call('LRANGE', key, 0, limit - 1) or {}
