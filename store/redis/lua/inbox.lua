-- The inbox of a run. The hash q of a run holds its items that are not finished:
-- new (1), seen (2), dead (4), and updates that are consumed (3) without an answer;
-- of each the state, the class and the kind. The class is v for a verb, u for an
-- update, l for a letter, n for none of these.
--
-- Runs with unexamined items are in the index d, which each claim goes through. One that is
-- not claimed, and that all these items leave alone because it is paused, held or delayed,
-- may be in the index p in place of it. It comes back when it is claimed (stir), and only a claim
-- leads to a change of the run that could make one of the items count.

-- empty are runs that the act knows to have no unfinished items.
local empty = {}

-- open returns the unfinished items of a run, by number; a turn reads them once. r.called is
-- set if one of them is or was unexamined: the index of such runs may then have the run.
local function open(r)
	if not r.q then
		local q, flat = {}, empty[r.no] and {} or call('HGETALL', T .. 'q:' .. r.no)
		for i = 1, #flat, 2 do
			q[flat[i]] = flat[i + 1]
			if string.byte(flat[i + 1], 1) == BYTE.new then r.called = true end
		end
		r.q = q
	end
	return r.q
end

local function state(entry) return string.sub(entry, 1, 1) end
local function class(entry) return string.sub(entry, 2, 2) end
local function kind(entry) return string.sub(entry, 3) end

-- mark gives an item another state.
local function mark(r, no, st, entry)
	call('HSET', T .. 'i:' .. no, 's', st)
	entry = st .. string.sub(entry, 2)
	call('HSET', T .. 'q:' .. r.no, no, entry)
	empty[r.no] = nil
	if r.q then r.q[no] = entry end
	if st == STATE.new then r.called = true end
end

-- finish consumes an item and deletes its value. An update stays open until it has an
-- answer.
local function finish(r, no, entry, verdict)
	if verdict ~= '' then
		call('HSET', T .. 'i:' .. no, 's', STATE.consumed, 'a', verdict)
	else
		call('HSET', T .. 'i:' .. no, 's', STATE.consumed)
	end
	call('HDEL', T .. 'i:' .. no, 'v', 'h')
	if class(entry) == CLASS.update and verdict == '' then
		mark(r, no, STATE.consumed, entry)
		return
	end
	call('HDEL', T .. 'q:' .. r.no, no)
	rank('C', no, no)
	if r.q then r.q[no] = nil end
end

-- calls reports whether an unexamined item makes a run ready for a node, and knows whether
-- that one can load it.
local function calls(r, entry, knows)
	local k = kind(entry)
	if k == KIND.terminate or k == KIND.pause then return true end
	local isPaused, isHeld = paused(r), held(r)
	local codeless = r.st == STATUS.stalled or terminal(r.st) or isPaused
	if k == KIND.cancel then return knows and not isHeld or codeless or r.st == STATUS.queued end
	local delayed = isHeld or r.st == STATUS.queued and r.wa and tonumber(r.wa) > now
	if class(entry) == CLASS.verb then return codeless or knows and not delayed end
	return knows and not isPaused and (not delayed or isHeld and k == KIND.grant)
end

-- mayRest reports whether unexamined items of a run may make it ready for no node. Those of a
-- run that has ended are looked at: they keep it from being deleted.
local function mayRest(r)
	return r.co ~= CONDITION.claimed and not terminal(r.st) and (waits(r) or r.wa)
end

-- insert puts an item into a run's inbox and returns its number.
local function insert(r, it, floor, no, st, sent)
	no = no or number('i', r.slot, floor)
	st = st or STATE.new
	local f = { 'r', r.no, 'k', it.k, 'y', it.y, 's', st, 'd', it.d, 't', sent or nowText }
	for i = 1, 8 do
		local name = string.sub('nocglfvh', i, i)
		local value = it[name]
		if value and value ~= '' and not (value == '0' and (name == 'c' or name == 'g' or name == 'f')) then
			f[#f + 1] = name
			f[#f + 1] = value
		end
	end
	call('HSET', T .. 'i:' .. no, unpack(f))
	call('HSET', T .. 'x:' .. r.no, it.d, no)
	if st == STATE.consumed and it.y ~= CLASS.update then
		rank('C', no, no)
		return no
	end
	local entry = st .. it.y .. it.k
	call('HSET', T .. 'q:' .. r.no, no, entry)
	empty[r.no] = nil
	if r.q then r.q[no] = entry end
	if st == STATE.new then
		r.called = true
		-- An item that makes the run ready for no node rests until the run is claimed: no claim
		-- looks at it.
		local rests = mayRest(r) and not calls(r, entry, true)
		rank((rests and 'p:' or 'd:') .. r.gr, r.no, r.no)
	end
	return no
end

-- examine brings the index of runs with unexamined items up to date. The inbox was
-- open.
local function examine(r)
	if not r.called then return end
	for _, entry in pairs(open(r)) do
		if state(entry) == STATE.new then
			rank('d:' .. r.gr, r.no, r.no)
			return
		end
	end
	rank('d:' .. r.gr, r.no, false)
end

-- readItem reads an item from the arguments.
local function readItem()
	return { k = arg(), y = arg(), d = arg(), n = arg(), o = arg(), c = arg(), g = arg(), l = arg(), f = arg(),
		v = arg(), h = arg() }
end

-- item returns the fields of an item in the order of answers, which Go knows.
local function item(no)
	local f = call('HMGET', T .. 'i:' .. no, 'k', 's', 'd', 't', 'n', 'o', 'c', 'g', 'l', 'f', 'v', 'h', 'a')
	f[14], f[15] = no, '0'
	return f
end

-- head is item without a value that is left out, but with its length. entry is that of q.
local function head(no, entry)
	local k = kind(entry)
	local size = (k == KIND.message or k == KIND.update) and call('HSTRLEN', T .. 'i:' .. no, 'v') - 1 or 0
	if size < MAX.largeValue then return item(no) end
	local f = call('HMGET', T .. 'i:' .. no, 'k', 's', 'd', 't', 'n', 'o', 'c', 'g', 'l', 'f', '', 'h', 'a')
	f[14], f[15] = no, dec(size)
	return f
end

-- note adds acts of operators on a run.
local function note(no, audit)
	for i = 1, #audit do
		call('RPUSH', T .. 'a:' .. no, dec(call('LLEN', T .. 'a:' .. no) + 1) .. ';' .. nowText .. ';' .. audit[i])
	end
end
