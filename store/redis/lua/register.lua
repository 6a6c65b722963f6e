-- The heartbeat: writes a node's record and adds its workflows to the known ones. Forgets
-- nodes without a heartbeat for 24 hours that hold no lease. Their boots, and the given one
-- if it has stopped, are answered, so that forget.lua forgets their last batches.
--
-- Arguments: node, boot, '1' if it has stopped, '1' if it is to drain, its record, the
-- number of its last batch here whose result it knows,
-- workflows, the boots that hold shards in other parts (node, newline, boot). Lists begin
-- with their length.
-- Answer: time, '1' if what is listed has changed other than by a heartbeat, boots to be
-- forgotten (node, newline, boot).

local node, boot, stopped, drains, about, last = arg(), arg(), flag(), flag(), arg(), num()
if last > 0 then
	local kept = string.match(call('HGET', T .. 'b', node .. '\n' .. boot) or '0', '^%d+')
	if tonumber(kept) < last then return redis.error_reply('STET behind ' .. kept) end
end
local function bootOf(kept) return string.match(kept, '^%d+;([^\n]*)\n') end
local former = call('HGET', T .. 'N', node)
local was = former and bootOf(former) == boot
local draining = was and string.find(former, '\nd', 1, true) and 'd' or '-'
if stopped then
	if was then call('HDEL', T .. 'N', node) end
	return { nowText, '1', { node .. '\n' .. boot } }
end
if drains then
	if not was or draining == 'd' then return { nowText, '', {} } end
	local at, rest = string.match(former, '^(%d+;[^\n]*\n).(.*)$')
	call('HSET', T .. 'N', node, at .. 'd' .. rest)
	return { nowText, '1', {} }
end
call('HSET', T .. 'N', node, nowText .. ';' .. boot .. '\n' .. draining .. about)
call('HSET', T .. 'h', node .. '\n' .. boot, nowText)
for i = 1, num() do call('SADD', T .. 'W', arg()) end
local holds = {}
for i = 1, num() do holds[arg()] = true end
local leases = call('HVALS', T .. 'L')
for i = 1, #leases do
	local n, b = string.match(leases[i], '^%d+;%d+;([^\n]*)\n(.*)$')
	holds[n .. '\n' .. b] = true
end
local forgotten, heard = {}, call('HGETALL', T .. 'h')
for i = 1, #heard, 2 do
	if tonumber(heard[i + 1]) + MICROS.forgetAfter < now and not holds[heard[i]] then
		forgotten[#forgotten + 1] = heard[i]
		local n, b = string.match(heard[i], '^([^\n]*)\n(.*)$')
		local kept = call('HGET', T .. 'N', n)
		if kept and bootOf(kept) == b then call('HDEL', T .. 'N', n) end
	end
end
return { nowText, was and '' or '1', forgotten }
