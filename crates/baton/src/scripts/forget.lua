-- forget: drops every node that is gone from its presence channel.
--
-- KEYS  1 nodes  2 joined  3 seen
-- ARGV  1 prefix of presence channels
-- Returns the names of the forgotten.
-- Keeps: a node that lives after all is back with its next beat.
local forgotten = {}
local names = redis.call('HKEYS', KEYS[1])
redis.call('ZCARD', KEYS[2])
redis.call('ZCARD', KEYS[3])
local nodes = {}
for i, name in ipairs(names) do nodes[i] = {name = name} end
local gone = absent(ARGV[1], '', nodes)
for _, name in ipairs(names) do
  if gone[name] then
    forgotten[#forgotten + 1] = name
    redis.call('HDEL', KEYS[1], name)
    redis.call('ZREM', KEYS[2], name)
    redis.call('ZREM', KEYS[3], name)
  end
end
return forgotten
