-- The deletion of runs, for acts that delete. An act sets how many rows it may delete, its
-- part, the number of parts, and what parents in other parts have said.

local left, rows, runs = 0, 0, 0
local part, parts = 0, 1
local asked, ask = {}, {} -- of runs: '1' if the parent keeps it; those whose parents are to be asked

-- room counts rows that are deleted: as many of n as may be.
local function room(n)
	n = math.min(n, left)
	left, rows = left - n, rows + n
	return n
end

-- some returns up to n fields of a hash.
local function some(key, n)
	if n == 0 then return {} end
	local fields = call('HRANDFIELD', key, n)
	return fields
end

-- needed reports whether somebody works on an ended run, will, or may ask for it. If only a
-- parent in another part knows, it notes that this has to be asked.
local function needed(r)
	if r.co ~= CONDITION.idle or call('ZSCORE', T .. 'd:' .. r.gr, r.no) then return true end
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
