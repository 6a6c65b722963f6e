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
local stage, rule, at, after = num(), num(), arg(), arg()
left, part, parts = num(), num(), num()
for i = 1, num() do
	local no = arg()
	asked[no] = arg()
end
local looked = 0

local function done(is)
	flush()
	return { nowText, is and '1' or '', dec(rows), dec(runs), dec(stage), dec(rule), at, after, ask }
end

-- stays reports whether an ended run stays whatever its retention.
local function stays(r) return not r or not owned[dec(r.slot) .. ':' .. r.gr] or needed(r) end

-- After the rules come the runs with a retention of their own.
while stage == 0 and rule <= #rules do
	local u = rules[rule + 1]
	local key, moved, latest = T .. 'X', false, nowText
	if u then
		key, latest = T .. 'E:' .. u.st .. ':' .. u.wf, dec(now - math.max(u.keep, MICROS.minRetention))
	end
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
if stage == 0 then stage, rule, at, after = 1, #rules, '0', '0' end
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
		if r and owned[dec(r.slot) .. ':' .. r.gr] then
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
		if r and tonumber(f[1]) <= now - window and owned[dec(r.slot) .. ':' .. r.gr] then
			if room(1) == 0 then return done(false) end
			dropItem(no, f[2])
		end
		after = no
	end
end
