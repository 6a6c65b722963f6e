-- Common to all acts, and put before each of them.
--
-- KEYS[1] is the key of the part's counters. What stands before its last byte is
-- the part's tag, with which every other key of the part begins; doc.go lists them.
-- ARGV[1] is the number of slots, ARGV[2] the time in tests and else 0, ARGV[3] the
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

local function dec(n) return string.format('%.0f', n) end

-- now is the store's time of this act, which is not before one that the process
-- has seen; another master of a cluster may be ahead.
local now = tonumber(ARGV[2])
if now == 0 then
	local t = call('TIME')
	now = t[1] * 1000000 + t[2]
end
now = math.max(now, tonumber(ARGV[3]))
local nowText = dec(now)

-- less compares two texts by their bytes; Lua's own < asks the locale.
local function less(a, b)
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

-- number returns the next number of a kind: 'r' of runs, 'i' of items. Numbers of a
-- slot grow; floor is what the process has seen in other parts.
local function number(what, slot, floor)
	local n = call('HINCRBY', T .. 'n', what, 1)
	if n <= floor then
		n = floor + 1
		call('HSET', T .. 'n', what, dec(n))
	end
	return dec(n * slots + slot)
end

-- A run's row.

local function terminal(st) return st == '4' or st == '5' or st == '6' end
local function marked(mk, mark) return bit.band(tonumber(mk or '0'), mark) ~= 0 end
local function paused(r) return marked(r.mk, 1) end
local function held(r) return marked(r.mk, 16) end

-- waits reports whether a run is taken up for items alone: it is paused or held.
local function waits(r) return marked(r.mk, 17) end
local function expiring(r) return marked(r.mk, 8) end

-- row returns what acts need of a run, or nil.
local function row(no)
	local f = call('HMGET', T .. 'r:' .. no, 'st', 'wf', 'gr', 'co', 'mk', 'wa', 'ic', 'ge', 'sa', 'en', 'id', 'bu')
	if not f[1] then return nil end
	return {
		no = no, slot = slotOf(no), st = f[1], wf = f[2], gr = f[3], co = f[4], mk = f[5], wa = f[6], ic = f[7] or '0',
		ge = f[8] or '0', sa = f[9], en = f[10], id = f[11], bu = f[12] or '',
	}
end

-- ended is a run's place among those that have ended so: by time, then number.
local function ended(no) return string.format('%016.0f', tonumber(no)) end

-- place moves a run in the indexes from what it was to what it is; a side without
-- a status is not there.
local function place(no, gr, a, b)
	if a.st ~= b.st or a.wf ~= b.wf then
		if a.st then call('ZREM', T .. 'l:' .. a.st .. ':' .. a.wf, no) end
		if b.st then call('ZADD', T .. 'l:' .. b.st .. ':' .. b.wf, no, no) end
	end
	local was = a.st and (a.co == '2' and 'k' or waits(a) and '' or a.co == '1' and 'y' or a.wa and 'z') or ''
	local is = b.st and (b.co == '2' and 'k' or waits(b) and '' or b.co == '1' and 'y' or b.wa and 'z') or ''
	if was ~= is or is == 'z' and a.wa ~= b.wa then
		if was ~= '' and was ~= is then call('ZREM', T .. was .. ':' .. gr, no) end
		if is ~= '' then call('ZADD', T .. is .. ':' .. gr, is == 'z' and b.wa or no, no) end
	end
	local over, over2 = a.st and terminal(a.st), b.st and terminal(b.st)
	if over and (not over2 or a.st ~= b.st or a.wf ~= b.wf) then call('ZREM', T .. 'E:' .. a.st .. ':' .. a.wf, ended(no)) end
	if over2 and (not over or a.st ~= b.st or a.wf ~= b.wf or a.en ~= b.en) then
		call('ZADD', T .. 'E:' .. b.st .. ':' .. b.wf, b.en, ended(no))
	end
end

-- change writes fields of a run's row, and the indexes follow. False deletes a field.
local function change(r, new)
	local before = { st = r.st, wf = r.wf, co = r.co, mk = r.mk, wa = r.wa, en = r.en }
	local set, del = {}, {}
	for k, v in pairs(new) do
		if v == false then
			del[#del + 1] = k
		else
			set[#set + 1] = k
			set[#set + 1] = v
		end
		r[k] = v
	end
	if #set > 0 then call('HSET', T .. 'r:' .. r.no, unpack(set)) end
	if #del > 0 then call('HDEL', T .. 'r:' .. r.no, unpack(del)) end
	place(r.no, r.gr, before, r)
end

-- take takes a run in hand; at rest it keeps its status and its wake time.
local function take(r, rest)
	if rest then
		change(r, { co = '2' })
		return
	end
	local new = { co = '2', wa = false }
	if held(r) then
		local mk = tonumber(r.mk) - 16
		new.mk = mk > 0 and dec(mk)
	end
	if r.st == '1' or r.st == '3' then new.st = '2' end
	if (new.st or r.st) == '2' and not r.sa then new.sa = nowText end
	change(r, new)
end

-- The parts of a run's row as they are answered, which Go knows in this order.
local ROW = { 'id', 'gr', 'wf', 'st', 'mk', 'co', 'ic', 'ge', 'se', 'ra', 'bu', 'pa', 'pl', 'fi', 'be', 'cr', 'sa', 'en', 'wa', 'su', 'sk', 'al',
	'tg', 'hd', 're', 'is', 'os', 'qu' }

-- snapshot returns a run's row: its number, the parts above, then those named.
local function snapshot(no, ...)
	local fields = {}
	for i = 1, #ROW do fields[i] = ROW[i] end
	for i = 1, select('#', ...) do fields[#ROW + i] = select(i, ...) end
	local values = call('HMGET', T .. 'r:' .. no, unpack(fields))
	values[#values + 1] = no
	return values
end

-- Leases: a field of the hash L for each slot and group, with epoch, end, node and
-- boot; no node if the shard was given back.

local function lease(shard)
	local l = call('HGET', T .. 'L', shard)
	if not l then return nil end
	local e, u, n, b = string.match(l, '^(%d+);(%d+);([^\n]*)\n(.*)$')
	return { epoch = e, till = u, node = n, boot = b }
end

-- current reports whether an epoch is the shard's, and which one is.
local function current(shard, epoch)
	local l = lease(shard)
	if not l then return false, '' end
	return l.node ~= '' and l.epoch == epoch, l.epoch
end
