-- Takes shards for a node, for the given time. Runs that the last owner had claimed become
-- ready, and suspect unless it has ended cleanly.
--
-- An epoch is at least the time in milliseconds: should the server lose acknowledged
-- writes, no epoch is given twice.
--
-- Arguments: node, boot, time to live, '1' if it replaces earlier boots of the node, shards
-- (slot:group, group, the highest epoch that this process has seen of it, and the lease that has
-- ended though it ends later, see storekit.AheadLeases, or ''). Lists begin with their length.
-- Answer: time, of each shard: '1' if it is held now, epoch, end, node, boot, '1' if
-- it was clean, suspects.

local node, boot, ttl, replaces = arg(), arg(), num(), arg() == '1'
local taken, cleans, results = {}, {}, {}
for i = 1, num() do
	local shard, gr, seen, over = arg(), arg(), num(), arg()
	local l = lease(shard) or { epoch = '0', till = '0', node = '', boot = '' }
	local own = l.node == node and l.boot == boot
	local superseded = replaces and l.node == node and l.boot < boot
	local held = l.node ~= '' and not own and not superseded
	if held and tonumber(l.till) > now and call('HGET', T .. 'L', shard) ~= over then
		results[i] = { '0', l.epoch, l.till, l.node, l.boot }
	else
		local epoch = dec(math.max(tonumber(l.epoch) + 1, seen + 1, math.floor(now / MICROS.millisecond)))
		local seconds = math.floor(now / MICROS.second) + math.floor(ttl / MICROS.second)
		local micros = now % MICROS.second + ttl % MICROS.second
		if micros >= MICROS.second then seconds, micros = seconds + 1, micros - MICROS.second end
		local till = string.format('%.0f%06.0f', seconds, micros)
		call('HSET', T .. 'L', shard, epoch .. ';' .. till .. ';' .. node .. '\n' .. boot)
		enter('B', node .. '\n' .. boot, false)
		enter('B', l.node .. '\n' .. l.boot, false)
		local clean = l.node == '' or own
		results[i] = { '1', epoch, till, node, boot, clean and '1' or '', '0' }
		cleans[shard] = clean
		taken[gr] = taken[gr] or {}
		taken[gr][shard] = results[i]
	end
end
for gr, shards in pairs(taken) do
	for _, no in ipairs(call('HKEYS', T .. 'k:' .. gr)) do
		local shard = shardOf(no, gr)
		if shards[shard] and giveBack(no, cleans[shard]) then shards[shard][7] = dec(shards[shard][7] + 1) end
	end
end
flush()
return { nowText, results }
