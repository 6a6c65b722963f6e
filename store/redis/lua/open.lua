-- Opens the store, and makes it if it is not there; on part 0.
--
-- Arguments: ID, slots and parts of a new store.
-- Answer: ID, schema, the oldest schema that a binary must know, slots, parts,
-- highest numbers of runs and items.

local id, n, p = arg(), arg(), arg()
if call('EXISTS', T .. 'M') == 0 then
	call('HSET', T .. 'M', 'id', id, 'schema', '1', 'oldest', '1', 'slots', n, 'parts', p, 'created', nowText)
end
local m = call('HMGET', T .. 'M', 'id', 'schema', 'oldest', 'slots', 'parts')
local c = call('HMGET', T .. 'n', 'r', 'i')
return { m[1], m[2], m[3], m[4], m[5], c[1] or '0', c[2] or '0' }
