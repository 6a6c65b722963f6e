-- Asks parents whether they keep children that have ended.
--
-- Arguments: parents, each with a child's location and creation. Answer: of each '1' or '0'.

local answers = {}
for i = 1, num() do
	local parent, loc, created = arg(), arg(), arg()
	answers[i] = keeps(parent, loc, created) and '1' or '0'
end
return answers
