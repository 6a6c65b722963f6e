-- Extends leases that no other boot has taken.
--
-- Arguments: time to live, leases (slot:group, epoch).
-- Answer: time, of each lease '1' if it is current, epoch, end, node, boot of the
-- shard's; of a shard without a holder only the epoch. Then the part's outboxes that are not
-- empty, see waiting.

local till = dec(now + num())
local results = {}
local count = num()
for first = 1, count, MAX.fields do
	-- They are read and written at once: a node may have hundreds, and renews them each second.
	local last = math.min(count, first + MAX.fields - 1)
	local shards = {}
	for i = first, last do shards[i - first + 1] = ARGV[cursor + 2 * i - 1] end
	local leases = call('HMGET', T .. 'L', unpack(shards))
	for i = first, last do
		local shard, epoch, l = shards[i - first + 1], ARGV[cursor + 2 * i], leaseOf(leases[i - first + 1])
		if l and l.node ~= '' and l.epoch == epoch then
			enter('L', shard, epoch .. ';' .. till .. ';' .. l.node .. '\n' .. l.boot)
			results[i] = { '1', epoch, till, l.node, l.boot }
		elseif l and l.node ~= '' then
			results[i] = { '0', l.epoch, l.till, l.node, l.boot }
		else
			results[i] = { '', l and l.epoch or '0' }
		end
	end
end
cursor = cursor + 2 * count
flush()
return { nowText, results, waiting() }
