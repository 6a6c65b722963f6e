-- The leases of a batch, and the places of an act on several parts.

local none = {}  -- is not changed
local leads = {} -- shards whose lease the batch holds
local part = 0   -- of this act
local parts = 1

-- readLeases reads the leases of a batch from the arguments and notes those that are
-- current. It returns the others, each with the shard's epoch or '', and whether all are
-- current and of the given boot (node, newline, boot).
local function readLeases(boot)
	local others, own = {}, true
	local count = num()
	for first = 1, count, MAX.fields do
		local shards, begins = {}, {}
		for i = first, math.min(count, first + MAX.fields - 1) do
			shards[#shards + 1] = arg()
			begins[#begins + 1] = arg() .. ';'
		end
		local kept = call('HMGET', T .. 'L', unpack(shards))
		for i = 1, #shards do
			local l, begin = kept[i], begins[i]
			if l and string.sub(l, 1, #begin) == begin and l ~= begin .. '0;\n' then
				leads[shards[i]] = true
				own = own and holder(l) == boot
			else
				others[#others + 1] = { shards[i], l and string.match(l, '^%d+') or '' }
			end
		end
	end
	return others, own and #others == 0
end
