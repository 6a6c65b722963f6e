-- giveBack makes a claimed run ready again, and suspect unless the owner has ended
-- cleanly. It reports whether it became suspect.
local function giveBack(no, clean)
	local r = row(no)
	if not r then return false end
	local new = { co = CONDITION.ready }
	if r.st == STATUS.suspended or r.wa then new.co = CONDITION.idle end -- it was claimed at rest
	local works = not waits(r) and r.st ~= STATUS.suspended and r.st ~= STATUS.queued
	local suspect = works and not clean
	if suspect then
		local times = tonumber(r.su or 0)
		if r.al then
			new.su, new.sk = dec(times + 1), dec((r.sk or 0) + 1)
		elseif times < 2 then
			new.su, new.sk = dec(times + 1), false
		else -- it was not executed, or had been for long
			new.su, new.sk = dec(math.max(times - 1, 2)), false
		end
	end
	if works then new.al = false end
	change(r, new)
	return suspect
end
