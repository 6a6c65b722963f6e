-- Returns the feeds of runs. Arguments: runs. Answer: of each run all its fields:
-- v or s with the name, then count, time and value.

local feeds = {}
for i = 1, num() do feeds[i] = call('HGETALL', T .. 'f:' .. arg()) end
return feeds
