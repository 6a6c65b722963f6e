-- A group commit, or the part of it that is of one tag: turns, then commands. Also
-- Apply, whose batch has no number and no leases.
--
-- Arguments: node, boot, number of the batch ('' of Apply), part, parts, the fence under
-- which the boot is known to have all leases that the turns need, or '' and a text for a
-- new one, leases (shard, epoch; with a fence only those under which commands may
-- adopt), sections of turns that are much alike (group, what their updates have in common
-- or '' for steps, build, and turns: places in the batch, then see section), turns
-- (place in the batch, turn), the place of the first command in the batch, commands.
-- Each list begins with its length.
--
-- Answer: time alone if the fence is another now; else time, the shards' epochs where the
-- given ones are not current, of each section the verdicts, each with its reason if there
-- is one, or '' if all are committed, of each other turn the verdict, the reason and the answers to its
-- sends, of each command the answer, the parts to which something was posted, and the
-- fence if all leases are current and the boot's.

-- overwritable reports whether an entry may be written over what stands.
local function overwritable(old, oldLarge, e)
	local st = string.sub(old, 1, 1)
	if st == ENTRY.open or st == ENTRY.withdrawn or st == ENTRYLARGE.open or st == ENTRYLARGE.withdrawn then return true end
	if old ~= e.head then
		local seq, rest = string.match(old, '^.(%d+),%d+(;.*)$')
		local seq2, rest2 = string.match(e.head, '^.(%d+),%d+(;.*)$')
		if string.sub(e.head, 1, 1) ~= st or rest ~= rest2 or seq ~= '0' or seq2 == '0' then return false end
	end
	return not e.large or e.large == oldLarge
end

local common = {} -- by text, what many updates of a batch have in common

-- commonOf reads status, marks, wake time, generation and flags of an update.
local function commonOf(text)
	local p = common[text]
	if not p then
		local st, mk, wa, ge, flags = string.match(text, '^(%d);(%d+);(%d+);(%d+);(%a*)$')
		local function has(flag) return string.find(flags, flag, 1, true) and true or false end
		p = { st = st, mk = mk, wa = wa, ge = ge,
			isolate = has(FLAG.isolate), endIsolation = has(FLAG.endIsolation), discard = has(FLAG.discard), unclaim = has(FLAG.unclaim), more = has(FLAG.more),
		}
		common[text] = p
	end
	return p
end

-- readUpdate reads what changes in a run's row.
local function readUpdate()
	local p = commonOf(arg())
	local u = {
		st = p.st, mk = p.mk, wa = p.wa, ge = p.ge, isolate = p.isolate, endIsolation = p.endIsolation,
		discard = p.discard, unclaim = p.unclaim,
		bu = arg(), op = arg(), re = '', wt = '', qu = '', sends = none,
	}
	if p.more then u.re, u.wt, u.qu = arg(), arg(), arg() end
	return u
end

-- updating makes a turn, of which what decides about entries is known, one with an update.
local function updating(t, u)
	return {
		index = t.index, what = TURN.update, no = t.no, shard = t.shard, ic = t.ic, entries = t.entries, update = u,
		prune = none, rewrites = none, seen = none, consumed = none, returned = none, answers = none, values = none, appends = none, tags = none,
		dead = none, audit = none, sends = none,
	}
end

-- readTurn reads a turn from the arguments: E entries alone, U entries and an update, F
-- whatever there is.
local function readTurn()
	local t = { index = arg(), what = arg(), no = arg(), shard = arg(), ic = arg() }
	t.short = t.what == TURN.entries
	if t.what ~= TURN.whole then
		t.entries = readEntries(num())
		return t.short and t or updating(t, readUpdate())
	end
	t.fi = num()
	t.prune, t.seen, t.consumed, t.returned, t.answers, t.values, t.appends, t.tags, t.dead, t.audit, t.sends = {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}
	for i = 1, num() do t.prune[i] = { arg(), arg() } end
	t.rewrites = readEntries(num())
	t.entries = readEntries(num())
	for i = 1, num() do t.seen[i] = arg() end
	for i = 1, num() do t.consumed[i] = { arg(), arg() } end
	for i = 1, num() do
		local it = readItem()
		it.no, it.t = arg(), arg()
		t.returned[i] = it
	end
	for i = 1, num() do t.answers[i] = { arg(), arg() } end
	for i = 1, num() do t.values[i] = { arg(), arg() } end
	t.rewound = flag()
	for i = 1, num() do t.appends[i] = { arg(), arg() } end
	for i = 1, num() do t.tags[i] = { arg(), arg() } end
	for i = 1, num() do t.dead[i] = arg() end
	for i = 1, num() do t.audit[i] = arg() end
	for i = 1, num() do t.sends[i] = readCommand() end
	if not flag() then return t end
	local u = readUpdate()
	if flag() then u.cont = { wf = arg(), ip = arg(), se = arg(), be = arg(), fi = arg() } end
	u.sends = {}
	for i = 1, num() do u.sends[i] = readCommand() end
	t.update = u
	return t
