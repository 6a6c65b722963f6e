-- Checks the invariants of a window of runs. Changes nothing.
--
-- Arguments: the number after which the window begins, how many runs.
-- Answer: the last number, '' if there is none; then of each check how many exceptions:
-- indexes of status; of condition; claimed runs without an owner; index of runs with
-- unexamined items; live runs that nothing can wake; ends; items.

local after, limit = arg(), num()
local page = call('ZRANGEBYSCORE', T .. 'R', '(' .. after, '+inf', 'LIMIT', 0, limit)
local bad = { 0, 0, 0, 0, 0, 0, 0 }
local function check(i, ok)
	if not ok then bad[i] = bad[i] + 1 end
end
local function has(key, member) return call('ZSCORE', T .. key, member) and true or false end

for _, no in ipairs(page) do
	local r = row(no)
	if r then
		check(1, has('l:' .. r.st .. ':' .. r.wf, no) and call('HGET', T .. 'id', r.id) == no)
		local idle = r.co == CONDITION.idle
		local function ranked(index) return has(keyOf(index, r.gr, sortOf(index, r)), no) end
		check(2, call('HGET', T .. 'k:' .. r.gr, no) == (r.co == CONDITION.claimed and r.ic)
			and ranked(INDEX.ready) == (r.co == CONDITION.ready and not waits(r))
			and ranked(INDEX.waking) == (idle and r.wa and not waits(r) and true or false))
		if r.co == CONDITION.claimed then
			local l = lease(dec(r.slot) .. ':' .. r.gr)
			check(3, l and l.node ~= '')
		end
		local new = false
		for item_no, entry in pairs(open(r)) do
			local f = call('HMGET', T .. 'i:' .. item_no, 'r', 's', 'v')
			check(7, f[1] == no and f[2] == state(entry) and not (f[2] == STATE.consumed and f[3])
				and has('D', item_no) == (f[2] == STATE.dead))
			new = new or state(entry) == STATE.new
		end
		local rests = has('p:' .. r.gr, no)
		check(4, (rests or has('d:' .. r.gr, no)) == new and not (rests and r.co == CONDITION.claimed))
		check(5, not (idle and (r.st == STATUS.queued or r.st == STATUS.running)) or r.wa or new)
		check(6, terminal(r.st) == (r.en and true or false) and has(endsIn(r) or 'E', ended(no)) == terminal(r.st))
	else
		check(1, false)
	end
end
bad[8] = page[#page] or ''
return bad
