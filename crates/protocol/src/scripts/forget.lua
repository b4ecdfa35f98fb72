-- forget: drops those of the named nodes that are gone from their presence channels.
--
-- KEYS  1 nodes  2 joined  3 seen
-- ARGV  1 prefix of presence channels  2.. names of nodes
-- Returns the names of the forgotten.
-- Keeps: a node that lives after all is back with its next beat.
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
