-- The second half of what turns send to another part: applies what the outbox of a
-- part holds for this one, each once, in the order of the numbers.
--
-- Arguments: part, parts, the sending part, the number of the first, leases (shard,
-- epoch) for adoption, what was packed by post. Lists begin with their length.
-- Answer: time, of each the answer ('0': applied before), the parts to which
-- something was posted. An error STET gap N: number N has not come yet.

part, parts = num(), num()
local from, n = arg(), num()
readLeases('')
whole = true -- the sender may not be there any more
local highest, answers, applied = tonumber(call('HGET', T .. 'q', from) or '0'), {}, false
for i = 1, num() do
	local blob = arg()
	if n > highest + 1 then return redis.error_reply('STET gap ' .. dec(highest + 1)) end
	answers[i] = { OUTCOME.posted }
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
return { nowText, answers, posted }
