-- foremost returns the number of the first command in the outbox for a part.
local function foremost(to)
	return tonumber(call('HGET', T .. 'oq', to) or '0') - call('LLEN', T .. 'o:' .. to) + 1
end

-- waiting returns the parts whose outbox is not empty, each with the number of the first
-- command.
local function waiting()
	local list = call('SMEMBERS', T .. 'ow')
	for i = 1, #list do list[i] = { list[i], dec(foremost(list[i])) } end
	return list
end
