-- Commands: starts of runs, and items for their inboxes.

local whole = false -- answers have the whole row of a run that was just made
local again = false -- the command has been applied before, in the same batch
local sentTo = {}   -- parts for which something was put into the outbox

-- readEntries reads entries from the arguments: of each its location, and its head for the
-- hash e. A head that begins with a letter is followed by the value for the hash v.
local function readEntries(n)
	local list = {}
	for i = 1, n do
		local e = { loc = arg(), head = arg(), large = false }
		if string.byte(e.head, 1) >= BYTE.large then e.large = arg() end
		list[i] = e
	end
	return list
end

local function writeEntry(no, ic, e, old)
	call('HSET', T .. 'e:' .. no .. ':' .. ic, e.loc, e.head)
	if e.large then
		call('HSET', T .. 'v:' .. no .. ':' .. ic, e.loc, e.large)
	elseif old and string.byte(old, 1) >= BYTE.large then
		call('HDEL', T .. 'v:' .. no .. ':' .. ic, e.loc)
	end
end

-- readCommand reads a command from the arguments: an item, a start, or a start that has no
-- more than most.
local function readCommand()
	local what, adopt, slot, fr, fi = arg(), flag(), num(), num(), num()
	if what == COMMAND.small then
		return {
			what = COMMAND.start, plain = true, adopt = adopt, slot = slot, fr = fr, fi = fi,
			id = arg(), gr = arg(), home = slot, wf = arg(), o = arg(), ip = arg(), bu = arg(),
			at = '0', seconds = 0, micros = 0, pa = '0', pl = '', hd = '',
			tg = none, items = none, audit = none, entries = none, past = none,
		}
	end
	local c = { what = what, adopt = adopt, slot = slot, fr = fr, fi = fi }
	if c.what == COMMAND.item then
		c.to = arg()
		c.item = readItem()
		return c
	end
	c.id, c.gr, c.home, c.wf, c.o, c.ip, c.bu, c.at = arg(), arg(), num(), arg(), arg(), arg(), arg(), arg()
	c.seconds, c.micros, c.replace, c.pa, c.pl, c.hd = num(), num(), num(), arg(), arg(), arg()
	c.tg, c.items, c.audit, c.entries, c.past = {}, {}, {}, {}, {}
	for i = 1, num() do c.tg[i] = arg() end
	for i = 1, num() do c.items[i] = readItem() end
	c.fork = flag()
	if c.fork then
		c.ra, c.sa = arg(), arg()
		c.entries = readEntries(num())
		for i = 1, num() do
			local it = readItem()
			it.s, it.t = arg(), arg()
			c.past[i] = it
		end
		for i = 1, num() do c.audit[i] = arg() end
	end
	if flag() then c.qu, c.ask = arg(), readCommand() end
	return c
end

-- answer returns the answer to a command.
local function answer(outcome, r, item, claimed, known)
	return { outcome, item or '', claimed and '1' or '', snapshot(r.no, ROW_INPUT), known and '1' or '' }
end

-- claims claims a run if the command asks for it and may, and reports whether it is
-- claimed for the command.
local function claims(c, r)
	if not c.adopt or not leads[dec(r.slot) .. ':' .. r.gr] then return false end
	if again then return r.co == CONDITION.claimed end
	if paused(r) or c.item and c.item.k == KIND.pause then return false end
	local queued = r.st == STATUS.queued and (r.co == CONDITION.ready or r.wa and tonumber(r.wa) <= now)
	local granted = held(r) and c.item and c.item.k == KIND.grant and not terminal(r.st) and r.st ~= STATUS.stalled
	if r.co == CONDITION.claimed or held(r) and not granted or not granted and not queued and r.st ~= STATUS.suspended then
		return false
	end
	take(r, false)
	return true
end

-- tagged and untagged keep the index of tags, each 'key=value'.
local function tagged(no, tags)
	for i = 1, #tags do rank('t:' .. tags[i], no, no) end
end
local function untagged(no, tags)
	for i = 1, #tags do rank('t:' .. tags[i], no, false) end
