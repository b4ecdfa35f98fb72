-- forget: drops the named nodes that are absent.
--
-- KEYS
--   1 nodes   hash: node -> run_id, a space, what the node says about itself
--   2 joined  zset: node -> when it joined (ms); the line of standbys
--   3 seen    zset: node -> its last beat (ms)
-- ARGV
--   1 prefix  of the presence channels
--   2...      names of nodes
-- Returns the names of the dropped nodes
-- Invariants
--   A node that is present stays. One that lives after all is back with its next beat.
local nodes, joined, seen = unpack(KEYS)
local prefix = ARGV[1]

must_be(nodes, 'hash')
must_be(joined, 'zset')
must_be(seen, 'zset')
local named, forgotten = {}, {}
for i = 2, #ARGV do named[i - 1] = {name = ARGV[i]} end
local gone = absent(prefix, '', named)

for _, node in ipairs(named) do
  if gone[node.name] then
    forgotten[#forgotten + 1] = node.name
    redis.call('HDEL', nodes, node.name)
    redis.call('ZREM', joined, node.name)
    redis.call('ZREM', seen, node.name)
  end
end
return forgotten
