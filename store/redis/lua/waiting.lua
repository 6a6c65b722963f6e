-- foremost returns the number of the first that waits in the outbox for a part.
local function foremost(to)
	return tonumber(call('HGET', T .. 'oq', to) or '0') - call('LLEN', T .. 'o:' .. to) + 1
end

-- waiting returns the parts for which something waits in the outbox, each with the
-- number of the first.
local function waiting()
	local list = call('SMEMBERS', T .. 'ow')
	for i = 1, #list do list[i] = { list[i], dec(foremost(list[i])) } end
	return list
end
