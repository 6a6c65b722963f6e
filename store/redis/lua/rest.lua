-- The rest of a group commit: what most batches have no need of.

-- carryOut carries out a turn, and returns the verdict followed by the reason.
local function carryOut(t)
	if fence == '' and not leads[t.shard] then return VERDICT.fenced end
	if t.entriesOnly and #t.entries <= MAX.fields and append(t) then return VERDICT.committed end
	local r = row(t.no)
	local why, at = refuses(t, r)
	if why then return VERDICT.refused .. why .. ': ' .. at end
	return write(t, r)
end

-- complete returns a turn that has entries and an update with only a status, a build and an output.
local function complete(t, text, build, op)
	local p = updateOf(text)
	return updating(t, { st = p.st, mk = p.mk, wa = p.wa, ge = p.ge, isolate = false, endIsolation = false,
		discard = p.discard, names = p.names, unclaim = false,
		bu = build, op = op, re = '', wt = '', qu = '', keep = 0, sends = none,
		consumed = none, audit = none })
end

-- sent carries out the sends of a turn.
local function sent(result, t, verdict)
	local lists = {}
	if verdict == VERDICT.committed or verdict == VERDICT.stillReady then lists[1] = t.sends or none end
	if verdict == VERDICT.committed and t.update then lists[2] = t.update.sends end
	for i = 1, #lists do
		for k = 1, #lists[i] do result[#result + 1] = send(part, t.no, lists[i][k]) end
	end
end

-- remaining carries out the turns of no group and the commands, and returns the results and answers.
local function remaining()
	local turns = {}
	for i = 1, num() do turns[i] = readTurn() end
	if #turns > 1 then -- asked once for all inboxes, most of which are empty
		local inboxes = {}
		for i = 1, #turns do inboxes[i] = T .. 'q:' .. turns[i].no end
		if call('EXISTS', unpack(inboxes)) == 0 then
			for i = 1, #turns do empty[turns[i].no] = true end
		end
	end
	for i = 1, #turns do
		local t = turns[i]
		local known = record.t[t.index]
		again = known and true or false
		if not known then
			known = carryOut(t)
			record.t[t.index], fresh = known, true
		end
		local verdict = string.sub(known, 1, 1)
		local result = { verdict, string.sub(known, 2) }
		sent(result, t, verdict)
		turns[i] = result
	end

	local first = 'c' .. arg()
	local answers, commands = {}, {}
	again = record.t[first] and true or false
	for i = 1, num() do commands[i] = readCommand() end
	learn(commands)
	for i = 1, #commands do answers[i] = apply(commands[i]) end
	if #commands > 0 and not again then record.t[first], fresh = VERDICT.committed, true end
	return turns, answers, sentTo
end

return carryOut, complete, remaining
