-- A group commit, or the part of it that is of one tag: turns, then commands. Also
-- Apply, whose batch has no number and no leases.
--
-- Arguments: node, boot, number of the batch ('' of Apply), part, parts, leases
-- (shard, epoch), turns (index in the batch, turn), the place of the first command in
-- the batch, commands. Each list begins with its length.
--
-- Answer: time, the shards' epochs where the given ones are not current, of each turn
-- the verdict, the reason and the answers to its sends, of each command the answer,
-- and the parts to which something was posted.

-- overwritable reports whether an entry may be written over what stands.
local function overwritable(old, oldLarge, e)
	local st = string.sub(old, 1, 1)
	if st == '1' or st == '4' or st == 'a' or st == 'd' then return true end
	if old ~= e.head then
		local seq, rest = string.match(old, '^.(%d+),%d+(;.*)$')
		local seq2, rest2 = string.match(e.head, '^.(%d+),%d+(;.*)$')
		if string.sub(e.head, 1, 1) ~= st or rest ~= rest2 or seq ~= '0' or seq2 == '0' then return false end
	end
	return not e.large or e.large == oldLarge
end

-- readTurn reads a turn from the arguments. Most are short: E, entries alone.
local function readTurn()
	local t = { short = arg() == 'E', no = arg(), shard = arg(), ic = arg() }
	if t.short then
		t.entries = readEntries(num())
		return t
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
	t.rewound = arg() == '1'
	for i = 1, num() do t.appends[i] = { arg(), arg() } end
	for i = 1, num() do t.tags[i] = { arg(), arg() } end
	for i = 1, num() do t.dead[i] = arg() end
	for i = 1, num() do t.audit[i] = arg() end
	for i = 1, num() do t.sends[i] = readCommand() end
	if arg() == '0' then return t end
	local u = { st = arg(), mk = arg(), wa = arg(), ge = arg(), re = arg(), bu = arg(), al = arg() == '1', spared = arg() == '1', op = arg(), wt = arg(),
		discard = arg() == '1', back = arg() == '1', qu = arg(), sends = {} }
	if arg() == '1' then u.cont = { wf = arg(), ip = arg(), se = arg(), be = arg(), fi = arg() } end
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
local canBecome = { ['1'] = '267', ['2'] = '34567', ['3'] = '267', ['4'] = '2', ['5'] = '2', ['6'] = '2', ['7'] = '26' }

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
		if not it or it.s ~= '1' and it.s ~= '2' or done[no] then return 'the run has no such pending item to consume', no end
		consumed[no], verdicts[no], done[no] = true, t.consumed[i][2] ~= '', true
	end
	for i = 1, #t.dead do
		local no = t.dead[i]
		local it = owned(r, no)
		if not it or it.s ~= '1' and it.s ~= '2' or done[no] or it.y ~= 'l' then return 'the run has no such pending item for a dead letter', no end
		done[no] = true
	end
	for i = 1, #t.answers do
		local no = t.answers[i][1]
		local it = owned(r, no)
		local isOpen = it and it.y == 'u' and not it.a and not answered[no] and (it.s == '3' or consumed[no] and not verdicts[no])
		if not isOpen or t.answers[i][2] == '' then return 'the run has no such update that is consumed and not answered, or the answer is none', no end
		answered[no] = true
	end
	for i = 1, #t.returned do
		local id = t.returned[i].d
		local no = call('HGET', T .. 'x:' .. r.no, id)
		local it = no and owned(r, no)
		if returned[id] or it and it.s ~= '3' and not consumed[no] then return 'the item to be returned is not consumed', id end
		if it and it.y ~= 'u' and (it.a or verdicts[no] or answered[no]) then return 'the item to be returned was answered', id end
		returned[id] = true
	end
end

