-- Turns: how they are read, which laws they may break, and how they are written.

-- overwritable reports whether an entry may replace the one at its location.
local function overwritable(old, oldLarge, e)
	local st = string.sub(old, 1, 1)
	if st == ENTRY.open or st == ENTRY.withdrawn or st == ENTRYLARGE.open or st == ENTRYLARGE.withdrawn then
		return true
	end
	if old ~= e.head then
		local seq, rest = string.match(old, '^.(%d+),%d+(;.*)$')
		local seq2, rest2 = string.match(e.head, '^.(%d+),%d+(;.*)$')
		if string.sub(e.head, 1, 1) ~= st or rest ~= rest2 or seq ~= '0' or seq2 == '0' then return false end
	end
	return not e.large or e.large == oldLarge
end

local updateTexts = {} -- by text, the part of an update that many of a batch have in common

-- namesOf reads names, each behind its length; nil: there are none.
local function namesOf(text)
	if text == '' then return nil end
	local names, at = {}, 1
	while at <= #text do
		local size, from = string.match(text, '^(%d+):()', at)
		at = from + tonumber(size)
		names[string.sub(text, from, at - 1)] = true
	end
	return names
end

-- updateOf reads status, marks, wake time, generation and flags of an update, and the names
-- of messages that it discards.
local function updateOf(text)
	local p = updateTexts[text]
	if not p then
		local st, mk, wa, ge, flags, names = string.match(text, '^(%d);(%d+);(%d+);(%d+);(%a*);(.*)$')
		local function has(flag) return string.find(flags, flag, 1, true) and true or false end
		p = { st = st, mk = mk, wa = wa, ge = ge,
			isolate = has(FLAG.isolate), endIsolation = has(FLAG.endIsolation), discard = has(FLAG.discard),
				unclaim = has(FLAG.unclaim), anyBuild = has(FLAG.anyBuild), more = has(FLAG.more),
			names = namesOf(names),
		}
		updateTexts[text] = p
	end
	return p
end

-- readUpdate reads the changes of a run's row.
local function readUpdate()
	local p = updateOf(arg())
	local u = {
		st = p.st, mk = p.mk, wa = p.wa, ge = p.ge, isolate = p.isolate, endIsolation = p.endIsolation,
		discard = p.discard, names = p.names, unclaim = p.unclaim, anyBuild = p.anyBuild,
		bu = arg(), op = arg(), re = '', wt = '', qu = '', keep = 0, sends = none, consumed = none, audit = none,
	}
	if p.more then u.re, u.wt, u.qu, u.keep = arg(), arg(), arg(), num() end
	return u
end

-- updating returns a turn like t, which has entries, with an update and nothing else.
local function updating(t, u)
	return {
		index = t.index, what = TURN.update, no = t.no, shard = t.shard, ic = t.ic, entries = t.entries, update = u,
		prune = none, gone = none, single = none, rewrites = none, seen = none, consumed = none, returned = none,
			answers = none, values = none, appends = none, tags = none,
		dead = none, refused = none, audit = none, sends = none,
	}
end

