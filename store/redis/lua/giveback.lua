-- giveBack makes a claimed run ready again, and suspect unless the owner has ended
-- cleanly. It reports whether it became suspect.
local function giveBack(no, clean)
	local r = row(no)
	local new = { co = '1' }
	if r.st == '3' or r.wa then new.co = '0' end -- it was claimed at rest
	local suspect = not clean and not waits(r) and r.st ~= '3' and r.st ~= '1'
	if suspect then
		local f = call('HMGET', T .. 'r:' .. no, 'su', 'sk', 'al')
		new.su = dec((f[1] or 0) + 1)
		if f[3] then new.sk = dec((f[2] or 0) + 1) end
	end
	change(r, new)
	return suspect
end
