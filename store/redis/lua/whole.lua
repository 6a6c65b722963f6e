-- The first call of every script. While a cluster moves the part to another server, its keys
-- are partly here and partly there: one that is not here looks as if it did not exist, or
-- fails a call in the middle of the act. A call with two keys, of which the second exists
-- nowhere, is refused on both servers from the first step of the move to the last. The
-- answer holds for the whole act, because nothing moves during a script.
do
	local whole = redis.pcall('EXISTS', KEYS[1], string.sub(KEYS[1], 1, -2) .. '-')
	if type(whole) == 'table' then return redis.error_reply('TRYAGAIN ' .. whole.err) end
end

