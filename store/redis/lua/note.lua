-- Notes in a part what part 0 says of the store, for processes that begin while part 0 is away.
--
-- Arguments: ID, schema, oldest, slots, parts, lanes.

call('HSET', T .. 'M', 'id', arg(), 'schema', arg(), 'oldest', arg(), 'slots', arg(), 'parts', arg(), 'lanes', arg())
return { nowText }
