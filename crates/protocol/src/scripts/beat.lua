-- beat: a node says that it lives. The beat renews the node's lease, or takes a free one.
--
-- KEYS
--   1 generator  hash, the lease: node, epoch, until (ms), run, since (ms), waited
--   2 nodes      hash: node -> run_id, a space, what the node says about itself
--   3 joined     zset: node -> when it joined (ms); the line of standbys. Nodes that never generate
--                have LINE_END_MS added: they stand behind all others
--   4 seen       zset: node -> its last beat (ms)
--   5 meta       hash: protocol, partitions
--   6 takeovers  list: how the lease changed hands, newest first
--   7 fence      hash: last, known
-- ARGV
--   1 node           the caller
--   2 run_id         the server process, as the node's connection saw it
--   3 ttl_ms         of the lease
--   4 protocol       the node's protocol version
--   5 prefix         of the presence channels
--   6 call_prefix    of the call channels
--   7 about          what the node says about itself; opaque, for people
--   8 above          an epoch that the lease must exceed; 0 for any
--   9 first_beat_ms  after what time a first standby beats again
--   10 candidate     '1' if the node may generate, else '0'
--   11 known         the highest number that Redis acknowledged to this node; 0 for none
--   12 partitions    how many partitions the node takes the fleet to have
-- Returns
--   {'generator', epoch, next_ms, now, standbys, last}
--                            the node has the lease. Standbys is how many of the first standbys there
--                            are: 0, 1 or 2. Last is the fleet's last sequence number
--   {'worker', holder, epoch, next_ms, now, place, last}
--                            another node has the lease, or none: ''. Place 1 and 2 are the first
--                            standbys, 0 is any other node
--   {'protocol', version}    the fleet uses another protocol version
--   {'partitions', count}    the fleet has another number of partitions
-- Invariants
--   The first beat of a fleet says how many partitions it has, for ever, if no node that joined did.
--   The lease has one holder. The epoch only grows, and a new holder has a new epoch.
--   Only a candidate takes the lease. A holder that is no candidate any more gives it up.
--   A node that becomes a first standby by this beat is called: it beats at once. The first node
--   that joins a generator calls that generator.
--   A server that forgot messages learns from the first beat of each node which numbers it gave:
--   `known` is the highest of them, if it is above `last`.
--   When the server process has changed, the holder of an expired lease has REUNION_MS to come
--   back: it keeps packs that the server may have forgotten.
--   Each new epoch adds a line to `takeovers`, "epoch node since gap how from". The gap is how
--   long the lease may have been without a living holder, in ms. How is one of:
--     first     no node had the lease before
--     resigned  its holder gave it up; the gap began then
--     gone      its holder is absent; the gap began with the last beat of any node, which found
--               the holder present
--     expired   its holder is silent but not known to be dead; the gap began with the holder's
--               last beat
--     raised    the holder itself needed a higher epoch
-- Constants from bounds.rs: MAX_EXACT, MAX_TTL_MS, MAX_BEAT_MS, BEAT_MS_PER_NODE, SILENT_BEATS,
-- LINE_END_MS, REUNION_MS.
local generator, nodes, joined, seen, meta, takeovers, fence = unpack(KEYS)
local node, run_id, ttl_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
local protocol, prefix, call_prefix, about = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local above, first_beat_ms, candidate = tonumber(ARGV[8]), tonumber(ARGV[9]), ARGV[10] == '1'
local known, partitions = ARGV[11], ARGV[12]
local FIRST_STANDBYS = 2
-- Nodes at the front of the line that a beat examines.
local FRONT_NODES = 8
-- After what time a beat forgets a silent node, and how many at a time.
local FORGET_MS, FORGET_AT_ONCE = 600000, 8
local MAX_TAKEOVERS = 100

local version, count = unpack(redis.call('HMGET', meta, 'protocol', 'partitions'))
if version and version ~= protocol then return {'protocol', version} end
if version and (count or '1') ~= partitions then return {'partitions', count or '1'} end

local now = now_ms()
local lease = redis.call('HMGET', generator, 'node', 'epoch', 'until', 'run', 'since', 'waited')
local holder, epoch = lease[1] or '', checked_count(generator, 'epoch', lease[2])
local lease_until = checked_count(generator, 'until', lease[3])
local since = lease[5] and checked_count(generator, 'since', lease[5])
if math.max(epoch, above) + 1 >= MAX_EXACT then
  error('BADVALUE ' .. generator .. ' epoch cannot grow: it would reach 2^53', 0)
end
local fleet_size = redis.call('ZCARD', joined)
must_be(takeovers, 'list')
-- Seal and publish refuse a `last` that is no number, and name it. A beat goes on.
local numbers = redis.call('HMGET', fence, 'last', 'known')
local last = parse_count(numbers[1] or '0')
local is_forgotten = last and tonumber(known) > math.max(last, parse_count(numbers[2] or '0') or 0)
local last_text = last and (numbers[1] or '0') or known

