-- keeps reports whether a parent keeps a child that has ended: it lives, and its
-- incarnation has an entry at the child's location.
local function keeps(parent, loc)
	local p = row(parent)
	return p and not terminal(p.st) and call('HEXISTS', T .. 'e:' .. p.no .. ':' .. p.ic, loc) == 1
end