-- refuses returns why a turn breaks a law, and where, or nil.
local function refuses(t, r)
	if not r then return 'there is no such run', t.no end
	if dec(r.slot) .. ':' .. r.gr ~= t.shard then return 'the run is of another shard', r.gr end
	if r.ic ~= t.ic then return 'the run is in another incarnation', r.ic end
	if r.co ~= '2' then return 'the run is not claimed', '' end
	local u = t.update
	if u then
		if u.st ~= r.st and not string.find(canBecome[r.st], u.st, 1, true) then return 'the run cannot change its status so', r.st .. ' to ' .. u.st end
		if u.cont and r.st ~= '2' then return 'the run cannot continue as new', r.st end
		if u.ge ~= '0' and tonumber(u.ge) <= tonumber(r.ge) then return 'the generation does not follow', r.ge end
	end
	local why, at = refusesEntries(t)
	if not why and not t.short then why, at = refusesItems(t, r) end
	return why, at
end

-- abandon answers the updates that have no answer.
local function abandon(r)
	for no, entry in pairs(open(r)) do
		if class(entry) == 'u' then finish(r, no, entry, 'vx') end
	end
end

-- bury makes dead letters of what a run leaves behind, or discards it.
local function bury(r, discard)
	for no, entry in pairs(open(r)) do
		if class(entry) == 'l' and (state(entry) == '1' or state(entry) == '2') then
			if discard then
				finish(r, no, entry, '')
			else
				mark(r, no, '4', entry)
				call('ZADD', T .. 'D', no, no)
			end
		end
	end
end

-- unbury makes a run's dead letters new again, except those for an older incarnation.
local function unbury(r)
	for no, entry in pairs(open(r)) do
		if state(entry) == '4' then
			local ic = call('HGET', T .. 'i:' .. no, 'c') or '0'
			if kind(entry) == '1' or tonumber(ic) >= tonumber(r.ic) then
				mark(r, no, '1', entry)
				call('ZREM', T .. 'D', no)
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
		call('ZREM', T .. 'C', no)
		mark(r, no, '1', '1' .. f[2] .. f[3])
		return
	end
	local highest = tonumber(call('HGET', T .. 'n', 'i') or '0')
	local given = tonumber(it.no)
	if given > 0 and slotOf(given) == r.slot and math.floor(given / slots) <= highest + 1 and call('EXISTS', T .. 'i:' .. it.no) == 0 then
		no = it.no
		if math.floor(given / slots) > highest then call('HINCRBY', T .. 'n', 'i', 1) end
	end
	insert(r, it, floor, no, '1', it.t)
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
			local f = call('HMGET', T .. 'r:' .. r.no, 'se', 'ih', 'wf')
			new.fi = table.concat(f)
		end
	end
	call('ZADD', T .. 'F', r.no, r.no)
	noteWorkflow(c.wf)
	new.ic, new.wf, new.se, new.ra, new.be = dec(r.ic + 1), c.wf, c.se, false, later(c.be, nowText) and c.be or nowText
	new.ip, new.is = c.ip ~= '' and c.ip, #c.ip > 1 and dec(#c.ip - 1)
end

-- holdsBack reports whether something unexamined keeps the run from suspending,
-- ending, or beginning to undo.
local function holdsBack(r, u)
	local suspends = u.st == '3' and not marked(u.mk, 17)
	local ends = terminal(u.st) and not terminal(r.st) or marked(u.mk, 4) and not marked(r.mk, 4)
	for _, entry in pairs(open(r)) do
		if state(entry) == '1' and (suspends or ends and (kind(entry) == '3' or kind(entry) == '4')) then return true end
	end
	return false
end

