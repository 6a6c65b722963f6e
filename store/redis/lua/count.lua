-- Counts runs by workflow and status. Answer: workflow, status, runs, and so on.

local tallies = {}
for _, wf in ipairs(call('SMEMBERS', T .. 'w')) do
	for st = 1, 7 do
		local n = call('ZCARD', T .. 'l:' .. st .. ':' .. wf)
		if n > 0 then
			tallies[#tallies + 1] = wf
			tallies[#tallies + 1] = st
			tallies[#tallies + 1] = n
		end
	end
end
return tallies
