-- Returns the memory that the server uses and may use, in bytes; 0: as much as there is.

local info = call('INFO', 'memory')
return { string.match(info, 'used_memory:(%d+)') or '0', string.match(info, 'maxmemory:(%d+)') or '0' }