-- update changes the run's row.
local function update(r, u)
	local new = {}
	if less(r.bu, u.bu) then new.bu = u.bu end
	if not u.al and not u.spared then new.su, new.sk, new.al = false, false, false end
	if holdsBack(r, u) then
		change(r, new)
		return '2'
	end
	if terminal(u.st) and not terminal(r.st) then
		new.en = nowText
		abandon(r)
		bury(r, u.discard)
	elseif not terminal(u.st) then
		if terminal(r.st) then unbury(r) end
		new.en = false
	end
	new.st, new.mk, new.re, new.wt = u.st, u.mk ~= '0' and u.mk, u.re ~= '' and u.re, u.wt ~= '' and u.wt
	new.wa = u.wa ~= '0' and (u.st == '3' or u.st == '1' and later(u.wa, nowText)) and u.wa
	if u.ge ~= '0' then new.ge = u.ge end
	if u.qu ~= '' then new.qu = u.qu end
	new.al = u.al and '1'
	if u.op ~= '' then new.op, new.os = u.op, #u.op > 1 and dec(#u.op - 1) end
	if u.cont then continueAsNew(r, u.cont, new) end
	if u.st == '2' and not r.sa then new.sa = nowText end
	if u.st == '2' and not marked(u.mk, 17) and not u.back then
		new.co = '2'
	elseif u.st == '2' or u.st == '1' and not new.wa then
		new.co = '1'
	else
		new.co = '0'
	end
	change(r, new)
	return '1'
end

-- write writes a turn that breaks no law and returns the verdict.
local function write(t, r)
	if t.short then
		for i = 1, #t.entries do writeEntry(t.no, t.ic, t.entries[i], t.entries[i].old) end
		return '1'
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
		if q[no] and state(q[no]) == '1' then mark(r, no, '2', q[no]) end
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
		mark(r, no, '4', q[no])
		call('ZADD', T .. 'D', no, no)
	end
	note(r.no, t.audit)
	local verdict = '1'
	if t.update then verdict = update(r, t.update) end
	if #t.returned > 0 and terminal(r.st) then bury(r, false) end
	examine(r)
	return verdict
end

-- append writes the entries of a short turn if nothing is at their locations, as
-- mostly. It reports whether it has; else nothing is written, and the turn is to be
-- looked at as any other.
local function append(t)
	local f = call('HMGET', T .. 'r:' .. t.no, 'co', 'gr', 'ic')
	if f[1] ~= '2' or dec(slotOf(t.no)) .. ':' .. f[2] ~= t.shard or (f[3] or '0') ~= t.ic then return false end
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

local node, boot, batch = arg(), arg(), arg()
part, parts = num(), num()
local epochs = readLeases()

-- The record of the last batch of a boot: its number, and what became of its turns.
local field = node .. '\n' .. boot
local record, fresh = { no = batch, at = nowText, t = {} }, false
if batch ~= '' then
	local packed = call('HGET', T .. 'b', field)
	if packed then
		local former = cmsgpack.unpack(packed)
		if tonumber(former.no) > tonumber(batch) then return redis.error_reply('STET former batch ' .. former.no) end
		if former.no == batch then record = former end
	end
end

-- sent carries out what a turn sends.
local function sent(result, t, verdict)
	local lists = {}
	if verdict == '1' or verdict == '2' then lists[1] = t.sends or {} end
	if verdict == '1' and t.update then lists[2] = t.update.sends end
	for i = 1, #lists do
		for k = 1, #lists[i] do result[#result + 1] = send(part, t.no, lists[i][k]) end
	end
end

local turns = {}
for i = 1, num() do
	local index = arg()
	local t = readTurn()
	local known = record.t[index]
	local verdict, why, at = known and string.sub(known, 1, 1), known and string.sub(known, 2) or '', ''
	again = known and true or false
	if not known then
		if not leads[t.shard] then
			verdict = '3'
		elseif t.short and #t.entries <= 1000 and append(t) then
			verdict, why = '1', ''
		else
			local r = row(t.no)
			why, at = refuses(t, r)
			verdict = why and '4' or write(t, r)
			why = why and why .. ': ' .. at or ''
		end
		record.t[index], fresh = verdict .. why, true
	end
	local result = { verdict, why }
	sent(result, t, verdict)
	turns[i] = result
end

local first = 'c' .. arg()
local answers, count = {}, num()
again = record.t[first] and true or false
for i = 1, count do answers[i] = apply(readCommand()) end
if count > 0 and not again then record.t[first], fresh = '1', true end
if fresh and batch ~= '' then call('HSET', T .. 'b', field, cmsgpack.pack(record)) end
return { nowText, epochs, turns, answers, posted }
