-- Returns the highest numbers of runs and items of a part, without their slots.

local c = call('HMGET', T .. 'n', 'r', 'i')
return { c[1] or '0', c[2] or '0' }