-- readTurn reads a turn from the arguments, in one of three forms: entries alone, entries
-- and an update, all parts.
local function readTurn()
	local t = { index = arg(), what = arg(), no = arg(), shard = arg(), ic = arg() }
	t.entriesOnly = t.what == TURN.entries
	if t.what ~= TURN.whole then
		t.entries = readEntries(num())
		return t.entriesOnly and t or updating(t, readUpdate())
	end
	t.fi = num()
	t.prune, t.seen, t.consumed, t.returned, t.answers, t.values, t.appends, t.tags, t.dead, t.audit, t.sends = {}, {},
		{}, {}, {}, {}, {}, {}, {}, {}, {}
	t.refused = {}
	t.gone, t.single = {}, {}
	for i = 1, num() do
		local from, to = arg(), arg()
		if to == from .. '\0' then -- one location: an entity prunes hundreds in a turn
			t.gone[from], t.single[#t.single + 1] = true, from
		else
			t.prune[#t.prune + 1] = { from, to }
		end
	end
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
	for i = 1, num() do t.appends[i] = { arg(), arg(), num() } end
	for i = 1, num() do t.tags[i] = { arg(), arg() } end
	for i = 1, num() do t.dead[i] = arg() end
	for i = 1, num() do t.refused[i] = { arg(), arg() } end
	for i = 1, num() do t.audit[i] = arg() end
	for i = 1, num() do t.sends[i] = readCommand() end
	if not flag() then return t end
	local u = readUpdate()
	if flag() then u.cont = { wf = arg(), ip = arg(), se = arg(), be = arg(), fi = arg() } end
	u.consumed, u.audit, u.sends = {}, {}, {}
	for i = 1, num() do u.consumed[i] = { arg(), arg() } end
	for i = 1, num() do u.audit[i] = arg() end
	for i = 1, num() do u.sends[i] = readCommand() end
	t.update = u
	return t
end

local function pruned(t, loc)
	if not t.prune then return false end
	if t.gone[loc] then return true end
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
	return { head = head, large = string.byte(head, 1) >= BYTE.large and call('HGET', T .. 'v:' .. key, loc) }
end

-- owned returns what decides about an item of the run: state, class, whether it has
-- a verdict; nil if the run has no such item.
local function owned(r, no)
	local f = call('HMGET', T .. 'i:' .. no, 'r', 's', 'y', 'a', 'k')
	if f[1] ~= r.no then return nil end
	return { s = f[2], y = f[3], a = f[4], k = f[5] }
end

-- canBecome are the statuses that may follow each one.
local canBecome = {
	[STATUS.queued] = NEXT.queued, [STATUS.running] = NEXT.running, [STATUS.suspended] = NEXT.suspended,
		[STATUS.stalled] = NEXT.stalled,
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

-- refusesItems returns why a turn's changes of items break a law, or nil.
local function refusesItems(t, r)
	for i = 1, #t.seen do
		if not owned(r, t.seen[i]) then return 'the run has no such item', t.seen[i] end
	end
	local consumed, verdicts, done, answered, returned = {}, {}, {}, {}, {}
	for i = 1, #t.consumed do
		local no = t.consumed[i][1]
		local it = owned(r, no)
		if not it or it.s ~= STATE.new and it.s ~= STATE.seen or done[no] then
			return 'the run has no such pending item to consume', no
		end
		consumed[no], verdicts[no], done[no] = true, t.consumed[i][2] ~= '', true
	end
	for i = 1, #t.dead do
		local no = t.dead[i]
		local it = owned(r, no)
		if not it or it.s ~= STATE.new and it.s ~= STATE.seen or done[no] or it.y ~= CLASS.letter then
			return 'the run has no such pending item for a dead letter', no
		end
		done[no] = true
	end
	for i = 1, #t.refused do
		local no = t.refused[i][1]
		local it = owned(r, no)
		if not it or it.s ~= STATE.new and it.s ~= STATE.seen or done[no]
			or it.y ~= CLASS.letter and it.k ~= KIND.delivery then
			return 'the run has no such pending item to refuse', no
		end
		done[no] = true
	end
	local u = t.update and t.update.consumed or none
	for i = 1, #u do
		local no = u[i][1]
		local it = owned(r, no)
		if not it or it.s ~= STATE.new and it.s ~= STATE.seen or done[no] then
			return 'the run has no such pending item to consume with the update', no
		end
		done[no] = true
	end
	for i = 1, #t.answers do
		local no = t.answers[i][1]
		local it = owned(r, no)
		local isOpen = it and it.y == CLASS.update and not it.a and not answered[no] and (it.s == STATE.consumed
			or consumed[no] and not verdicts[no])
		if not isOpen or t.answers[i][2] == '' then
			return 'the run has no such update that is consumed and not answered, or the answer is none', no
		end
		answered[no] = true
	end
	for i = 1, #t.returned do
		local id = t.returned[i].d
		local no = call('HGET', T .. 'x:' .. r.no, id)
		local it = no and owned(r, no)
		if returned[id] or it and it.s ~= STATE.consumed and not consumed[no] then
			return 'the item to be returned is not consumed', id
		end
		if it and it.y ~= CLASS.update and (it.a or verdicts[no] or answered[no]) then
			return 'the item to be returned was answered', id
		end
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
		if u.st ~= r.st and not string.find(canBecome[r.st], u.st, 1, true) then
			return 'the run cannot change its status so', r.st .. ' to ' .. u.st
		end
		if u.cont and r.st ~= STATUS.running then return 'the run cannot continue as new', r.st end
		if u.ge ~= '0' and tonumber(u.ge) <= tonumber(r.ge) then return 'the generation does not follow', r.ge end
	end
	if t.what == TURN.update and #t.entries == 1 and not t.entries[1].large then
		-- No other law can refuse it, so an entry at a free location may be written now.
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

-- abandon answers the updates that have no answer, or of these only those that were received.
local function abandon(r, received)
	for no, entry in pairs(open(r)) do
		if class(entry) == CLASS.update and (not received or state(entry) == STATE.consumed) then
			finish(r, no, entry, TEXT.unanswered)
		end
	end
end

-- bury makes dead letters of the items that a run leaves behind, or discards all, or the
-- messages of these names.
local function bury(r, all, names)
	for no, entry in pairs(open(r)) do
		if class(entry) == CLASS.letter and (state(entry) == STATE.new or state(entry) == STATE.seen) then
			if all or names and kind(entry) == KIND.message and names[call('HGET', T .. 'i:' .. no, 'n') or ''] then
				finish(r, no, entry, '')
			else
				mark(r, no, STATE.dead, entry)
				rank('D', no, no)
			end
		end
	end
end

-- refuse makes a dead letter of an item that the run's code has no use for. Another
-- resolution may then come under its ID.
local function refuse(r, no, reason)
	local entry = open(r)[no]
	mark(r, no, STATE.dead, entry)
	call('HSET', T .. 'i:' .. no, 'a', reason)
	rank('D', no, no)
	if kind(entry) ~= KIND.resolution then return end
	local id = 'refused:' .. no
	call('HDEL', T .. 'x:' .. r.no, call('HGET', T .. 'i:' .. no, 'd'))
	call('HSET', T .. 'i:' .. no, 'd', id)
	call('HSET', T .. 'x:' .. r.no, id, no)
end

-- unbury makes a run's dead letters new again, except those for an older incarnation and
-- those that were refused.
local function unbury(r)
	for no, entry in pairs(open(r)) do
		if state(entry) == STATE.dead and call('HEXISTS', T .. 'i:' .. no, 'a') == 0 then
			local ic = call('HGET', T .. 'i:' .. no, 'c') or '0'
			if kind(entry) == KIND.message or tonumber(ic) >= tonumber(r.ic) then
				mark(r, no, STATE.new, entry)
				rank('D', no, false)
			end
		end
	end
end

-- giveAgain puts a consumed item into the inbox again. One that was swept gets its number
-- back if that is free.
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
	if given > 0 and slotOf(given) == r.slot and math.floor(given / slots) <= highest('i') + 1 and call('EXISTS', T
		.. 'i:' .. it.no) == 0 then
		no = it.no
		counts.i = math.max(counts.i, math.floor(given / slots))
	end
	insert(r, it, floor, no, STATE.new, it.t)
end

-- addToStream adds an item, and drops those that stand keep or more before it; 0: none.
local function addToStream(no, name, rewound, value, keep)
	local key, list = T .. 'f:' .. no, T .. 's:' .. no .. ':' .. name
	call('RPUSH', list, nowText .. rewound .. value)
	local last, dropped = string.match(call('HGET', key, 's' .. name) or '0;0;', '^(%d+);%d+;(%d*)')
	last = last + 1
	if keep > 0 and last - keep > (tonumber(dropped) or 0) then
		call('LTRIM', list, dec(-keep), -1)
		dropped = dec(last - keep)
	end
	call('HSET', key, 's' .. name, dec(last) .. ';' .. nowText .. ';' .. dropped)
end

-- publish writes the values, streams and tags of a turn, which readers see.
local function publish(t, r)
	local key = T .. 'f:' .. r.no
	for i = 1, #t.values do
		local name = 'v' .. t.values[i][1]
		local last = string.match(call('HGET', key, name) or '0;', '^(%d+);')
		call('HSET', key, name, dec(last + 1) .. ';' .. nowText .. ';' .. t.values[i][2])
	end
	if t.rewound then
		for _, name in ipairs(call('HKEYS', key)) do
			if string.sub(name, 1, 1) == 's' then addToStream(r.no, string.sub(name, 2), 'r', '', 0) end
		end
	end
	for i = 1, #t.appends do addToStream(r.no, t.appends[i][1], 'i', t.appends[i][2], t.appends[i][3]) end
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
	abandon(r, true)
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

-- holdsBack reports whether something unexamined that the update does not consume keeps the run
-- from suspending, ending, or beginning to undo.
local function holdsBack(r, u)
	local consumes = {}
	for i = 1, #u.consumed do consumes[u.consumed[i][1]] = true end
	local suspends = u.st == STATUS.suspended and not marked(u.mk, MARK.pausedOrHeld)
	local ends = terminal(u.st) and not terminal(r.st) or marked(u.mk, MARK.undoing) and not marked(r.mk, MARK.undoing)
	for no, entry in pairs(open(r)) do
		if state(entry) == STATE.new and not consumes[no] and (suspends or ends and (kind(entry) == KIND.cancel
			or kind(entry) == KIND.terminate)) then
			return true
		end
	end
	return false
end

-- update changes the run's row.
local function update(r, u)
	local new = {}
	if u.anyBuild or less(r.bu, u.bu) then new.bu = u.bu end
	if not u.isolate and not u.endIsolation then new.su, new.sk, new.al = false, false, false end
	if holdsBack(r, u) then
		change(r, new)
		return VERDICT.stillReady
	end
	for i = 1, #u.consumed do finish(r, u.consumed[i][1], open(r)[u.consumed[i][1]], u.consumed[i][2]) end
	note(r.no, u.audit)
	if terminal(u.st) and not terminal(r.st) then
		new.en = nowText
		if u.keep > 0 then new.xp = dec(now + math.max(u.keep, MICROS.minRetention)) end
		if u.keep < 0 then new.xp = '-1' end
		abandon(r, false)
		bury(r, u.discard, u.names)
	elseif not terminal(u.st) then
		if terminal(r.st) then unbury(r) end
		new.en = false
	end
	new.st, new.mk, new.of = u.st, u.mk ~= '0' and u.mk, ''
	if new.xp or new.en == nil and expires(r) then
		new.of = 'x'
	elseif expires(r) then
		new.xp = false
	end
	if u.wt ~= '' then
		new.wt, new.of = u.wt, new.of .. 'w'
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
	if u.endIsolation then new.sk = false end
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
	if t.entriesOnly then
		for i = 1, #t.entries do writeEntry(t.no, t.ic, t.entries[i], t.entries[i].old) end
		return VERDICT.committed
	end
	inPieces('HDEL', 'e:' .. t.no .. ':' .. t.ic, t.single)
	inPieces('HDEL', 'v:' .. t.no .. ':' .. t.ic, t.single)
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
	for i = 1, #t.refused do refuse(r, t.refused[i][1], t.refused[i][2]) end
	note(r.no, t.audit)
	local verdict = VERDICT.committed
	if t.update then verdict = update(r, t.update) end
	if #t.returned > 0 and terminal(r.st) then bury(r, false) end
	examine(r)
	return verdict
end

-- claimedIn returns the incarnation of a claimed run of a group, or false.
local function claimedIn(gr, no)
	local changed = hashes[INDEX.claimed .. ':' .. gr]
	if changed and changed[no] ~= nil then return changed[no] end
	return call('HGET', T .. INDEX.claimed .. ':' .. gr, no)
end

-- append writes the entries of a turn that has nothing else, if their locations are free,
-- as mostly. Otherwise it writes nothing and returns false; the turn is then examined like
-- any other.
local function append(t)
	local slot, gr = string.match(t.shard, '^(%d+):(.*)$')
	if slotOf(t.no) ~= tonumber(slot) or claimedIn(gr, t.no) ~= t.ic then return false end
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
