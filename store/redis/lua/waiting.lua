
-- numberAt returns the number of a command in the outbox for a part, by its place from 0.
local function numberAt(to, place)
	return string.match(call('LINDEX', T .. 'o:' .. to, place) or '', '^%d+') or '0'
end

-- waiting returns the parts whose outbox is not empty, each with the number of the first
-- command.
local function waiting()
	local list = call('SMEMBERS', T .. 'ow')
	for i = 1, #list do list[i] = { list[i], numberAt(list[i], 0) } end
	return list
end
