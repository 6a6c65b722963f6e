-- Takes shards for a node, for the given time. Runs that the last owner had claimed become
-- ready, and suspect unless it has ended cleanly.
--
-- An epoch is at least the time in milliseconds: should the server lose acknowledged
-- writes, no epoch is given twice.
--
-- Runs are given back up to a bound, which one shard may exceed: the shards behind it are left for
-- another act, so that none keeps the server busy for long.
--
-- Arguments: node, boot, time to live, '1' if it replaces earlier boots of the node, shards
-- (slot:group, group, the highest epoch that this process has seen of it, and the lease that has
-- ended though it ends later, see storekit.AheadLeases, or ''). Lists begin with their length.
-- Answer: time, of each shard that was looked at: '1' if it is held now, epoch, end, node, boot, '1' if
-- it was clean, suspects.

local node, boot, ttl, replaces = arg(), arg(), num(), arg() == '1'
local claimed, given, results = {}, 0, {}

-- claimedOf returns the claimed runs of a shard.
local function claimedOf(shard, gr)
	if not claimed[gr] then
		local of = {}
		for _, no in ipairs(call('HKEYS', T .. 'k:' .. gr)) do
			local slot = slotOf(no)
			of[slot] = of[slot] or {}
			local list = of[slot]
			list[#list + 1] = no
		end
		claimed[gr] = of
	end
	return claimed[gr][tonumber(string.match(shard, '^%d+'))] or {}
end

for i = 1, num() do
	if given >= MAX.given then break end
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
		local clean, suspects, runs = l.node == '' or own, 0, claimedOf(shard, gr)
		for k = 1, #runs do
			if giveBack(runs[k], clean) then suspects = suspects + 1 end
		end
		given = given + #runs
		results[i] = { '1', epoch, till, node, boot, clean and '1' or '', dec(suspects) }
	end
end
flush()
return { nowText, results }
