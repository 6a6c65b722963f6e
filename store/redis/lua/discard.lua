-- Makes dead letters consumed. Arguments: numbers of items. Answer: of each '1' if it
-- was a dead letter.

local were, now_ = {}, {}
for i = 1, num() do
	local no = arg()
	local f = call('HMGET', T .. 'i:' .. no, 'r', 's')
	if f[2] == STATE.dead then
		local r = { no = f[1] }
		rank('D', no, false)
		finish(r, no, open(r)[no], '')
		now_[no] = true
	end
	were[i] = now_[no] and '1' or '0'
end
flush()
return were