-- Which nodes at the front of the line are absent.
local front = redis.call('ZRANGE', joined, 0, FRONT_NODES - 1)
local abouts = redis.call('HMGET', nodes, node, unpack(front))
local beats = redis.call('ZMSCORE', seen, node, unpack(front))
local watched = {{name = holder, run_id = lease[4] or ''}}
for i, name in ipairs(front) do
  watched[i + 1] = {name = name, run_id = string.match(abouts[i + 1] or '', '^(%x*) ') or ''}
end
local gone = absent(prefix, run_id, watched)
gone[node] = nil

-- Who has the lease after this beat, which nodes are dead, and who is a first standby.
local expired = is_past(lease_until, now)
local waits = expired and holder ~= '' and holder ~= node
  and (lease[4] or '') ~= run_id and lease[6] ~= run_id
local takes = candidate and holder ~= node
  and (holder == '' or expired and not waits or gone[holder])
local resigns = holder == node and not candidate
local new_holder = takes and node or (resigns and '' or holder)
local beat_ms = math.max(math.min(ttl_ms, MAX_BEAT_MS), fleet_size * BEAT_MS_PER_NODE)
local silent_ms = SILENT_BEATS * beat_ms
local dead, standbys, place, line_moves = {}, {}, nil, takes or resigns
for i, name in ipairs(front) do
  if name ~= node and (gone[name] or is_past(tonumber(beats[i + 1] or '0') + silent_ms, now)) then
    dead[#dead + 1] = name
    line_moves = true
  elseif name ~= new_holder then
    if #standbys < FIRST_STANDBYS then standbys[#standbys + 1] = name end
    if name == node then place = #standbys end
  end
end
-- A node that joins with this beat goes to the end of the line.
local stands = redis.call('ZSCORE', joined, node)
local joins = not stands
if joins and #standbys < FIRST_STANDBYS and fleet_size < FRONT_NODES then
  place = #standbys + 1
end
if place and place <= #standbys and standbys[place] ~= node then place = nil end

-- How long the lease had no living holder: read before this beat itself is a sign of life.
local how, gap = 'raised', 0
if takes and holder ~= '' then
  local alive = redis.call('ZSCORE', seen, holder)
  how = 'expired'
  if gone[holder] then
    how, alive = 'gone', redis.call('ZRANGE', seen, -1, -1, 'WITHSCORES')[2]
  end
  gap = math.max(0, now - tonumber(alive or now))
elseif takes then
  how = epoch == 0 and 'first' or 'resigned'
  gap = math.max(0, now - (since or now))
end

-- The first write needs no memory, so a full server accepts beats.
redis.call('ZREM', seen, node)
redis.call('ZADD', seen, now, node)
redis.call('HSET', nodes, node, run_id .. ' ' .. about)
if joins then redis.call('ZADD', joined, candidate and now or now + LINE_END_MS, node) end
if stands and not candidate and tonumber(stands) < LINE_END_MS then
  redis.call('ZADD', joined, stands + LINE_END_MS, node)
end
if not version then redis.call('HSET', meta, 'protocol', protocol, 'partitions', partitions) end
if is_forgotten then redis.call('HSET', fence, 'known', known) end
if waits then
  redis.call('HSET', generator, 'until', now + REUNION_MS, 'waited', run_id)
end
for _, name in ipairs(dead) do redis.call('ZREM', joined, name) end

-- Nodes that were silent for long, and nodes that were seen under a clock that was ahead. One
-- that lives is back with its next beat.
local forgotten = redis.call('ZRANGEBYSCORE', seen, '-inf', now - FORGET_MS,
  'LIMIT', 0, FORGET_AT_ONCE)
local ahead = redis.call('ZRANGEBYSCORE', seen, now + MAX_TTL_MS, '+inf',
  'LIMIT', 0, FORGET_AT_ONCE)
for _, name in ipairs(ahead) do forgotten[#forgotten + 1] = name end
for _, name in ipairs(forgotten) do
  redis.call('ZREM', seen, name)
  redis.call('ZREM', joined, name)
  redis.call('HDEL', nodes, name)
end

if line_moves then
  for _, name in ipairs(standbys) do
    if name ~= node then redis.call('PUBLISH', call_prefix .. name, '') end
  end
end
if new_holder ~= node then
  if joins and place == 1 then redis.call('PUBLISH', call_prefix .. holder, '') end
  if resigns then
    redis.call('HDEL', generator, 'node', 'until', 'run', 'since', 'waited')
    redis.call('HSET', generator, 'since', now)
  end
  local next_ms = place and first_beat_ms or beat_ms
  return {'worker', new_holder, string.format('%.0f', epoch), next_ms, now, place or 0,
    last_text}
end
if takes or epoch <= above then
  epoch = math.max(epoch, above) + 1
  redis.call('HSET', generator, 'since', now)
  redis.call('LPUSH', takeovers,
    string.format('%.0f %s %.0f %.0f %s %s', epoch, node, now, gap, how, holder))
  redis.call('LTRIM', takeovers, 0, MAX_TAKEOVERS - 1)
end
local epoch_text = string.format('%.0f', epoch)
redis.call('HSET', generator, 'node', node, 'epoch', epoch_text, 'until', now + ttl_ms,
  'run', run_id)
return {'generator', epoch_text, math.floor(ttl_ms / 3), now, #standbys, last_text}
