-- keeps reports whether a parent keeps a child that has ended: it lives, and its
-- incarnation began before the child was created and has an entry at its location.
local function keeps(parent, loc, created)
	local p = row(parent)
	return p and not terminal(p.st) and later(created, call('HGET', T .. 'r:' .. p.no, 'be') or '0')
		and call('HEXISTS', T .. 'e:' .. p.no .. ':' .. p.ic, loc) == 1
end
