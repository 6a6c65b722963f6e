-- Returns the leases that are not current. Arguments: leases (slot:group, epoch). Answer:
-- their places, from 1.

local fenced = {}
for i = 1, num() do
	local shard, epoch = arg(), arg()
	if not current(shard, epoch) then fenced[#fenced + 1] = i end
end
return fenced
