-- The beginning of every script.
--
-- KEYS[1] is the key of the part's counters. Without its last byte it is the part's tag,
-- with which every other key of the part begins; doc.go lists them. Words like STATUS.queued
-- stand for constants, see package words and protocol.go.
-- ARGV[1] is the number of slots, ARGV[2] the time in tests and otherwise 0, ARGV[3] the
-- latest time that this process has seen. The act's own arguments follow.
--
-- Times, numbers of runs and items, and epochs are kept as decimal text: a number of
-- Lua is exact up to 2^53 only, and its own text is not even that.

local call = redis.call
local T = string.sub(KEYS[1], 1, -2)
local slots = tonumber(ARGV[1])

local cursor = 3
local function arg()
	cursor = cursor + 1
	return ARGV[cursor]
end
local function num()
	cursor = cursor + 1
	return tonumber(ARGV[cursor])
end

-- flag reads an argument that is 1 for true.
local function flag() return arg() == '1' end

local function dec(n) return string.format('%.0f', n) end

-- now is the store's time of this act. It is not before a time that the process has seen,
-- because the clock of another master of a cluster may be ahead.
local now = tonumber(ARGV[2])
if now == 0 then
	local t = call('TIME')
	now = t[1] * MICROS.second + t[2]
end
now = math.max(now, tonumber(ARGV[3]))
local nowText = dec(now)

