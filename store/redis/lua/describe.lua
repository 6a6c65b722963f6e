-- Returns the leases of the part, and of the home of a lane its nodes and workflows.
--
-- Answer: time, leases (slot:group, kept), nodes (ID, kept), workflows.

return { nowText, call('HGETALL', T .. 'L'), call('HGETALL', T .. 'N'), call('SMEMBERS', T .. 'W') }
