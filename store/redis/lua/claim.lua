-- Claims runs that are ready, by turns: the first of each line, then the second. The runs of a
-- workflow whose wake time has passed are a line, those with an item that makes them ready, and
-- those of a workflow that are marked ready.
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
-- candidates (class, order, number, workflow of the line or ''), claimed runs, unexamined items of all claimed runs
-- (number, items), the next wake time or '', '1' if there are more runs, '1' if there are more
-- items, of the runs that the node cannot load slot, group, workflow and the latest build, and
-- the fence if all leases are current and the boot's.

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

-- scan calls fn with members of a sorted set, in pages, until it returns true. It returns
-- false if there was none. A page begins at the last score of the one before, behind the
-- members that it had of that score: a place that is found at once, wherever it is.
local function scan(key, from, to, fn)
	local offset, first = 0, from
	while true do
		local page = call('ZRANGEBYSCORE', key, first, to, 'WITHSCORES', 'LIMIT', offset, MAX.page)
		for i = 1, #page, 2 do
			if fn(page[i]) then return true end
		end
		if #page < 2 * MAX.page then return #page > 0 or offset > 0 end
		local last = page[#page]
		local n = 0
		for i = #page, 2, -2 do
			if page[i] ~= last then break end
			n = n + 1
		end
		offset = n + (n == MAX.page and first == last and offset or 0)
		first = last
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
	for _, entry in pairs(open(r)) do
		if state(entry) == STATE.new and calls(r, entry, knows) then return true end
	end
	return false
end

-- sortsBy calls fn with each group, and the key of each sort that it has in an index, whose
-- runs are loaded by the node, or not. An empty sort is removed; fn returns false for one.
local function sortsBy(index, loaded, fn)
	for _, gr in ipairs(groups) do
		for _, sort in ipairs(sorts(index, gr)) do
			local wf, bu = sort, ''
			if index == INDEX.ready then
				local n, from = string.match(sort, '^(%d+):()')
				wf, bu = string.sub(sort, from, from + n - 1), string.sub(sort, from + n)
			end
			if (known({ wf = wf, bu = bu }) or false) == loaded and fn(gr, T .. keyOf(index, gr, sort)) == false then
				call('ZREM', T .. SORTS[index] .. gr, sort)
			end
		end
	end
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

-- look finds candidates: of each class, group and sort one more than the limit.
local function look()
	local due = {}
	sortsBy(INDEX.waking, true, function(gr, key)
		local found, last = 0, nil
		scan(key, '-inf', nowText, function(no)
			local r = mine(gr, no)
			if not r or not takes(r) then return false end
			if found > limit and r.wa ~= last then return true end
			found, last = found + 1, r.wa
			candidate(due, CANDIDATE.due, r, r.wa)
		end)
	end)
	merge(due)
	local list, cut = {}, {} -- of a group: more are called than are in the list
	for _, gr in ipairs(groups) do
		local found, resting = 0, {}
		scan(T .. 'd:' .. gr, '-inf', '+inf', function(no)
			local r = mine(gr, no)
			if r and r.co ~= CONDITION.claimed and not (takes(r) and r.wa and tonumber(r.wa) <= now) then
				if called(r, known(r)) then
					found = found + 1
					candidate(list, CANDIDATE.called, r, '0')
				elseif mayRest(r) and not called(r, true) then
					resting[#resting + 1] = no
				end
			end
			cut[gr] = found > limit
			return cut[gr]
		end)
		for i = 1, #resting do
			rank('d:' .. gr, resting[i], false)
			rank('p:' .. gr, resting[i], resting[i])
		end
	end
	flush()
	merge(list)
	local ready = {}
	sortsBy(INDEX.ready, true, function(gr, key)
		local found = 0
		return scan(key, '-inf', '+inf', function(no)
			local r = mine(gr, no)
			if r and takes(r) and not (cut[gr] and called(r, true)) then
				found = found + 1
				candidate(ready, CANDIDATE.ready, r, '0')
			end
			return found > limit
		end)
	end)
	merge(ready)
	local count = {}
	for i, c in ipairs(candidates) do
		c[5] = c[1] == CANDIDATE.called and '' or c[4].wf
		local line = c[1] .. c[5]
		count[line] = (count[line] or 0) + 1
		c[6], c[7] = count[line], i
	end
	table.sort(candidates, function(a, b)
		if a[6] ~= b[6] then return a[6] < b[6] end
		return a[7] < b[7]
	end)
end

-- unfit finds runs that would be ready for a node that can load everything. It looks at some
-- of each sort.
local function unfit()
	local latest, list = {}, {}
	local function note(gr, no, ready)
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
	end
	local function some(gr, key, to, most, ready)
		local looked = 0
		return scan(key, '-inf', to, function(no)
			looked = looked + 1
			note(gr, no, ready)
			return looked == most
		end)
	end
	local function goes(r) return not waits(r) end
	for _, loaded in ipairs({ true, false }) do -- of due runs those with a later build, too
		sortsBy(INDEX.waking, loaded, function(gr, key) some(gr, key, nowText, MAX.unfitSort, goes) end)
	end
	sortsBy(INDEX.ready, false, function(gr, key) return some(gr, key, '+inf', MAX.unfitSort, goes) end)
	for _, gr in ipairs(groups) do
		some(gr, T .. 'd:' .. gr, '+inf', MAX.unfitLook, function(r) return called(r, true) end)
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

local more, moreItems, rows, shown, left = false, false, {}, {}, {}
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
		for i = 1, #candidates do shown[i] = { candidates[i][1], candidates[i][2], candidates[i][3], candidates[i][5] } end
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
		if found == MAX.items then
			moreItems = true
			break
		end
		found = found + 1
		list[i] = head(nos[i], r.q[nos[i]])
	end
	if #list > 0 then items[#items + 1] = { r.no, list } end
end

-- The next wake time. Of many sleepers in other shards only some are read; the answer is then
-- earlier than necessary.
local wake = ''
sortsBy(INDEX.waking, true, function(gr, key)
	local looked = 0
	local any = scan(key, '(' .. nowText, '+inf', function(no)
		local r = mine(gr, no)
		looked = looked + 1
		if r and takes(r) or looked == MAX.sleepers then
			r = r or row(no)
			if r and r.wa and (wake == '' or later(wake, r.wa)) then wake = r.wa end
			return true
		end
	end)
	return any or call('EXISTS', key) == 1
end)
if fence == '' and own and count > 0 and #fenced == 0 then fence = fenceFor(boot, new) end
return { nowText, fenced, shown, rows, items, wake, more and '1' or '', moreItems and '1' or '', left, fence }
