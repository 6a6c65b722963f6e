-- Returns what operators did to a run. Arguments: run. Answer: of each act its number,
-- its time and what Go has packed, separated by semicolons.

return call('LRANGE', T .. 'a:' .. arg(), 0, -1)