-- less compares two texts by their bytes; Lua's own < depends on the locale.
local function less(a, b)
	if a == b then return false end
	local n = math.min(#a, #b)
	for i = 1, n do
		local x, y = string.byte(a, i), string.byte(b, i)
		if x ~= y then return x < y end
	end
	return #a < #b
end

-- later reports whether time a, as text, is after time b.
local function later(a, b)
	if #a ~= #b then return #a > #b end
	return less(b, a)
end

local function slotOf(no) return tonumber(no) % slots end

-- shardOf returns the shard of a run of a group, as leases are keyed by it.
local function shardOf(no, gr) return dec(slotOf(no)) .. ':' .. gr end

-- The changes of indexes are gathered and written at the end of the act, by flush: a batch
-- changes the same few keys with each of its turns, and a call costs more than its work.
-- An act that reads an index flushes before.

local sorted = {} -- by key, of each member the score, or false: out of it
local hashes = {} -- by key, of each field the value, or false
local counts = {} -- highest numbers by kind, where they were read

local function gather(all, key, member, value)
	local one = all[key]
	if not one then
		one = {}
		all[key] = one
	end
	one[member] = value
end

-- rank puts a member into an index; with false as the score, out of it.
local function rank(key, member, score) gather(sorted, key, member, score) end

-- enter sets a field of a hash that is an index; with false as the value it goes.
local function enter(key, field, value) gather(hashes, key, field, value) end

-- inPieces calls a command with a list that may be long.
local function inPieces(command, key, list)
	for from = 1, #list, MAX.unpacked do
		call(command, T .. key, unpack(list, from, math.min(#list, from + MAX.unpacked - 1)))
	end
end

-- writeAll writes gathered changes with two commands: put adds pairs, in which the score of
-- a member stands before it, and take removes members.
local function writeAll(all, put, take, scored)
	for key, members in pairs(all) do
		local entries, out, n = {}, {}, 0
		for member, value in pairs(members) do
			if not value then
				out[#out + 1] = member
			elseif scored then
				entries[n + 1], entries[n + 2], n = value, member, n + 2
			else
				entries[n + 1], entries[n + 2], n = member, value, n + 2
			end
		end
		inPieces(put, key, entries)
		inPieces(take, key, out)
	end
end

local function flush()
	writeAll(sorted, 'ZADD', 'ZREM', true)
	writeAll(hashes, 'HSET', 'HDEL', false)
	for what, n in pairs(counts) do call('HSET', T .. 'n', what, dec(n)) end
	sorted, hashes, counts = {}, {}, {}
end

-- highest returns the highest number of a kind.
local function highest(what)
	counts[what] = counts[what] or tonumber(call('HGET', T .. 'n', what) or '0')
	return counts[what]
end

-- number returns the next number of a kind: 'r' of runs, 'i' of items. Numbers of a slot
-- grow; floor is the highest one that the process has seen in other parts.
local function number(what, slot, floor)
	local n = math.max(highest(what), floor) + 1
	counts[what] = n
	return dec(n * slots + slot)
end

-- A run's row.

local function terminal(st) return st == STATUS.succeeded or st == STATUS.failed or st == STATUS.cancelled end
local function marked(mk, mark) return bit.band(tonumber(mk or '0'), mark) ~= 0 end
local function paused(r) return marked(r.mk, MARK.paused) end
local function held(r) return marked(r.mk, MARK.held) end

-- waits reports whether a run is claimed for items alone, because it is paused or held.
local function waits(r) return marked(r.mk, MARK.pausedOrHeld) end
-- expires reports whether an ended run has a retention of its own, whose end is the field xp.
local function expires(r) return r.of and string.find(r.of, 'x', 1, true) and true or false end

local function expiring(r) return marked(r.mk, MARK.expiring) end

-- The parts of a run that acts need and change are one text in the row, the field m: one
-- field is read and written much faster than several. MAIN is the form of that text, with
-- semicolons between: status, condition, marks, wake time, incarnation, generation, start,
-- end, suspect, strikes, alone, size of input, size of output, creation, which other fields
-- there are (w: wt, r: re, x: xp), lengths of group, workflow and build; then these and the ID. A
-- part that is missing is empty, and false in a row; nil in a row means that it was not
-- read.
local MAIN = '^(%d);(%d);(%d*);(%d*);(%d+);(%d+);(%d*);(%d*);(%d*);(%d*);(%d*);'
	.. '(%d*);(%d*);(%d+);(%a*);(%d+);(%d+);(%d+);(.*)$'
local IN_MAIN = {
	st = true, co = true, mk = true, wa = true, ic = true, ge = true,
	sa = true, en = true, su = true, sk = true, al = true,
	is = true, os = true, cr = true, of = true, gr = true, wf = true, bu = true, id = true,
}

local function main(r)
	return r.st .. ';' .. r.co .. ';' .. (r.mk or '') .. ';' .. (r.wa or '') .. ';' .. r.ic .. ';' .. r.ge .. ';'
		.. (r.sa or '') .. ';' .. (r.en or '') .. ';' .. (r.su or '') .. ';' .. (r.sk or '') .. ';'
		.. (r.al or '') .. ';' .. (r.is or '') .. ';' .. (r.os or '') .. ';'
		.. r.cr .. ';' .. r.of .. ';' .. #r.gr .. ';' .. #r.wf .. ';' .. #r.bu .. ';' .. r.gr .. r.wf .. r.bu .. r.id
end

-- row returns the parts of a run that acts need, or nil. A row that cannot be read is as none:
-- the acts on other runs go on, and the doctor reports it.
local function row(no)
	local kept = call('HGET', T .. 'r:' .. no, 'm')
	if not kept then return nil end
	local st, co, mk, wa, ic, ge, sa, en, su, sk, al, is, os, cr, of, gr, wf, bu, texts = string.match(kept, MAIN)
	if not st then return nil end
	local g = tonumber(gr)
	local w = g + tonumber(wf)
	local b = w + tonumber(bu)
	return {
		no = no, slot = slotOf(no), st = st, co = co, mk = mk ~= '' and mk, wa = wa ~= '' and wa, ic = ic, ge = ge,
		sa = sa ~= '' and sa, en = en ~= '' and en, su = su ~= '' and su, sk = sk ~= '' and sk, al = al ~= '' and al,
		is = is ~= '' and is, os = os ~= '' and os, cr = cr, of = of,
		gr = string.sub(texts, 1, g), wf = string.sub(texts, g + 1, w), bu = string.sub(texts, w + 1, b),
		id = string.sub(texts, b + 1),
	}
end

-- ended is a run's place among those that have ended so: by time, then number.
local function ended(no) return string.sub('0000000000000000', #no + 1) .. no end

-- endsIn returns the index of ended runs that a run is in, or nil: those with a retention of
-- their own are apart.
local function endsIn(r)
	if not r.st or not terminal(r.st) then return nil end
	return (expires(r) and 'K:' or 'E:') .. r.st .. ':' .. r.wf
end

-- indexOf returns the index of runs by condition that a run is in, or ''.
local function indexOf(r)
	if not r.st then return '' end
	if r.co == CONDITION.claimed then return INDEX.claimed end
	if waits(r) then return '' end
	return r.co == CONDITION.ready and INDEX.ready or r.wa and INDEX.waking or ''
end

-- Runs that are ready, and timers, are kept apart by their sort: the workflow, and of ready
-- runs the build. So a claim does not see those that the node cannot load. The sorts that a
-- group may have are in a set, from which claims remove those that are empty.

local SORTS = { [INDEX.ready] = 'Y:', [INDEX.waking] = 'Z:' }

-- sortOf returns the sort of a run in an index, or nil if the index has none.
local function sortOf(index, r)
	if index == INDEX.ready then return #r.wf .. ':' .. r.wf .. r.bu end
	return index == INDEX.waking and r.wf or nil
end

local function keyOf(index, gr, sort) return index .. ':' .. #gr .. ':' .. gr .. sort end

-- sorts returns the sorts that a group may have in an index.
local function sorts(index, gr) return call('ZRANGE', T .. SORTS[index] .. gr, 0, -1) end

-- place moves a run in the indexes from its state a to b. A state without a status is that
-- of a run that does not exist. Claimed runs are in a hash, with their incarnation.
local function place(no, gr, a, b)
	if a.st ~= b.st or a.wf ~= b.wf then
		if a.st then rank('l:' .. a.st .. ':' .. a.wf, no, false) end
		if b.st then rank('l:' .. b.st .. ':' .. b.wf, no, no) end
	end
	local was, is = indexOf(a), indexOf(b)
	if was == INDEX.claimed and is ~= INDEX.claimed then enter(INDEX.claimed .. ':' .. gr, no, false) end
	if is == INDEX.claimed and (was ~= INDEX.claimed or a.ic ~= b.ic) then enter(INDEX.claimed .. ':' .. gr, no, b.ic) end
	local from, to = sortOf(was, a), sortOf(is, b)
	if from and (was ~= is or from ~= to) then rank(keyOf(was, gr, from), no, false) end
	if to and (was ~= is or from ~= to or is == INDEX.waking and a.wa ~= b.wa) then
		rank(keyOf(is, gr, to), no, is == INDEX.waking and b.wa or no)
		rank(SORTS[is] .. gr, to, '0')
	end
	local over, over2 = endsIn(a), endsIn(b)
	if over and over ~= over2 then rank(over, ended(no), false) end
	if over2 and (over ~= over2 or a.en ~= b.en) then rank(over2, ended(no), b.en) end
	if expires(a) and not expires(b) then rank('X', ended(no), false) end
	if expires(b) and not expires(a) and b.xp ~= '-1' then rank('X', ended(no), b.xp) end
end

-- change writes fields of a run's row, and the indexes follow. False deletes a field.
local function change(r, new)
	local before = { st = r.st, wf = r.wf, bu = r.bu, co = r.co, mk = r.mk, wa = r.wa, en = r.en, ic = r.ic, of = r.of }
	local set, del, changed = {}, {}, false
	for k, v in pairs(new) do
		if v ~= r[k] then
			r[k] = v
			if IN_MAIN[k] then
				changed = true
			elseif v then
				set[#set + 1] = k
				set[#set + 1] = v
			else
				del[#del + 1] = k
			end
		end
	end
	if changed then
		call('HSET', T .. 'r:' .. r.no, 'm', main(r), unpack(set))
	elseif #set > 0 then
		call('HSET', T .. 'r:' .. r.no, unpack(set))
	end
	if #del > 0 then call('HDEL', T .. 'r:' .. r.no, unpack(del)) end
	if changed then place(r.no, r.gr, before, r) end
end

-- stir ends the rest of a run's items. Only runs that wait, or sleep, have such.
local function stir(r)
	if not waits(r) and not r.wa then return end
	local key = 'p:' .. r.gr
	local rests = sorted[key] and sorted[key][r.no]
	if rests == nil then rests = call('ZSCORE', T .. key, r.no) end
	if rests then
		rank(key, r.no, false)
		rank('d:' .. r.gr, r.no, r.no)
	end
end

-- take claims a run; at rest the run keeps its status and its wake time.
local function take(r, rest)
	stir(r)
	if rest then
		change(r, { co = CONDITION.claimed })
		return
	end
	local new = { co = CONDITION.claimed, wa = false }
	if held(r) then
		local mk = tonumber(r.mk) - MARK.held
		new.mk = mk > 0 and dec(mk)
	end
	if r.st == STATUS.queued or r.st == STATUS.suspended then new.st = STATUS.running end
	if (new.st or r.st) == STATUS.running and not r.sa then new.sa = nowText end
	change(r, new)
end

-- The fields of a run's row in the order of answers, which Go knows; and with large ones.
local ROW = { 'm', 'o', 'ra', 'pa', 'pl', 'fi', 'be', 'tg', 'hd', 're', 'qu', 'xp' }
local ROW_WAITS = { 'm', 'o', 'ra', 'pa', 'pl', 'fi', 'be', 'tg', 'hd', 're', 'qu', 'xp', 'wt' }
local ROW_INPUT = { 'm', 'o', 'ra', 'pa', 'pl', 'fi', 'be', 'tg', 'hd', 're', 'qu', 'xp', 'wt', 'ip' }
local ROW_ALL = { 'm', 'o', 'ra', 'pa', 'pl', 'fi', 'be', 'tg', 'hd', 're', 'qu', 'xp', 'wt', 'ip', 'op' }

-- snapshot returns parts of a run's row, then its number.
local function snapshot(no, parts)
	local values = call('HMGET', T .. 'r:' .. no, unpack(parts))
	values[#parts + 1] = no
	return values
end

-- Leases: a field of the hash L for each slot and group, with epoch, end, node and
-- boot; no node if the shard was given back.

local function leaseOf(kept)
	if not kept then return nil end
	local e, u, n, b = string.match(kept, '^(%d+);(%d+);([^\n]*)\n(.*)$')
	return { epoch = e, till = u, node = n, boot = b }
end

local function lease(shard) return leaseOf(call('HGET', T .. 'L', shard)) end

-- holder returns whose a lease is, as it is kept: node, newline, boot.
local function holder(kept) return string.match(kept, '^%d+;%d+;(.*)$') end

-- Fences: a field of the hash B for each boot, a text that is never given twice. An act that
-- changes the epoch or the holder of a lease of the boot removes it, so as long as it
-- stands the boot has the leases that were seen with it.

local function fenceOf(boot) return call('HGET', T .. 'B', boot) end

-- fenceFor returns a boot's fence, which is a new one if it has none.
local function fenceFor(boot, new)
	if new ~= '' and call('HSETNX', T .. 'B', boot, new) == 1 then return new end
	return fenceOf(boot) or ''
end

-- current reports whether an epoch is the shard's, and which one is.
local function current(shard, epoch)
	local l = lease(shard)
	if not l then return false, '' end
	return l.node ~= '' and l.epoch == epoch, l.epoch
end
