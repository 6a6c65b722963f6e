-- Returns the acts of operators on a run. Arguments: run. Answer: of each act its number,
-- its time and the rest as Go has packed it, separated by semicolons.

return call('LRANGE', T .. 'a:' .. arg(), 0, -1)