end

local function pruned(t, loc)
	if not t.prune then return false end
	for i = 1, #t.prune do
		if not less(loc, t.prune[i][1]) and less(loc, t.prune[i][2]) then return true end
	end
	return false
end

-- standing returns what stands at a location: the head and the large part.
local function standing(t, loc)
	local key = t.no .. ':' .. t.ic
	local head = call('HGET', T .. 'e:' .. key, loc)
	if not head then return nil end
	return { head = head, large = string.byte(head, 1) >= 97 and call('HGET', T .. 'v:' .. key, loc) }
end

-- owned returns what decides about an item of the run: state, class, whether it has
-- a verdict; nil if the run has no such item.
local function owned(r, no)
	local f = call('HMGET', T .. 'i:' .. no, 'r', 's', 'y', 'a', 'k')
	if f[1] ~= r.no then return nil end
	return { s = f[2], y = f[3], a = f[4], k = f[5] }
end

-- canBecome are the allowed changes of a status.
local canBecome = {
	[STATUS.queued] = NEXT.queued, [STATUS.running] = NEXT.running, [STATUS.suspended] = NEXT.suspended, [STATUS.stalled] = NEXT.stalled,
	[STATUS.succeeded] = NEXT.succeeded, [STATUS.failed] = NEXT.failed, [STATUS.cancelled] = NEXT.cancelled,
}

-- refusesEntries returns why the entries of a turn break a law, or nil.
local function refusesEntries(t)
	local written = {}
	for i = 1, t.rewrites and #t.rewrites or 0 do
		local e = t.rewrites[i]
		local old = not pruned(t, e.loc) and standing(t, e.loc)
		if not old then return 'there is no entry to be rewritten', e.loc end
		e.old, written[e.loc] = old.head, e
	end
	for i = 1, #t.entries do
		local e = t.entries[i]
		local old = written[e.loc] or not pruned(t, e.loc) and standing(t, e.loc)
		if old then
			if not overwritable(old.head, old.large, e) then return 'the entry is final and different', e.loc end
			e.old = old.head
		end
		written[e.loc] = e
	end
end

-- refusesItems returns why what a turn does to items breaks a law, or nil.
local function refusesItems(t, r)
	for i = 1, #t.seen do
		if not owned(r, t.seen[i]) then return 'the run has no such item', t.seen[i] end
	end
	local consumed, verdicts, done, answered, returned = {}, {}, {}, {}, {}
	for i = 1, #t.consumed do
		local no = t.consumed[i][1]
		local it = owned(r, no)
		if not it or it.s ~= STATE.new and it.s ~= STATE.seen or done[no] then return 'the run has no such pending item to consume', no end
		consumed[no], verdicts[no], done[no] = true, t.consumed[i][2] ~= '', true
	end
	for i = 1, #t.dead do
		local no = t.dead[i]
		local it = owned(r, no)
		if not it or it.s ~= STATE.new and it.s ~= STATE.seen or done[no] or it.y ~= CLASS.letter then return 'the run has no such pending item for a dead letter', no end
		done[no] = true
	end
	for i = 1, #t.answers do
		local no = t.answers[i][1]
		local it = owned(r, no)
		local isOpen = it and it.y == CLASS.update and not it.a and not answered[no] and (it.s == STATE.consumed or consumed[no] and not verdicts[no])
		if not isOpen or t.answers[i][2] == '' then return 'the run has no such update that is consumed and not answered, or the answer is none', no end
		answered[no] = true
	end
	for i = 1, #t.returned do
		local id = t.returned[i].d
		local no = call('HGET', T .. 'x:' .. r.no, id)
		local it = no and owned(r, no)
		if returned[id] or it and it.s ~= STATE.consumed and not consumed[no] then return 'the item to be returned is not consumed', id end
		if it and it.y ~= CLASS.update and (it.a or verdicts[no] or answered[no]) then return 'the item to be returned was answered', id end
		returned[id] = true
	end
