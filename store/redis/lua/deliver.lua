-- The second half of sending to another part: applies the commands in the outbox of a part
-- for this one, each once, in the order of their numbers.
--
-- Arguments: part, parts, the sending part, the number of the first, leases (shard,
-- epoch) for claims, and the commands that putOut has packed. Lists begin with their length.
-- Answer: time, of each the answer ('0': applied before), the parts to which
-- something was put into the outbox. An error STET gap N: number N has not come yet.

part, parts = num(), num()
local from, n = arg(), num()
readLeases('')
whole = true -- the sender may have ended
local highest, answers, applied = tonumber(call('HGET', T .. 'q', from) or '0'), {}, false
for i = 1, num() do
	local blob = arg()
	if n > highest + 1 then return redis.error_reply('STET gap ' .. dec(highest + 1)) end
	answers[i] = { OUTCOME.putOut }
	if n == highest + 1 then
		local c = cmsgpack.unpack(blob)
		again = c.again
		answers[i] = send(c.from, c.by, c)
		highest, applied = n, true
	end
	n = n + 1
end
if applied then call('HSET', T .. 'q', from, dec(highest)) end
flush()
return { nowText, answers, sentTo }
