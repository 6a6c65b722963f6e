-- Returns the highest numbers of runs and items of a part, without their slots, and '1' if it has a
-- copy of what is noted of the store, see note.lua.

local c = call('HMGET', T .. 'n', 'r', 'i')
return { c[1] or '0', c[2] or '0', call('HEXISTS', T .. 'M', 'lanes') == 1 and '1' or '' }
