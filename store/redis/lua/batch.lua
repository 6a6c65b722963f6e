-- The beginning of a group commit: the batch, and whether the boot has its leases. The arguments are in commit.lua.

local boot, batch, last = arg() .. '\n' .. arg(), arg(), num()

-- The record of the last batch of a boot: its number, then the results of its turns and
-- the places of committed turns of groups.
local record, repeated, fresh = { t = {}, s = '' }, false, batch ~= ''
if batch ~= '' then
	local kept = call('HGET', T .. 'b', boot)
	local former = kept and string.match(kept, '^%d+')
	if tonumber(former or '0') < last then return redis.error_reply('STET behind ' .. (former or '0')) end
	if former and tonumber(former) > tonumber(batch) then return redis.error_reply('STET former batch ' .. former) end
	if former == batch then
		record, repeated, fresh = cmsgpack.unpack(string.sub(kept, #former + 2)), true, false
		for place in string.gmatch(record.s, '%d+') do record.t[place] = VERDICT.committed end
		record.s = ''
	end
end

part, parts = num(), num()
local fence, new = arg(), arg()
local epochs = {}
if fence == '' then
	local own
	epochs, own = readLeases(boot)
	if own and new ~= '' then new = fenceFor(boot, new) else new = '' end
elseif fenceOf(boot) == fence then
	for i = 1, num() do leads[arg()] = true end
	new = fence
else
	return { nowText }
end
