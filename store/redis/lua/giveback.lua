-- giveBack makes a claimed run ready again, and suspect unless the owner has ended
-- cleanly. It reports whether it became suspect.
local function giveBack(no, clean)
	local r = row(no)
	local new = { co = CONDITION.ready }
	if r.st == STATUS.suspended or r.wa then new.co = CONDITION.idle end -- it was claimed at rest
	local suspect = not clean and not waits(r) and r.st ~= STATUS.suspended and r.st ~= STATUS.queued
	if suspect then
		new.su = dec((r.su or 0) + 1)
		if r.al then new.sk = dec((r.sk or 0) + 1) end
	end
	change(r, new)
	return suspect
end
