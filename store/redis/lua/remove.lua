-- Deletes runs, as far as nothing but their retention keeps them.
--
-- Arguments: rows that may be deleted, part, parts, runs whose parents in other parts were
-- asked ('1': it keeps the run), numbers of runs. Lists begin with their length.
--
-- Answer: time, '1' if done, rows, runs, numbers of runs that stay, and runs whose parents in
-- other parts are to be asked before it can go on (number, parent, the parent's location,
-- creation).

left, part, parts = num(), num(), num()
for i = 1, num() do
	local no = arg()
	asked[no] = arg()
end
local kept = {}
local function done(is)
	flush()
	return { nowText, is and '1' or '', dec(rows), dec(runs), kept, ask }
end

for i = 1, num() do
	local no = arg()
	local r = row(no)
	if r then
		if not terminal(r.st) or needed(r) then
			kept[#kept + 1] = no
		elseif not drop(r) then
			return done(false)
		end
	end
end
return done(#ask == 0)
