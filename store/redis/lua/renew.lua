-- Extends leases that nobody has taken.
--
-- Arguments: time to live, leases (slot:group, epoch).
-- Answer: time, of each lease '1' if it is current, epoch, end, node, boot of the
-- shard's; nothing of a shard that nobody holds but its epoch. Then what waits in the
-- part's outboxes, see waiting.

local ttl = num()
local till = now + ttl
local results = {}
for i = 1, num() do
	local shard, epoch = arg(), arg()
	local l = lease(shard)
	if l and l.node ~= '' and l.epoch == epoch then
		call('HSET', T .. 'L', shard, epoch .. ';' .. dec(till) .. ';' .. l.node .. '\n' .. l.boot)
		results[i] = { '1', epoch, dec(till), l.node, l.boot }
	elseif l and l.node ~= '' then
		results[i] = { '0', l.epoch, l.till, l.node, l.boot }
	else
		results[i] = { '', l and l.epoch or '0' }
	end
end
return { nowText, results, waiting() }
