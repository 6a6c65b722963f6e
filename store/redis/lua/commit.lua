-- A group commit, or the part of it that is of one tag: turns, then commands. Also
-- Apply, whose batch has no number and no leases.
--
-- Arguments; each list begins with its length:
--   node, boot, number of the batch ('' of Apply), that of the last batch here whose result
--   the boot knows, part, parts;
--   the fence under which the boot is known to have all leases that the turns need, or '',
--   and a text for a new one;
--   leases (shard, epoch; with a fence only those under which commands may claim);
--   groups of turns of one shape, see turnGroup (group of shards, the text of their
--   updates or '' for steps, build, and turns: places in the batch, then their arguments);
--   turns (place in the batch, turn);
--   the place of the first command in the batch, commands.
--
-- Answer: time alone if the boot has another fence now; otherwise
--   time;
--   the shards' epochs where the given ones are not current;
--   of each group the verdicts, each with its reason if there is one, or '' if all are
--   committed;
--   of each other turn the verdict, the reason and the answers to its sends;
--   of each command the answer;
--   the parts for which something was put into the outbox;
--   and the fence if all leases are current and the boot's.

-- carryOut carries out a turn, and complete completes one that was read by updates. They are of the rest, which is
-- defined when it is needed: to define its functions takes longer than to write a step.
local carryOut, complete, remaining
local function needRest()
	if not carryOut then carryOut, complete, remaining = rest() end
end

-- turnGroup carries out turns of one group of shards and one shape. try is called for those
-- whose run is claimed, with the run, the incarnation, the place of the incarnation in the
-- arguments and all runs; it returns the verdict, or false if the turn has to be examined
-- like any other. finish then completes that turn. Each turn has width arguments, of
-- which the first are its run and the incarnation.
local function turnGroup(gr, width, try, finish)
	local n, places = num(), arg()
	local base, runs, verdicts, odd, at = cursor, {}, {}, repeated, nil
	cursor = cursor + width * n
	for i = 1, n do runs[i] = ARGV[base + width * (i - 1) + 1] end
	local claimed = call('HMGET', T .. INDEX.claimed .. ':' .. gr, unpack(runs))
	local function place(i)
		if not at then
			at = {}
			for p in string.gmatch(places, '%d+') do at[#at + 1] = p end
		end
		return at[i]
	end
	for i = 1, n do
		local no, k = runs[i], base + width * (i - 1) + 2
		local verdict = repeated and record.t[place(i)]
		if not verdict and claimed[i] == ARGV[k] and (fence ~= '' or leads[shardOf(no, gr)]) then
			verdict = try(no, ARGV[k], k, runs)
		end
		if not verdict then
			needRest()
			verdict = carryOut(finish({ no = no, shard = shardOf(no, gr), ic = ARGV[k] }, k))
		end
		odd = odd or verdict ~= VERDICT.committed
		verdicts[i] = verdict
	end
	fresh = true
	if not odd then
		record.s = record.s .. ',' .. places
		return ''
	end
	for i = 1, n do record.t[place(i)] = verdicts[i] end
	return verdicts
end

-- entryAt returns a list of the entry at a place of the arguments: location, head. It is
-- empty if the head is ''.
local function entryAt(k)
	if ARGV[k + 1] == '' then return none end
	return { { loc = ARGV[k], head = ARGV[k + 1], large = false } }
end

-- steps carries out turns of one small entry. Their further arguments: location, head.
local function steps(gr)
	return turnGroup(gr, 4, function(no, ic, k)
		return call('HSETNX', T .. 'e:' .. no .. ':' .. ic, ARGV[k + 1], ARGV[k + 2]) == 1 and VERDICT.committed
	end, function(t, k)
		t.entriesOnly, t.entries = true, entryAt(k + 1)
		return t
	end)
end

-- altered returns the field m of a running run after an update to a status, and the
-- workflow; nil if the run has parts that need more than this.
local function altered(kept, to, build, size)
	local st, co, mk, wa, ic, ge, sa, en, su, sk, al, is, os, cr, of, gr, wf, bu, texts = string.match(kept, MAIN)
	if st ~= STATUS.running or co ~= CONDITION.claimed or mk ~= '' or of ~= '' or sa == '' then return nil end
	local g, w, b = tonumber(gr), tonumber(wf), tonumber(bu)
	local name, old = string.sub(texts, g + 1, g + w), string.sub(texts, g + w + 1, g + w + b)
	if less(old, build) then old = build end
	co = to == STATUS.running and CONDITION.claimed or CONDITION.idle
	if size then os = size end
	en = to ~= STATUS.running and nowText or ''
	local group, id = string.sub(texts, 1, g), string.sub(texts, g + w + b + 1)
	return to .. ';' .. co .. ';;;' .. ic .. ';' .. ge .. ';' .. sa .. ';' .. en .. ';;;;' .. is .. ';' .. os .. ';'
		.. cr .. ';;' .. gr .. ';' .. wf .. ';' .. #old .. ';' .. group .. name .. old .. id, name
end

-- updates carries out turns of at most one small entry and an update that has only a
-- status, which is running or an end, a build, and an output. Their further arguments:
-- location and head of the entry, output.
local function updates(gr, text, build)
	local to, quiet = string.sub(text, 1, 1), nil
	return turnGroup(gr, 5, function(no, ic, k, runs)
		if quiet == nil then -- asked once for all inboxes, most of which are empty
			local inboxes = {}
			for i = 1, #runs do inboxes[i] = T .. 'q:' .. runs[i] end
			quiet = call('EXISTS', unpack(inboxes)) == 0
		end
		if not quiet then return false end
		local op = ARGV[k + 3]
		local m, wf = altered(call('HGET', T .. 'r:' .. no, 'm'), to, build, op ~= '' and (#op > 1 and #op - 1 or '') or nil)
		if not m or ARGV[k + 2] ~= '' and call('HSETNX', T .. 'e:' .. no .. ':' .. ic, ARGV[k + 1], ARGV[k + 2]) == 0 then
			return false
		end
		if op ~= '' then
			call('HSET', T .. 'r:' .. no, 'm', m, 'op', op)
		else
			call('HSET', T .. 'r:' .. no, 'm', m)
		end
		if to ~= STATUS.running then
			rank('l:' .. STATUS.running .. ':' .. wf, no, false)
			rank('l:' .. to .. ':' .. wf, no, no)
			rank('E:' .. to .. ':' .. wf, ended(no), nowText)
			enter(INDEX.claimed .. ':' .. gr, no, false)
		end
		return VERDICT.committed
	end, function(t, k)
		t.entries = entryAt(k + 1)
		return complete(t, text, build, ARGV[k + 3])
	end)
end

local stepped = {}
for i = 1, num() do
	local gr, text, build = arg(), arg(), arg()
	stepped[i] = text == '' and steps(gr) or updates(gr, text, build)
end

-- Most batches have nothing else.
local turns, answers, sentTo, here = {}, {}, none, cursor
local first = num() == 0 and arg()
if not first or num() > 0 then
	cursor = here
	needRest()
	turns, answers, sentTo = remaining()
end
if fresh and batch ~= '' then call('HSET', T .. 'b', boot, batch .. ';' .. cmsgpack.pack(record)) end
flush()
return { nowText, epochs, stepped, turns, answers, sentTo, new }
