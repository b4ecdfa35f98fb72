-- Fragment: the first write of a script that must run on a full server. Such a server refuses a
-- script's first write if that needs memory, and accepts every later one. If it refused these
-- scripts, no worker could keep its claim and no drain could empty the errors store: the server
-- would stay full.

-- A write that changes nothing and needs no memory.
local function begin_writes(claims)
  redis.call('HDEL', claims, '')
end

