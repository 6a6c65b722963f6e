-- Tells who works on the part, and of part 0 what is known of the store.
--
-- Answer: time, leases (slot:group, kept), nodes (ID, kept), workflows.

return { nowText, call('HGETALL', T .. 'L'), call('HGETALL', T .. 'N'), call('SMEMBERS', T .. 'W') }