end

-- refuses returns why a turn breaks a law, and where, or nil.
local function refuses(t, r)
	if not r then return 'there is no such run', t.no end
	if dec(r.slot) .. ':' .. r.gr ~= t.shard then return 'the run is of another shard', r.gr end
	if r.ic ~= t.ic then return 'the run is in another incarnation', r.ic end
	if r.co ~= CONDITION.claimed then return 'the run is not claimed', '' end
	local u = t.update
	if u then
		if u.st ~= r.st and not string.find(canBecome[r.st], u.st, 1, true) then return 'the run cannot change its status so', r.st .. ' to ' .. u.st end
		if u.cont and r.st ~= STATUS.running then return 'the run cannot continue as new', r.st end
		if u.ge ~= '0' and tonumber(u.ge) <= tonumber(r.ge) then return 'the generation does not follow', r.ge end
	end
	if t.what == TURN.update and #t.entries == 1 and not t.entries[1].large then
		-- Nothing else can refuse it, so if nothing stands there the entry may be written now.
		local e = t.entries[1]
		if call('HSETNX', T .. 'e:' .. t.no .. ':' .. t.ic, e.loc, e.head) == 1 then
			t.entries = none
			return nil
		end
	end
	local why, at = refusesEntries(t)
	if not why and t.what == TURN.whole then why, at = refusesItems(t, r) end
	return why, at
end

-- abandon answers the updates that have no answer.
local function abandon(r)
	for no, entry in pairs(open(r)) do
		if class(entry) == CLASS.update then finish(r, no, entry, TEXT.unanswered) end
	end
end

-- bury makes dead letters of what a run leaves behind, or discards it.
local function bury(r, discard)
	for no, entry in pairs(open(r)) do
		if class(entry) == CLASS.letter and (state(entry) == STATE.new or state(entry) == STATE.seen) then
			if discard then
				finish(r, no, entry, '')
			else
				mark(r, no, STATE.dead, entry)
				rank('D', no, no)
			end
		end
	end
end

-- unbury makes a run's dead letters new again, except those for an older incarnation.
local function unbury(r)
	for no, entry in pairs(open(r)) do
		if state(entry) == STATE.dead then
			local ic = call('HGET', T .. 'i:' .. no, 'c') or '0'
			if kind(entry) == KIND.message or tonumber(ic) >= tonumber(r.ic) then
				mark(r, no, STATE.new, entry)
				rank('D', no, false)
			end
		end
	end
end

-- giveAgain puts a consumed item into the inbox again, a swept one with its number
-- if nobody has that.
local function giveAgain(r, it, floor)
	local no = call('HGET', T .. 'x:' .. r.no, it.d)
	if no then
		local f = call('HMGET', T .. 'i:' .. no, 'a', 'y', 'k')
		if f[1] then return end -- an update, which was answered
		call('HDEL', T .. 'i:' .. no, 'v', 'h')
		if it.v ~= '' then call('HSET', T .. 'i:' .. no, 'v', it.v) end
		if it.h ~= '' then call('HSET', T .. 'i:' .. no, 'h', it.h) end
		rank('C', no, false)
		mark(r, no, STATE.new, STATE.new .. f[2] .. f[3])
		return
	end
	local given = tonumber(it.no)
	if given > 0 and slotOf(given) == r.slot and math.floor(given / slots) <= highest('i') + 1 and call('EXISTS', T .. 'i:' .. it.no) == 0 then
		no = it.no
		counts.i = math.max(counts.i, math.floor(given / slots))
	end
	insert(r, it, floor, no, STATE.new, it.t)
end

