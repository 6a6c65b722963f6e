-- Deletes some of the runs that have outlived their retention, of old incarnations, and of
-- consumed items, in the given shards.
--
-- Arguments: leases (slot:group, epoch), rules (workflow, status, microseconds to
-- keep), '1' if consumed items are looked for, stage, rule, time and number of the
-- place where it goes on, rows that may be deleted, part, parts, runs whose parents in
-- other parts were asked ('1': it keeps the run). Lists begin with their length.
--
-- Answer: time, '1' if done, rows, runs, stage, rule, time, number, and runs whose
-- parents in other parts are to be asked before it can go on (number, parent, the
-- parent's location, creation).

local owned = {}
for i = 1, num() do
	local shard, epoch = arg(), arg()
	if current(shard, epoch) then owned[shard] = true end
end
local rules = {}
for i = 1, num() do rules[i] = { wf = arg(), st = arg(), keep = num() } end
local consumed = flag()
local stage, rule, at, after, left = num(), num(), arg(), arg(), num()
local part, parts = num(), num()
local asked, ask = {}, {}
for i = 1, num() do
	local no = arg()
	asked[no] = arg()
end
local rows, runs = 0, 0
local looked = 0

-- room counts rows that are deleted: as many of n as may be.
local function room(n)
	n = math.min(n, left)
	left, rows = left - n, rows + n
	return n
end

local function done(is)
	flush()
	return { nowText, is and '1' or '', dec(rows), dec(runs), dec(stage), dec(rule), at, after, ask }
end

-- some returns up to n fields of a hash.
local function some(key, n)
	if n == 0 then return {} end
	local fields = call('HRANDFIELD', key, n)
	return fields
end

-- stays reports whether an ended run stays whatever its retention. If only a parent in
-- another part knows, it notes that this has to be asked.
local function stays(r)
	if not owned[dec(r.slot) .. ':' .. r.gr] or r.co ~= CONDITION.idle or call('ZSCORE', T .. 'd:' .. r.gr, r.no) then
		return true
	end
	local f = call('HMGET', T .. 'r:' .. r.no, 'pa', 'pl')
	if not f[1] then return false end
	if slotOf(f[1]) % parts ~= part then
		if not asked[r.no] then ask[#ask + 1] = { r.no, f[1], f[2] or '', r.cr } end
		return asked[r.no] ~= '0'
	end
	return keeps(f[1], f[2] or '', r.cr)
end

-- dropItem deletes an item.
local function dropItem(no, of)
	local id = call('HGET', T .. 'i:' .. no, 'd')
	call('DEL', T .. 'i:' .. no)
	call('HDEL', T .. 'x:' .. of, id)
	call('HDEL', T .. 'q:' .. of, no)
	call('ZREM', T .. 'C', no)
	call('ZREM', T .. 'D', no)
end

-- dropEntries deletes entries of an incarnation, and reports whether none is left.
local function dropEntries(no, ic)
	local key = T .. 'e:' .. no .. ':' .. ic
	local there = call('HLEN', key)
	local n = room(there)
	if n == there then
		call('DEL', key, T .. 'v:' .. no .. ':' .. ic)
		return true
	end
	for _, loc in ipairs(some(key, n)) do
		call('HDEL', key, loc)
		call('HDEL', T .. 'v:' .. no .. ':' .. ic, loc)
	end
	return false
end

-- drop deletes the belongings of a run, then the run. It reports whether that is done.
local function drop(r)
	if not expiring(r) then change(r, { mk = dec(bit.bor(tonumber(r.mk or '0'), MARK.expiring)) }) end
	for ic = tonumber(call('HGET', T .. 'r:' .. r.no, 'sw') or '0'), tonumber(r.ic) do
		if not dropEntries(r.no, dec(ic)) then return false end
	end
	local x = T .. 'x:' .. r.no
	for _, id in ipairs(some(x, room(call('HLEN', x)))) do dropItem(call('HGET', x, id), r.no) end
	if call('EXISTS', x) == 1 then return false end
	local feeds = T .. 'f:' .. r.no
	for _, name in ipairs(call('HKEYS', feeds)) do
		if string.sub(name, 1, 1) == 's' then
			local list = T .. 's:' .. r.no .. ':' .. string.sub(name, 2)
			call('LTRIM', list, room(call('LLEN', list)), -1)
			if call('EXISTS', list) == 1 then return false end
		end
		if room(1) == 0 then return false end
		call('HDEL', feeds, name)
	end
	local audit = T .. 'a:' .. r.no
	call('LTRIM', audit, room(call('LLEN', audit)), -1)
	if call('EXISTS', audit) == 1 or room(1) == 0 then return false end
	local f = call('HMGET', T .. 'r:' .. r.no, 'pa', 'tg')
	if f[1] then call('ZREM', T .. 'c:' .. f[1], r.no) end
	for tag in string.gmatch(f[2] or '', '[^\n]+') do call('ZREM', T .. 't:' .. tag, r.no) end
	place(r.no, r.gr, r, {})
	call('ZREM', T .. 'R', r.no)
	call('ZREM', T .. 'F', r.no)
	if call('HGET', T .. 'id', r.id) == r.no then call('HDEL', T .. 'id', r.id) end
	call('DEL', T .. 'r:' .. r.no)
	flush() -- the caller goes through an index
	runs = runs + 1
	return true
end

while stage == 0 and rule < #rules do
	local u = rules[rule + 1]
	local key, moved, latest = T .. 'E:' .. u.st .. ':' .. u.wf, false, dec(now - math.max(u.keep, MICROS.minRetention))
	local page = call('ZRANGEBYSCORE', key, at, latest, 'LIMIT', 0, MAX.page)
	-- Of those that ended at one time some may be before the place.
	local offset = 0
	while #page > 0 do
		for i = 1, #page do
			local no = dec(tonumber(page[i]))
			local en = call('ZSCORE', key, page[i])
			if en then
				en = dec(tonumber(en))
				if later(en, at) or tonumber(no) > tonumber(after) then
					looked = looked + 1
					if looked > MAX.sweepLook then return done(false) end
					local r = row(no)
					local stay = stays(r)
					if #ask > 0 then
						for k = i + 1, #page do stays(row(dec(tonumber(page[k])))) end
						return done(false)
					end
					if not stay and not drop(r) then return done(false) end
					at, after, moved = en, no, true
				end
			end
		end
		if #page < MAX.page then break end
		if moved then offset, moved = 0, false else offset = offset + MAX.page end
		page = call('ZRANGEBYSCORE', key, at, latest, 'LIMIT', offset, MAX.page)
	end
	rule, at, after = rule + 1, '0', '0'
end
if stage == 0 then stage, at, after = 1, '0', '0' end
while stage == 1 do
	local page = call('ZRANGEBYSCORE', T .. 'F', '(' .. after, '+inf', 'LIMIT', 0, MAX.page)
	if #page == 0 then
		stage, after = 2, '0'
		break
	end
	for _, no in ipairs(page) do
		looked = looked + 1
		if looked > MAX.sweepLook then return done(false) end
		local r = row(no)
		if owned[dec(r.slot) .. ':' .. r.gr] then
			local ic = tonumber(call('HGET', T .. 'r:' .. no, 'sw') or '0')
			while ic < tonumber(r.ic) do
				if not dropEntries(no, dec(ic)) then return done(false) end
				ic = ic + 1
				call('HSET', T .. 'r:' .. no, 'sw', dec(ic))
			end
			call('ZREM', T .. 'F', no)
		end
		after = no
	end
end
if not consumed then return done(true) end
while true do
	local page = call('ZRANGEBYSCORE', T .. 'C', '(' .. after, '+inf', 'LIMIT', 0, MAX.page)
	if #page == 0 then return done(true) end
	for _, no in ipairs(page) do
		looked = looked + 1
		if looked > MAX.sweepLook then return done(false) end
		local f = call('HMGET', T .. 'i:' .. no, 't', 'r', 'k', 'd', 'o')
		local r = row(f[2])
		local window = f[3] == KIND.message and f[4] == f[5] and MICROS.repeatWindow or MICROS.dedupWindow
		if tonumber(f[1]) <= now - window and owned[dec(r.slot) .. ':' .. r.gr] then
			if room(1) == 0 then return done(false) end
			dropItem(no, f[2])
		end
		after = no
	end
end
