-- Extends leases that no other boot has taken.
--
-- Arguments: time to live, leases (slot:group, epoch).
-- Answer: time, of each lease '1' if it is current, epoch, end, node, boot of the
-- shard's; of a shard without a holder only the epoch. Then the part's outboxes that are not
-- empty, see waiting.

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
