-- Opens the store, and makes it if it is not there; on part 0. On another part it reads the copy of
-- what is noted of the store.
--
-- Arguments: ID, slots and parts of a new store; '' to make none; the lanes if none are
-- noted yet, or ''.
-- Answer: ID, schema, the oldest schema that a binary must know, slots, parts, the lanes or '',
-- highest numbers of runs and items; nothing if there is no store.

local id, n, p, lanes = arg(), arg(), arg(), arg()
if call('EXISTS', T .. 'M') == 0 then
	if id == '' then return {} end
	call('HSET', T .. 'M', 'id', id, 'schema', '1', 'oldest', '1', 'slots', n, 'parts', p, 'created', nowText)
end
if lanes ~= '' then call('HSETNX', T .. 'M', 'lanes', lanes) end
local m = call('HMGET', T .. 'M', 'id', 'schema', 'oldest', 'slots', 'parts', 'lanes')
local c = call('HMGET', T .. 'n', 'r', 'i')
return { m[1], m[2], m[3], m[4], m[5], m[6] or '', c[1] or '0', c[2] or '0' }
