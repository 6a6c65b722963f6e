-- Gives leases back; runs that were claimed become ready.
--
-- Arguments: leases (slot:group, group, epoch).

local given = {}
for i = 1, num() do
	local shard, gr, epoch = arg(), arg(), arg()
	local l = lease(shard)
	if l and l.node ~= '' and l.epoch == epoch then
		enter('B', l.node .. '\n' .. l.boot, false)
		call('HSET', T .. 'L', shard, epoch .. ';0;\n')
		given[gr] = given[gr] or {}
		given[gr][shard] = true
	end
end
for gr, shards in pairs(given) do
	for _, no in ipairs(call('HKEYS', T .. 'k:' .. gr)) do
		if shards[shardOf(no, gr)] then giveBack(no, true) end
	end
end
flush()
return { nowText }
