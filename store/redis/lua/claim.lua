-- Claims runs that are ready: first the runs whose wake time has passed, then those with an
-- item that makes them ready, then those marked ready.
--
-- Arguments: the purpose, the boot (node, newline, boot), the fence under which it is known
-- to have all the leases, or '' and a text for a new one, leases (first all shards, then of
-- each how what is kept of it begins if it is current: the epoch and a semicolon; none
-- if there is a fence), their groups with the slots, as bits, limit, build, '1' if the runs
-- that the node cannot load are asked for, workflows, runs. Lists begin with their length.
-- The purpose is: look and claim; only look; claim the given runs, which were chosen among
-- the candidates of all parts.
--
-- Answer: time alone if the boot has another fence now; otherwise time, the fenced shards,
-- candidates (class, order, number), claimed runs, unexamined items of all claimed runs
-- (number, items), the next wake time or '', '1' if there is more, of the runs that the
-- node cannot load slot, group, workflow and the latest build, and the fence if all leases
-- are current and the boot's.

local purpose, boot, fence = arg(), arg(), arg()
if fence ~= '' and fenceOf(boot) ~= fence then return { nowText } end
local new = arg()
local owned, fenced, own = {}, {}, true
local count = num()
for first = 1, count, MAX.fields do
	-- A node may have hundreds of leases: they are read at once, and no table is made for
	-- each of them.
	local last = math.min(count, first + MAX.fields - 1)
	local kept = call('HMGET', T .. 'L', unpack(ARGV, cursor + first, cursor + last))
	for i = first, last do
		local shard, epoch, lease = ARGV[cursor + i], ARGV[cursor + count + i], kept[i - first + 1]
		local current = lease and string.find(lease, epoch, 1, true) == 1
		if current and not (string.byte(lease, -1) == BYTE.newline and lease == epoch .. '0;\n') then
			owned[shard] = true
			own = own and holder(lease) == boot
		else
			fenced[#fenced + 1] = shard
		end
	end
end
cursor = cursor + 2 * count
local groups, bits = {}, {}
for i = 1, num() do
	groups[i] = arg()
	bits[groups[i]] = arg()
end
local limit, build, asksUnfit = num(), arg(), flag()
local workflows = {}
for i = 1, num() do workflows[arg()] = true end
local given = {}
for i = 1, num() do given[i] = arg() end

-- scan calls fn with members of a sorted set, in pages, until it returns true.
local function scan(key, from, to, fn)
	local offset = 0
	while true do
		local page = call('ZRANGEBYSCORE', key, from, to, 'LIMIT', offset, MAX.page)
		for i = 1, #page do
			if fn(page[i]) then return end
		end
		if #page < MAX.page then return end
		offset = offset + MAX.page
	end
end

-- shards are the keys of shards that ours has made, by group and slot.
local shards = {}

-- ours reports whether a shard is one of the leases.
local function ours(gr, slot)
	if fence ~= '' then
		local byte = string.byte(bits[gr] or '', math.floor(slot / 8) + 1)
		return byte and bit.band(byte, bit.lshift(1, slot % 8)) ~= 0
	end
	shards[gr] = shards[gr] or {}
	local shard = shards[gr][slot]
	if not shard then
		shard = dec(slot) .. ':' .. gr
		shards[gr][slot] = shard
	end
	return owned[shard]
end

-- mine returns the row of a run of the leases' shards, or nil.
local function mine(gr, no) return ours(gr, slotOf(no)) and row(no) or nil end

-- known reports whether the node has the code of a run.
local function known(r) return workflows[r.wf] and not (build ~= '' and less(build, r.bu)) end

-- takes reports whether the run may be claimed because it is due or marked ready.
local function takes(r) return known(r) and not waits(r) end

-- called reports whether an unexamined item makes a run ready.
local function called(r, knows)
	local isPaused = paused(r)
	local isHeld = held(r)
	local delayed = isHeld or r.st == STATUS.queued and r.wa and tonumber(r.wa) > now
	local codeless = r.st == STATUS.stalled or terminal(r.st) or isPaused
	for _, entry in pairs(open(r)) do
		if state(entry) == STATE.new then
			local k = kind(entry)
			if k == KIND.terminate or k == KIND.pause then return true end
			if k == KIND.cancel then
				if knows and not isHeld or codeless or r.st == STATUS.queued then return true end
			elseif class(entry) == CLASS.verb then
				if codeless or knows and not delayed then return true end
			elseif knows and not isPaused and (not delayed or isHeld and k == KIND.grant) then
				return true
			end
		end
	end
	return false
end

local candidates, seen = {}, {}
local function candidate(list, class, r, order)
	if seen[r.no] then return end
	seen[r.no] = true
	list[#list + 1] = { class, order, r.no, r }
end

local function byNumber(a, b)
	if a[2] ~= b[2] then return tonumber(a[2]) < tonumber(b[2]) end
	return tonumber(a[3]) < tonumber(b[3])
end

local function merge(list)
	table.sort(list, byNumber)
	for i = 1, #list do candidates[#candidates + 1] = list[i] end
end

-- look finds candidates: of each class and group one more than the limit.
local function look()
	local due = {}
	for _, gr in ipairs(groups) do
		local found, last = 0, nil
		scan(T .. 'z:' .. gr, '-inf', nowText, function(no)
			local r = mine(gr, no)
			if not r or not takes(r) then return false end
			if found > limit and r.wa ~= last then return true end
			found, last = found + 1, r.wa
			candidate(due, CANDIDATE.due, r, r.wa)
		end)
	end
	merge(due)
	local calls = {}
	for _, gr in ipairs(groups) do
		local found = 0
		scan(T .. 'd:' .. gr, '-inf', '+inf', function(no)
			local r = mine(gr, no)
			if r and r.co ~= CONDITION.claimed and not (takes(r) and r.wa and tonumber(r.wa) <= now) and called(r, known(r)) then
				found = found + 1
				candidate(calls, CANDIDATE.called, r, '0')
			end
			return found > limit
		end)
	end
	merge(calls)
	local ready = {}
	for _, gr in ipairs(groups) do
		local found = 0
		scan(T .. 'y:' .. gr, '-inf', '+inf', function(no)
			local r = mine(gr, no)
			if r and takes(r) then
				found = found + 1
				candidate(ready, CANDIDATE.ready, r, '0')
			end
			return found > limit
		end)
	end
	merge(ready)
end

-- unfit finds runs that would be ready for a node that can load everything. It looks at
-- some thousands of runs.
local function unfit()
	local latest, list = {}, {}
	local looked = 0
	local function note(gr, no, ready)
		looked = looked + 1
		local r = mine(gr, no)
		if r and r.co ~= CONDITION.claimed and not known(r) and not called(r, false) and ready(r) then
			local key = dec(r.slot) .. '\n' .. gr .. '\n' .. r.wf
			if not latest[key] then
				latest[key] = { dec(r.slot), gr, r.wf, r.bu }
				list[#list + 1] = latest[key]
			elseif less(latest[key][4], r.bu) then
				latest[key][4] = r.bu
			end
		end
		return looked == MAX.unfitLook
	end
	for _, gr in ipairs(groups) do
		scan(T .. 'z:' .. gr, '-inf', nowText, function(no) return note(gr, no, function(r) return not waits(r) end) end)
		scan(T .. 'd:' .. gr, '-inf', '+inf', function(no) return note(gr, no, function(r) return called(r, true) end) end)
		scan(T .. 'y:' .. gr, '-inf', '+inf', function(no) return note(gr, no, function(r) return not waits(r) end) end)
	end
	return list
end

-- rests reports whether a run is claimed at rest.
local function rests(r)
	if paused(r) then return true end
	local granted = false
	for _, entry in pairs(open(r)) do
		if entry == STATE.new .. CLASS.verb .. KIND.pause then return true end
		granted = granted or entry == STATE.new .. CLASS.other .. KIND.grant
	end
	return held(r) and not granted
end

local more, rows, shown, left = false, {}, {}, {}
local function claim(r)
	take(r, rests(r))
	rows[#rows + 1] = snapshot(r.no, ROW_ALL)
end

if purpose == CLAIM.given then
	for i = 1, #given do
		local r = row(given[i])
		if r and r.co ~= CONDITION.claimed and ours(r.gr, r.slot) then claim(r) end
	end
else
	look()
	if asksUnfit then left = unfit() end
	if purpose == CLAIM.lookAndClaim then
		more = #candidates > limit
		for i = 1, math.min(limit, #candidates) do claim(candidates[i][4]) end
	else
		for i = 1, #candidates do shown[i] = { candidates[i][1], candidates[i][2], candidates[i][3] } end
	end
end

flush()

-- The unexamined items of all claimed runs, by run, up to a bound.
local claimed, items, found = {}, {}, 0
for _, gr in ipairs(groups) do
	scan(T .. 'd:' .. gr, '-inf', '+inf', function(no)
		local r = mine(gr, no)
		if r and r.co == CONDITION.claimed then claimed[#claimed + 1] = r end
	end)
end
table.sort(claimed, function(a, b) return tonumber(a.no) < tonumber(b.no) end)
for _, r in ipairs(claimed) do
	local nos = {}
	for no, entry in pairs(open(r)) do
		if state(entry) == STATE.new then nos[#nos + 1] = no end
	end
	table.sort(nos, function(a, b) return tonumber(a) < tonumber(b) end)
	local list = {}
	for i = 1, #nos do
		if found == MAX.claim then
			more = true
			break
		end
		found = found + 1
		list[i] = head(nos[i], r.q[nos[i]])
	end
	if #list > 0 then items[#items + 1] = { r.no, list } end
end

-- The next wake time. Of many sleepers whose code the node lacks only some are read; the
-- answer is then earlier than necessary.
local wake = ''
for _, gr in ipairs(groups) do
	local looked = 0
	scan(T .. 'z:' .. gr, '(' .. nowText, '+inf', function(no)
		local r = mine(gr, no)
		looked = looked + 1
		if r and takes(r) or looked == MAX.sleepers then
			local at = (r or row(no)).wa
			if wake == '' or later(wake, at) then wake = at end
			return true
		end
	end)
end
if fence == '' and own and count > 0 and #fenced == 0 then fence = fenceFor(boot, new) end
return { nowText, fenced, shown, rows, items, wake, more and '1' or '', left, fence }
