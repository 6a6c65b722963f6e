-- The second half of sending to another part: applies the commands in the outbox of a part
-- for this one, each once, in the order of their numbers.
--
-- Arguments: part, parts, the sending part, '1' if the first command is the first in the
-- outbox, leases (shard, epoch) for claims, and the commands that putOut has packed. Lists
-- begin with their length.
-- Answer: time, of each the answer ('0': applied before), the parts to which something was
-- put into the outbox, '' or the number that this part had applied last if it has lost
-- commands. An error STET gap N: those after number N have to come first.

part, parts = num(), num()
local from, head = arg(), flag()
readLeases('')
whole = true -- the sender may have ended
local last = call('HGET', T .. 'q', from) or '0'
local highest, blobs, lost = tonumber(last), {}, ''
for i = 1, num() do
	local n, prev, at = string.match(arg(), '^(%d+);(%d+);()')
	blobs[i] = { n = tonumber(n), body = string.sub(ARGV[cursor], at) }
	if blobs[i].n > highest then
		if tonumber(prev) > highest then
			-- The sender takes out what has arrived. If nothing is before this one, then what
			-- was there had arrived, and this part has lost it with its server.
			if not head or i > 1 then return redis.error_reply('STET gap ' .. dec(highest)) end
			lost = last
		end
		highest, blobs[i].new = blobs[i].n, true
	end
end
local answers = {}
for i = 1, #blobs do
	answers[i] = { OUTCOME.putOut }
	if blobs[i].new then
		local c = cmsgpack.unpack(blobs[i].body)
		again = c.again
		answers[i] = send(c.from, c.by, c)
	end
end
if dec(highest) ~= last then call('HSET', T .. 'q', from, dec(highest)) end
flush()
return { nowText, answers, sentTo, lost }
