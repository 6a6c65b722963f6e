-- Gives leases back; runs that were claimed become ready.
--
-- Arguments: leases (slot:group, group, epoch).

local given = {}
for i = 1, num() do
	local shard, gr, epoch = arg(), arg(), arg()
	if current(shard, epoch) then
		call('HSET', T .. 'L', shard, epoch .. ';0;\n')
		given[gr] = given[gr] or {}
		given[gr][shard] = true
	end
end
for gr, shards in pairs(given) do
	for _, no in ipairs(call('ZRANGE', T .. 'k:' .. gr, 0, -1)) do
		if shards[dec(slotOf(no)) .. ':' .. gr] then giveBack(no, true) end
	end
end
return { nowText }
