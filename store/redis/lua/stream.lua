-- Returns items of a stream. Arguments: run, name, position after which, how many,
-- how many bytes. Answer: the position of the first, items.

local no, name, after, limit, room = arg(), arg(), num(), num(), num()
local last = string.match(call('HGET', T .. 'f:' .. no, 's' .. name) or '0;', '^(%d+);')
local key = T .. 's:' .. no .. ':' .. name
local first = tonumber(last) - call('LLEN', key) + 1
local from = math.max(after + 1, first)
local items, size = {}, 0
while #items < limit do
	local at = from - first + #items
	local page = call('LRANGE', key, at, at + math.min(limit - #items, MAX.streamPage) - 1)
	if #page == 0 then break end
	for i = 1, #page do
		-- Before the value stand the time, one letter and the mark of a value.
		size = size + math.max(#page[i] - #string.match(page[i], '^%d+%a') - 1, 0)
		if size > room and #items > 0 then return { dec(from), items } end
		items[#items + 1] = page[i]
	end
end
return { dec(from), items }
