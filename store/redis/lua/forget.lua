-- Forgets the last batches of boots that have ended.
--
-- Arguments: boots (node, newline, boot), with their number first.

for i = 1, num() do
	local boot = arg()
	call('HDEL', T .. 'b', boot)
	call('HDEL', T .. 'h', boot)
	call('HDEL', T .. 'B', boot)
	call('HDEL', T .. 'g', boot)
end
return { nowText }