local function addToStream(no, name, rewound, value)
	call('RPUSH', T .. 's:' .. no .. ':' .. name, nowText .. rewound .. value)
	local key = T .. 'f:' .. no
	local last = string.match(call('HGET', key, 's' .. name) or '0;', '^(%d+);')
	call('HSET', key, 's' .. name, dec(last + 1) .. ';' .. nowText .. ';')
end

-- publish writes what a turn shows to readers.
local function publish(t, r)
	local key = T .. 'f:' .. r.no
	for i = 1, #t.values do
		local name = 'v' .. t.values[i][1]
		local last = string.match(call('HGET', key, name) or '0;', '^(%d+);')
		call('HSET', key, name, dec(last + 1) .. ';' .. nowText .. ';' .. t.values[i][2])
	end
	if t.rewound then
		for _, name in ipairs(call('HKEYS', key)) do
			if string.sub(name, 1, 1) == 's' then addToStream(r.no, string.sub(name, 2), 'r', '') end
		end
	end
	for i = 1, #t.appends do addToStream(r.no, t.appends[i][1], 'i', t.appends[i][2]) end
	if #t.tags == 0 then return end
	local old, all, keys = {}, {}, {}
	for tag in string.gmatch(call('HGET', T .. 'r:' .. r.no, 'tg') or '', '[^\n]+') do
		old[#old + 1] = tag
		all[string.match(tag, '^([^=]*)=')] = tag
	end
	for i = 1, #t.tags do
		local k, v = t.tags[i][1], t.tags[i][2]
		all[k] = v ~= '' and k .. '=' .. v or nil
	end
	for k in pairs(all) do keys[#keys + 1] = k end
	table.sort(keys, less)
	for i = 1, #keys do keys[i] = all[keys[i]] end
	untagged(r.no, old)
	tagged(r.no, keys)
	change(r, { tg = #keys > 0 and table.concat(keys, '\n') })
end

-- continueAsNew begins the next incarnation.
local function continueAsNew(r, c, new)
	abandon(r)
	if r.ic == '0' then
		new.fi = c.fi
		if c.fi == '' then
			new.fi = call('HGET', T .. 'r:' .. r.no, 'o') .. r.wf
		end
	end
	rank('F', r.no, r.no)
	noteWorkflow(c.wf)
	new.ic, new.wf, new.o, new.ra, new.be = dec(r.ic + 1), c.wf, c.se, false, later(c.be, nowText) and c.be or nowText
	new.ip, new.is = c.ip ~= '' and c.ip, #c.ip > 1 and dec(#c.ip - 1)
end

-- holdsBack reports whether something unexamined keeps the run from suspending,
-- ending, or beginning to undo.
local function holdsBack(r, u)
	local suspends = u.st == STATUS.suspended and not marked(u.mk, MARK.pausedOrHeld)
	local ends = terminal(u.st) and not terminal(r.st) or marked(u.mk, MARK.undoing) and not marked(r.mk, MARK.undoing)
	for _, entry in pairs(open(r)) do
		if state(entry) == STATE.new and (suspends or ends and (kind(entry) == KIND.cancel or kind(entry) == KIND.terminate)) then return true end
	end
	return false
end

-- update changes the run's row.
local function update(r, u)
	local new = {}
	if less(r.bu, u.bu) then new.bu = u.bu end
	if not u.isolate and not u.endIsolation then new.su, new.sk, new.al = false, false, false end
	if holdsBack(r, u) then
		change(r, new)
		return VERDICT.stillReady
	end
	if terminal(u.st) and not terminal(r.st) then
		new.en = nowText
		abandon(r)
		bury(r, u.discard)
	elseif not terminal(u.st) then
		if terminal(r.st) then unbury(r) end
		new.en = false
	end
	new.st, new.mk, new.of = u.st, u.mk ~= '0' and u.mk, ''
	if u.wt ~= '' then
		new.wt, new.of = u.wt, 'w'
	elseif string.find(r.of, 'w', 1, true) then
		new.wt = false
	end
	if u.re ~= '' then
		new.re, new.of = u.re, new.of .. 'r'
	elseif string.find(r.of, 'r', 1, true) then
		new.re = false
	end
	new.wa = u.wa ~= '0' and (u.st == STATUS.suspended or u.st == STATUS.queued and later(u.wa, nowText)) and u.wa
	if u.ge ~= '0' then new.ge = u.ge end
	if u.qu ~= '' then new.qu = u.qu end
	new.al = u.isolate and '1' or false
	if u.op ~= '' then new.op, new.os = u.op, #u.op > 1 and dec(#u.op - 1) end
	if u.cont then continueAsNew(r, u.cont, new) end
	if u.st == STATUS.running and not r.sa then new.sa = nowText end
	if u.st == STATUS.running and not marked(u.mk, MARK.pausedOrHeld) and not u.unclaim then
		new.co = CONDITION.claimed
	elseif u.st == STATUS.running or u.st == STATUS.queued and not new.wa then
		new.co = CONDITION.ready
	else
		new.co = CONDITION.idle
	end
	change(r, new)
	return VERDICT.committed
end

-- write writes a turn that breaks no law and returns the verdict.
local function write(t, r)
	if t.short then
		for i = 1, #t.entries do writeEntry(t.no, t.ic, t.entries[i], t.entries[i].old) end
		return VERDICT.committed
	end
	if #t.prune > 0 then
		for _, loc in ipairs(call('HKEYS', T .. 'e:' .. t.no .. ':' .. t.ic)) do
			if pruned(t, loc) then
				call('HDEL', T .. 'e:' .. t.no .. ':' .. t.ic, loc)
				call('HDEL', T .. 'v:' .. t.no .. ':' .. t.ic, loc)
			end
		end
	end
	for i = 1, #t.rewrites do writeEntry(t.no, t.ic, t.rewrites[i], t.rewrites[i].old) end
	for i = 1, #t.entries do writeEntry(t.no, t.ic, t.entries[i], t.entries[i].old) end
	local q = open(r)
	for i = 1, #t.seen do
		local no = t.seen[i]
		if q[no] and state(q[no]) == STATE.new then mark(r, no, STATE.seen, q[no]) end
	end
	for i = 1, #t.consumed do
		local no = t.consumed[i][1]
		finish(r, no, q[no], t.consumed[i][2])
	end
	for i = 1, #t.answers do
		local no = t.answers[i][1]
		finish(r, no, q[no], t.answers[i][2])
	end
	for i = 1, #t.returned do giveAgain(r, t.returned[i], t.fi + i - 1) end
	publish(t, r)
	for i = 1, #t.dead do
		local no = t.dead[i]
		mark(r, no, STATE.dead, q[no])
		rank('D', no, no)
	end
	note(r.no, t.audit)
	local verdict = VERDICT.committed
	if t.update then verdict = update(r, t.update) end
	if #t.returned > 0 and terminal(r.st) then bury(r, false) end
	examine(r)
	return verdict
end

-- inHand returns the incarnation of a run of a group that is in hand, or false.
local function inHand(gr, no)
	local changed = hashes[INDEX.claimed .. ':' .. gr]
	if changed and changed[no] ~= nil then return changed[no] end
	return call('HGET', T .. INDEX.claimed .. ':' .. gr, no)
end

-- append writes the entries of a short turn if nothing is at their locations, as
-- mostly. It reports whether it has; else nothing is written, and the turn is to be
-- looked at as any other.
local function append(t)
	local slot, gr = string.match(t.shard, '^(%d+):(.*)$')
	if slotOf(t.no) ~= tonumber(slot) or inHand(gr, t.no) ~= t.ic then return false end
	local key, list = t.no .. ':' .. t.ic, t.entries
	if #list == 1 then
		if call('HSETNX', T .. 'e:' .. key, list[1].loc, list[1].head) == 0 then return false end
	elseif #list > 1 then
		local locs, flat, seen = {}, {}, {}
		for i = 1, #list do
			local loc = list[i].loc
			if seen[loc] then return false end
			seen[loc], locs[i], flat[2 * i - 1], flat[2 * i] = true, loc, loc, list[i].head
		end
		local there = call('HMGET', T .. 'e:' .. key, unpack(locs))
		for i = 1, #list do
			if there[i] then return false end
		end
		call('HSET', T .. 'e:' .. key, unpack(flat))
	end
	for i = 1, #list do
		if list[i].large then call('HSET', T .. 'v:' .. key, list[i].loc, list[i].large) end
	end
	return true
end

local boot, batch = arg() .. '\n' .. arg(), arg()
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

-- The record of the last batch of a boot: its number, then what became of its turns and
-- the places of steps that are committed.
local record, repeated, fresh = { t = {}, s = '' }, false, false
if batch ~= '' then
	local kept = call('HGET', T .. 'b', boot)
	local former = kept and string.match(kept, '^%d+')
	if former and tonumber(former) > tonumber(batch) then return redis.error_reply('STET former batch ' .. former) end
	if former == batch then
		record, repeated = cmsgpack.unpack(string.sub(kept, #former + 2)), true
		for place in string.gmatch(record.s, '%d+') do record.t[place] = VERDICT.committed end
		record.s = ''
	end
end

-- carryOut carries out a turn that has not been, and returns the verdict and, behind it,
-- the reason.
local function carryOut(t)
	if fence == '' and not leads[t.shard] then return VERDICT.fenced end
	if t.short and #t.entries <= 1000 and append(t) then return VERDICT.committed end
	local r = row(t.no)
	local why, at = refuses(t, r)
	if why then return VERDICT.refused .. why .. ': ' .. at end
	return write(t, r)
end

-- section carries out turns of a group that are much alike: most are of a run in hand
-- and do what usual does, which returns the verdict, or false if the turn is to be looked
-- at like any other; then unusual makes that. Each turn has so many arguments, of which
-- the first are its run and the incarnation.
local function section(gr, width, usual, unusual)
	local n, places = num(), arg()
	local base, runs, verdicts, odd, at = cursor, {}, {}, repeated, nil
	cursor = cursor + width * n
	for i = 1, n do runs[i] = ARGV[base + width * (i - 1) + 1] end
	local hand = call('HMGET', T .. INDEX.claimed .. ':' .. gr, unpack(runs))
	local function place(i)
		if not at then
			at = {}
			for p in string.gmatch(places, '%d+') do at[#at + 1] = p end
		end
		return at[i]
	end
	for i = 1, n do
		local no, k = runs[i], base + width * (i - 1) + 2
		local verdict = repeated and record.t[place(i)]
		if not verdict and hand[i] == ARGV[k] and (fence ~= '' or leads[dec(slotOf(no)) .. ':' .. gr]) then verdict = usual(no, ARGV[k], k, runs) end
		if not verdict then verdict = carryOut(unusual({ no = no, shard = dec(slotOf(no)) .. ':' .. gr, ic = ARGV[k] }, k)) end
		odd = odd or verdict ~= VERDICT.committed
		verdicts[i] = verdict
	end
	fresh = true
	if not odd then
		record.s = record.s .. ',' .. places
		return ''
	end
	for i = 1, n do record.t[place(i)] = verdicts[i] end
	return verdicts
end

-- entry returns the entry at a place of the arguments: location, head; none if that is ''.
local function entryAt(k)
	if ARGV[k + 1] == '' then return none end
	return { { loc = ARGV[k], head = ARGV[k + 1], large = false } }
end

-- steps carries out turns that are one small entry: of each its location and head.
local function steps(gr)
	return section(gr, 4, function(no, ic, k)
		return call('HSETNX', T .. 'e:' .. no .. ':' .. ic, ARGV[k + 1], ARGV[k + 2]) == 1 and VERDICT.committed
	end, function(t, k)
		t.short, t.entries = true, entryAt(k + 1)
		return t
	end)
end

-- altered returns the field m of a running run after an update to a status; nil if it is
-- not one that this knows of.
local function altered(kept, to, build, size)
	local st, co, mk, wa, ic, ge, sa, en, su, sk, al, is, os, cr, of, gr, wf, bu, texts = string.match(kept, MAIN)
	if st ~= STATUS.running or co ~= CONDITION.claimed or mk ~= '' or of ~= '' or sa == '' then return nil end
	local g, w, b = tonumber(gr), tonumber(wf), tonumber(bu)
	local name, old = string.sub(texts, g + 1, g + w), string.sub(texts, g + w + 1, g + w + b)
	if less(old, build) then old = build end
	co = to == STATUS.running and CONDITION.claimed or CONDITION.idle
	if size then os = size end
	en = to ~= STATUS.running and nowText or ''
	return to .. ';' .. co .. ';;;' .. ic .. ';' .. ge .. ';' .. sa .. ';' .. en .. ';;;;' .. is .. ';' .. os .. ';' .. cr .. ';;'
		.. gr .. ';' .. wf .. ';' .. #old .. ';' .. string.sub(texts, 1, g) .. name .. old .. string.sub(texts, g + w + b + 1), name
end

-- updates carries out turns that are at most one small entry and an update that says no
-- more than a status, which is running or an end, a build, and of each the output: of
-- each location and head of the entry, and the output.
local function updates(gr, text, build)
	local to, quiet = string.sub(text, 1, 1), nil
	return section(gr, 5, function(no, ic, k, runs)
		if quiet == nil then -- one look at all inboxes, of which most are empty
			local inboxes = {}
			for i = 1, #runs do inboxes[i] = T .. 'q:' .. runs[i] end
			quiet = call('EXISTS', unpack(inboxes)) == 0
		end
		if not quiet then return false end
		local op = ARGV[k + 3]
		local m, wf = altered(call('HGET', T .. 'r:' .. no, 'm'), to, build, op ~= '' and (#op > 1 and #op - 1 or '') or nil)
		if not m or ARGV[k + 2] ~= '' and call('HSETNX', T .. 'e:' .. no .. ':' .. ic, ARGV[k + 1], ARGV[k + 2]) == 0 then return false end
		if op ~= '' then
			call('HSET', T .. 'r:' .. no, 'm', m, 'op', op)
		else
			call('HSET', T .. 'r:' .. no, 'm', m)
		end
		if to ~= STATUS.running then
			rank('l:' .. STATUS.running .. ':' .. wf, no, false)
			rank('l:' .. to .. ':' .. wf, no, no)
			rank('E:' .. to .. ':' .. wf, ended(no), nowText)
			enter(INDEX.claimed .. ':' .. gr, no, false)
		end
		return VERDICT.committed
	end, function(t, k)
		local p, op = commonOf(text), ARGV[k + 3]
		t.entries = entryAt(k + 1)
		return updating(t, { st = p.st, mk = p.mk, wa = p.wa, ge = p.ge, isolate = false, endIsolation = false,
			discard = p.discard, unclaim = false,
			bu = build, op = op, re = '', wt = '', qu = '', sends = none })
	end)
end

local stepped = {}
for i = 1, num() do
	local gr, text, build = arg(), arg(), arg()
	stepped[i] = text == '' and steps(gr) or updates(gr, text, build)
end

-- sent carries out what a turn sends.
local function sent(result, t, verdict)
	local lists = {}
	if verdict == VERDICT.committed or verdict == VERDICT.stillReady then lists[1] = t.sends or none end
	if verdict == VERDICT.committed and t.update then lists[2] = t.update.sends end
	for i = 1, #lists do
		for k = 1, #lists[i] do result[#result + 1] = send(part, t.no, lists[i][k]) end
	end
end

local turns = {}
for i = 1, num() do turns[i] = readTurn() end
if #turns > 1 then -- one look at all inboxes, of which most are empty
	local inboxes = {}
	for i = 1, #turns do inboxes[i] = T .. 'q:' .. turns[i].no end
	if call('EXISTS', unpack(inboxes)) == 0 then
		for i = 1, #turns do empty[turns[i].no] = true end
	end
end
for i = 1, #turns do
	local t = turns[i]
	local known = record.t[t.index]
	again = known and true or false
	if not known then
		known = carryOut(t)
		record.t[t.index], fresh = known, true
	end
	local verdict = string.sub(known, 1, 1)
	local result = { verdict, string.sub(known, 2) }
	sent(result, t, verdict)
	turns[i] = result
end

local first = 'c' .. arg()
local answers, commands = {}, {}
again = record.t[first] and true or false
for i = 1, num() do commands[i] = readCommand() end
learn(commands)
for i = 1, #commands do answers[i] = apply(commands[i]) end
if #commands > 0 and not again then record.t[first], fresh = VERDICT.committed, true end
if fresh and batch ~= '' then call('HSET', T .. 'b', boot, batch .. ';' .. cmsgpack.pack(record)) end
flush()
return { nowText, epochs, stepped, turns, answers, posted, new }