end

local send -- below

-- noteWorkflow adds to the workflows that runs have; once in an act.
local noted = {}
local function noteWorkflow(wf)
	if not noted[wf] then call('SADD', T .. 'w', wf) end
	noted[wf] = true
end

-- ids are the numbers of runs by ID, as far as the act has looked them up; false if there
-- is none.
local ids = {}

local function numberOf(id)
	if ids[id] == nil then ids[id] = call('HGET', T .. 'id', id) end
	return ids[id]
end

-- learn looks up the numbers of the runs that commands name.
local function learn(commands)
	local names = {}
	for i = 1, #commands do
		local c = commands[i]
		local id = c.id or string.byte(c.to, 1) == BYTE.byID and string.sub(c.to, 2)
		if id and ids[id] == nil then names[#names + 1] = id end
	end
	if #names == 0 then return end
	local found = call('HMGET', T .. 'id', unpack(names))
	for i = 1, #names do ids[names[i]] = found[i] end
end

local function name(id, no)
	ids[id] = no
	enter('id', id, no)
end

-- rename frees a run's ID by naming the run ID@N. It returns false if that is too long or
-- taken.
local function rename(r)
	local id = r.id .. '@' .. r.no
	if #id > MAX.runID or numberOf(id) then return false end
	name(id, r.no)
	change(r, { id = id })
	return true
end

-- replaces reports whether a start takes the ID of an existing run.
local function replaces(c, r)
	if c.replace == EXISTING.replaceEnded then return terminal(r.st) end
	return c.replace == EXISTING.replaceFailed and (r.st == STATUS.failed or r.st == STATUS.cancelled)
end

-- due returns when a run is to begin, or false: now.
local function due(c)
	local at = c.at
	if c.seconds + c.micros > 0 then
		local seconds, micros = c.seconds + math.floor(now / MICROS.second), c.micros + now % MICROS.second
		if micros >= MICROS.second then seconds, micros = seconds + 1, micros - MICROS.second end
		local after = string.format('%.0f%06.0f', seconds, micros)
		if later(after, at) then at = after end
	end
	return later(at, nowText) and at
end

-- made returns the answer to a start that has made a run.
local function made(r, claimed)
	if whole then return answer(OUTCOME.applied, r, nil, claimed) end
	local new = { r.no, r.st, r.co, r.mk or '', r.wa or '', nowText, r.sa or '' }
	return { OUTCOME.applied, '', claimed and '1' or '', new, '' }
end

local function start(c)
	local no = numberOf(c.id)
	if no then
		local r = row(no)
		local first = call('HGET', T .. 'r:' .. no, r.ic == '0' and 'o' or 'fi')
		if string.sub(first, 1, MAX.seed) == string.sub(c.o, 1, MAX.seed) then
			local claimed = claims(c, r)
			return answer(OUTCOME.applied, r, nil, claimed)
		end
		if not replaces(c, r) or not rename(r) then
			return answer(OUTCOME.exists, r)
		end
	end
	no = number('r', c.home, c.fr)
	local r = {
		no = no, slot = c.home, id = c.id, gr = c.gr, wf = c.wf, st = STATUS.queued, co = CONDITION.ready,
		ic = '0', ge = '0', wa = due(c), sa = c.sa ~= '0' and c.sa,
		is = c.ip ~= '' and #c.ip - 1, cr = nowText, of = '', bu = '',
	}
	if r.wa then r.co = CONDITION.idle end
	if c.qu then r.mk = dec(MARK.held) end
	local claimed = c.adopt and r.co == CONDITION.ready and not c.qu and not again and leads[dec(r.slot) .. ':' .. r.gr]
	if claimed then r.st, r.co, r.sa, r.bu = STATUS.running, CONDITION.claimed, r.sa or nowText, c.bu end
	empty[no] = true
	name(c.id, no)
	rank('R', no, no)
	noteWorkflow(c.wf)
	place(no, r.gr, none, r)
	if c.plain then
		if c.ip ~= '' then
			call('HSET', T .. 'r:' .. no, 'm', main(r), 'o', c.o, 'ip', c.ip)
		else
			call('HSET', T .. 'r:' .. no, 'm', main(r), 'o', c.o)
		end
		return made(r, claimed)
	end
	local f = { 'm', main(r), 'o', c.o }
	local function set(name, value)
		if value and value ~= '' then
			f[#f + 1] = name
			f[#f + 1] = value
		end
	end
	set('qu', c.qu)
	set('ip', c.ip)
	set('pa', c.pa ~= '0' and c.pa)
	set('pl', c.pl)
	set('hd', c.hd)
	set('tg', table.concat(c.tg, '\n'))
	set('ra', c.fork and c.ra)
	call('HSET', T .. 'r:' .. no, unpack(f))
	if c.pa ~= '0' then rank('c:' .. c.pa, no, no) end
	tagged(no, c.tg)
	for i = 1, #c.entries do writeEntry(no, '0', c.entries[i]) end
	local floor = c.fi
	for i = 1, #c.past do
		insert(r, c.past[i], floor, nil, c.past[i].s, c.past[i].t)
		floor = floor + 1
	end
	if c.fork then note(no, c.audit) end
	for i = 1, #c.items do
		insert(r, c.items[i], floor)
		floor = floor + 1
	end
	if c.ask then send(part, no, c.ask) end
	return made(r, claimed)
end

-- receive puts an item into an inbox.
local function receive(c)
	local it = c.item
	local no = string.sub(c.to, 2)
	if string.byte(c.to, 1) == BYTE.byID then no = numberOf(no) end
	local r = no and row(no)
	if not r then return { OUTCOME.notFound } end
	local known = call('HGET', T .. 'x:' .. no, it.d)
	if known then
		if call('HGET', T .. 'i:' .. known, 'o') ~= (it.o ~= '' and it.o) then return answer(OUTCOME.duplicate, r) end
		local claimed = again and claims(c, r)
		return answer(OUTCOME.applied, r, known, claimed, true)
	end
	if terminal(r.st) and (it.y ~= CLASS.verb or expiring(r)) then return answer(OUTCOME.ended, r) end
	known = insert(r, it, c.fi)
	local claimed = claims(c, r)
	return answer(OUTCOME.applied, r, known, claimed)
end

local function apply(c)
	if c.what == COMMAND.start then return start(c) end
	return receive(c)
end

-- putOut puts a command into the outbox for another part, under a number above the last one
-- of that outbox. It is taken from the clock: should this server lose acknowledged writes, no
-- number is given twice. Before the command stand its number and the one before it.
local function putOut(to, c)
	local last = call('HGET', T .. 'oq', to) or '0'
	local n = dec(math.max(tonumber(last) + 1, math.floor(now / MICROS.millisecond) * 1024))
	call('HSET', T .. 'oq', to, n)
	local blob = n .. ';' .. last .. ';' .. cmsgpack.pack(c)
	if call('RPUSH', T .. 'o:' .. to, blob) == 1 then call('SADD', T .. 'ow', to) end
	sentTo[#sentTo + 1] = to
	return { OUTCOME.putOut, to, n, blob }
end

-- send carries out a command that a turn has sent, here or by the outbox. from and no are
-- the part and the number of the turn's run.
function send(from, no, c)
	local to = c.slot % parts
	if to ~= part then
		c.from, c.by, c.again = from, no, again
		return putOut(to, c)
	end
	local a = apply(c)
	if (a[1] == OUTCOME.notFound or a[1] == OUTCOME.ended) and c.item.k == KIND.watch then
		local it = c.item
		local lost = {
			what = COMMAND.item, adopt = false, slot = slotOf(no), fr = 0, fi = c.fi + 1, to = COMMAND.byNumber .. no,
			item = {
				k = KIND.ending, y = CLASS.letter, d = it.d, n = it.n, o = it.o, c = it.c, g = '0', l = it.l, f = '1',
				v = '', h = '',
			},
		}
		if from == part then
			receive(lost)
		else
			putOut(from, lost)
		end
	end
	return a
end
