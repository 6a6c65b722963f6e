-- The first write of an act that frees memory, or without which nothing is freed: a full
-- server refuses a command that may take memory, unless its script has written before. It
-- never refuses DEL; nothing has this key.
call('DEL', T .. '-')
