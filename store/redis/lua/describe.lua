-- Returns the leases of the part, and of part 0 the nodes and workflows of the store.
--
-- Answer: time, leases (slot:group, kept), nodes (ID, kept), workflows.

return { nowText, call('HGETALL', T .. 'L'), call('HGETALL', T .. 'N'), call('SMEMBERS', T .. 'W') }
