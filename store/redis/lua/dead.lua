-- Lists dead letters, newest first. The caller filters.
--
-- Arguments: the number below which the list begins or '+inf', how many.
-- Answer: of each the item, then the run's number, ID, workflow, status, incarnation.

local below, limit = arg(), num()
if below ~= '+inf' then below = '(' .. below end
local letters = {}
for i, no in ipairs(call('ZREVRANGEBYSCORE', T .. 'D', below, '-inf', 'LIMIT', 0, limit)) do
	local of = call('HGET', T .. 'i:' .. no, 'r')
	local r = row(of) or { id = '', wf = '', st = '0', ic = '0' } -- its row cannot be read
	letters[i] = { item(no), of, r.id, r.wf, r.st, r.ic }
end
return letters
