-- beat: "I am here." Renews the lease of its holder, or takes one that is free.
--
-- KEYS  1 generator  2 nodes  3 joined  4 seen  5 meta  6 takeovers
-- ARGV  1 node  2 run of the server, as the node's connection saw it  3 lease ttl in ms
--       4 protocol version  5 prefix of presence channels  6 prefix of call channels
--       7 about (opaque, for people)  8 epoch that the lease must exceed (0: any)
--       9 beat of the first standbys in ms
-- Returns
--   {'generator', epoch, next beat in ms, now}       the node holds the lease
--   {'worker', holder, epoch, next beat in ms, now, place in line}   it does not;
--     place 1 and 2 are the first standbys, 0 is any later one
--   {'protocol', version}                            the fleet speaks another protocol
-- Keeps: one holder; the epoch only grows; a new holder always has a new epoch.
-- Whoever becomes a first standby by this beat is called to beat at once.
-- Each new epoch adds a line to `takeovers`, for people: "epoch node since gap how from". The
-- gap is how long the lease may have been without a living holder, in ms; how:
--   first     nobody ever had it
--   resigned  its holder gave it up; the gap is since then
--   gone      its holder is gone from presence; since anybody's last beat, which found it there
--   expired   its holder lives or seems to, but is silent; since the holder's last beat
--   raised    the holder itself needed a higher epoch
local node, run, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3])
local protocol, presence, calls, about = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local above, fast = tonumber(ARGV[8]), tonumber(ARGV[9])
local FIRST_STANDBYS = 2
local LINE_LOOK = 8
local SLOW_MS = 2000
local FORGET_MS = 600000
local TAKEOVERS = 100

local version = redis.call('HGET', KEYS[5], 'protocol')
if version and version ~= protocol then return {'protocol', version} end

local now = now_ms()
local lease = redis.call('HMGET', KEYS[1], 'node', 'epoch', 'until', 'run', 'since')
local holder, epoch = lease[1] or '', counted(KEYS[1], 'epoch', lease[2])
local lease_until = counted(KEYS[1], 'until', lease[3])
local since = lease[5] and counted(KEYS[1], 'since', lease[5])
if math.max(epoch, above) >= LARGEST then
  error('BADVALUE ' .. KEYS[1] .. ' epoch is at its end: no higher one can be counted', 0)
end
local fleet_size = redis.call('ZCARD', KEYS[3])
redis.call('LLEN', KEYS[6])

-- Who of the first in line is dead: gone from its channel, or silent for three slow beats.
local slow = math.max(math.min(ttl, SLOW_MS), fleet_size * 2)
local line = redis.call('ZRANGE', KEYS[3], 0, LINE_LOOK - 1)
local records = redis.call('HMGET', KEYS[2], node, unpack(line))
local seen = redis.call('ZMSCORE', KEYS[4], node, unpack(line))
local watched = {{name = holder, run = lease[4] or ''}}
for i, name in ipairs(line) do
  watched[i + 1] = {name = name, run = string.match(records[i + 1] or '', '^(%x*) ') or ''}
end
local gone = absent(presence, run, watched)
gone[node] = nil

local takes = holder ~= node
  and (holder == '' or is_past(lease_until, now) or gone[holder])
local generator = takes and node or holder
local dead, first, place, changed = {}, {}, nil, takes
for i, name in ipairs(line) do
  if name ~= node and (gone[name] or is_past(tonumber(seen[i + 1] or '0') + 3 * slow, now)) then
    dead[#dead + 1] = name
    changed = true
  elseif name ~= generator then
    if #first < FIRST_STANDBYS then first[#first + 1] = name end
    if name == node then place = #first end
  end
end
-- A node that joins with this beat goes to the end of the line.
local joins = not redis.call('ZSCORE', KEYS[3], node)
if joins and #first < FIRST_STANDBYS and fleet_size < LINE_LOOK then place = #first + 1 end
if place and place <= #first and first[place] ~= node then place = nil end

-- How long nobody held the lease, before this beat itself counts as a sign of life.
local how, gap = 'raised', 0
if takes and holder ~= '' then
  local alive = redis.call('ZSCORE', KEYS[4], holder)
  how = 'expired'
  if gone[holder] then
    how, alive = 'gone', redis.call('ZRANGE', KEYS[4], -1, -1, 'WITHSCORES')[2]
  end
  gap = math.max(0, now - tonumber(alive or now))
elseif takes then
  how = epoch == 0 and 'first' or 'resigned'
  gap = math.max(0, now - (since or now))
end

-- First write: one that needs no memory, so that a full server still hears a beat.
redis.call('ZREM', KEYS[4], node)
redis.call('ZADD', KEYS[4], now, node)
redis.call('HSET', KEYS[2], node, run .. ' ' .. about)
if joins then redis.call('ZADD', KEYS[3], now, node) end
if not version then redis.call('HSET', KEYS[5], 'protocol', protocol) end
for _, name in ipairs(dead) do redis.call('ZREM', KEYS[3], name) end
local function forget(from, to)
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], from, to, 'LIMIT', 0, 8)) do
    redis.call('ZREM', KEYS[4], name)
    redis.call('ZREM', KEYS[3], name)
    redis.call('HDEL', KEYS[2], name)
  end
end
forget('-inf', now - FORGET_MS)
-- Seen under a clock that was ahead. A node that lives is back with its next beat.
forget(now + LONGEST_TTL_MS, '+inf')
if changed then
  for _, name in ipairs(first) do
    if name ~= node then redis.call('PUBLISH', calls .. name, '') end
  end
end

if generator ~= node then
  return {'worker', holder, string.format('%.0f', epoch), place and fast or slow, now, place or 0}
end
if takes or epoch <= above then
  epoch = math.max(epoch, above) + 1
  redis.call('HSET', KEYS[1], 'since', now)
  redis.call('LPUSH', KEYS[6],
    string.format('%.0f %s %.0f %.0f %s %s', epoch, node, now, gap, how, holder))
  redis.call('LTRIM', KEYS[6], 0, TAKEOVERS - 1)
end
local word = string.format('%.0f', epoch)
redis.call('HSET', KEYS[1], 'node', node, 'epoch', word, 'until', now + ttl, 'run', run)
return {'generator', word, math.floor(ttl / 3), now}
