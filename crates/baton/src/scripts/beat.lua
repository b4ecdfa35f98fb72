-- beat: "I am here." Renews the lease of its holder, or takes one that is free.
--
-- KEYS  1 generator  2 nodes  3 joined  4 seen  5 meta
-- ARGV  1 node  2 run of the server, as the node's connection saw it  3 lease ttl in ms
--       4 protocol version  5 prefix of presence channels  6 about (opaque, for people)
--       7 epoch that the lease must exceed (0: any)  8 beat of the first standbys in ms
-- Returns
--   {'generator', epoch, next beat in ms, now}       the node holds the lease
--   {'worker', holder, epoch, next beat in ms, now, 'first'|'later'}   it does not
--   {'protocol', version}                            the fleet speaks another protocol
-- Keeps: one holder; the epoch only grows; a new holder always has a new epoch.
local node, run, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3])
local protocol, prefix, about = ARGV[4], ARGV[5], ARGV[6]
local above, fast = tonumber(ARGV[7]), tonumber(ARGV[8])
local FIRST_STANDBYS = 2
local LINE_LOOK = 8
local SLOW_MS = 2000
local FORGET_MS = 600000

local version = redis.call('HGET', KEYS[5], 'protocol')
if version and version ~= protocol then return {'protocol', version} end

local now = now_ms()
local lease = redis.call('HMGET', KEYS[1], 'node', 'epoch', 'until', 'run')
local holder, epoch = lease[1] or '', tonumber(lease[2] or '0')
local fleet_size = redis.call('ZCARD', KEYS[3])
redis.call('ZCARD', KEYS[4])

-- Who of the first in line is dead: gone from its channel, or silent for three slow beats.
local slow = math.max(math.min(ttl, SLOW_MS), fleet_size * 2)
local line = redis.call('ZRANGE', KEYS[3], 0, LINE_LOOK - 1)
local watched = {}
for _, name in ipairs(line) do
  local record = redis.call('HGET', KEYS[2], name) or ''
  watched[#watched + 1] = {name = name, run = string.match(record, '^(%x*) ') or ''}
end
watched[#watched + 1] = {name = holder, run = lease[4] or ''}
local gone = absent(prefix, run, watched)
gone[node] = nil
local dead, rank, position = {}, nil, 0
for _, name in ipairs(line) do
  local seen = tonumber(redis.call('ZSCORE', KEYS[4], name) or '0')
  if name ~= node and (gone[name] or seen + 3 * slow < now) then
    dead[#dead + 1] = name
  elseif name ~= holder or name == node then
    position = position + 1
    if name == node then rank = position end
  end
end

-- A node that joins with this beat goes to the end of the line.
if not rank and fleet_size < LINE_LOOK then rank = position + 1 end

-- First write: one that needs no memory, so that a full server still hears a beat.
redis.call('ZREM', KEYS[4], node)
redis.call('ZADD', KEYS[4], now, node)
redis.call('HSET', KEYS[2], node, run .. ' ' .. about)
redis.call('ZADD', KEYS[3], 'NX', now, node)
if not version then redis.call('HSET', KEYS[5], 'protocol', protocol) end
for _, name in ipairs(dead) do redis.call('ZREM', KEYS[3], name) end
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', now - FORGET_MS, 'LIMIT', 0, 8)) do
  redis.call('ZREM', KEYS[4], name)
  redis.call('ZREM', KEYS[3], name)
  redis.call('HDEL', KEYS[2], name)
end

local free = holder == '' or tonumber(lease[3] or '0') <= now or gone[holder]
if holder ~= node and not free then
  local first = rank and rank <= FIRST_STANDBYS
  return {'worker', holder, string.format('%.0f', epoch), first and fast or slow, now,
    first and 'first' or 'later'}
end
if holder ~= node or epoch <= above then
  epoch = math.max(epoch, above) + 1
  redis.call('HSET', KEYS[1], 'since', now)
end
local word = string.format('%.0f', epoch)
redis.call('HSET', KEYS[1], 'node', node, 'epoch', word, 'until', now + ttl, 'run', run)
return {'generator', word, math.floor(ttl / 3), now}
