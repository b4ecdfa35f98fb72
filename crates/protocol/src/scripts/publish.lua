-- publish: appends one pack of consecutive messages to the queue, or refuses all of it. If no message
-- waits before it, the node that is idle longest gets what its lane wants at once.
--
-- KEYS
--   1 fence   hash: the node and epoch that may publish, the last sequence number, the cursor, born,
--             generator_paused, workers_paused
--   2 queue   list of ranges
--   3 pack    string: where the pack is stored
--   4 staged  string: where the generator put the pack, if it is large
--   5 stats   hash: counters
--   6 idle    zset: idle node -> since when (ms), and how many messages its lane wants
--   7 ledger  list of entries
--   8 claims     hash: slot -> its claim
--   9 deadlines  zset: slot -> until when its claim holds (ms)
-- ARGV
--   1 node      the generator
--   2 epoch     of its lease
--   3 first     sequence number of the pack's first message
--   4 last      sequence number of its last message
--   5 count     of its messages; 0 if the call stores only the cursor
--   6 cursor    where the source stands after these messages; opaque
--   7 max_open  backpressure: how many messages may have not ended: wait, be claimed or delayed
--   8 bytes     the pack; opaque. '' if it is staged
--   9 digest    of the texts, for the ledger; '' if the fleet keeps none
--   10 presence prefix of the presence channels
--   11 made     how many packs and messages the fleet has made with this pack, in all partitions;
--               opaque; '' in a fleet of one partition
--   12 ttl_ms   of the claim, if messages go to an idle node at once
-- Returns
--   {'ok', waiting}          the pack is written, or the cursor alone. `waiting`: how many ranges the
--                            queue has with it, for the generator's pace; 0 for a cursor alone, and
--                            for messages that an idle node has
--   {'already', last}        the fleet has these numbers; of a cursor alone, later ones. This call
--                            wrote them earlier, if the caller sent it before and knows `last` as
--                            its own
--   {'gap', last}            the fleet's last number is lower than first - 1, or within the pack
--   {'fenced', node, epoch}  another generator has sealed
--   {'paused'}               an operator has paused the generator. What the fleet has is 'already'
--   {'full', open}           backpressure: `open` messages have not ended
--   {'missing'}              there is no staged pack: the generator sends it again
-- Invariants
--   Sequence numbers have no gap. Only the node and epoch of the fence publish.
--   While the generator is paused, neither `last` nor the cursor changes.
--   `made` and the cursor belong together.
--   The fence's cursor is that of the pack that ends with its last number, or a later one before
--   which the source had no messages.
--   A full server refuses all of a pack: its staging, or here the first write.
--   A staged pack expires unless this script takes it. No other generator writes its key.
--   Messages that go to an idle node are claimed for the node's slot `node:handed` in this step. No
--   message waits before them, the workers are not paused, the node is present, and the slot is free.
--   Constants from bounds.rs: WAKING_PACK_BYTES.
local fence, queue, pack, staged, stats, idle, ledger, claims, deadlines = unpack(KEYS)
-- Most arguments stay texts: they are written as they came, and formatting a number is slow.
local node, epoch, first, last, count, cursor, max_open, bytes, digest, presence, made, ttl_ms
  = unpack(ARGV)

-- The idle node that may get messages at once: the slot in which it gets them, its channel and the run id
-- at its end. Nil if it is absent, or if no script of ours wrote this member of `idle`.
local function receiver(sleeper)
  local name, run_id = string.match(sleeper, '^([^@]*)@(.*)$')
  if not name or not hears(presence .. sleeper) then return nil end
  return name .. ':handed', presence .. sleeper, run_id
end

-- Claims messages for a slot, if it has no claim. Returns whether it had none.
local function take_slot(slot, claim, until_ms)
  if redis.call('HSETNX', claims, slot, claim) == 0 then return false end
  local added = redis.pcall('ZADD', deadlines, until_ms, slot)
  if type(added) == 'number' then return true end
  -- The key has another type. Nothing else is written yet.
  redis.call('HDEL', claims, slot)
  error(added.err, 0)
end

-- What the node gets along with the messages up to `taken_last`: the pack, or where it finds it, as in
-- the answer to a claim.
local function pack_for(taken_last, born)
  if bytes ~= '' then return '\n' .. bytes end
  local is_whole = taken_last == last
  local size = is_whole and pack_bytes(pack) or 0
  if size > 0 and size <= WAKING_PACK_BYTES then return '\n' .. redis.call('GET', pack) end
  return (is_whole and '' or born or '') .. '\n'
end

local fenced = redis.call('HMGET', fence, 'node', 'epoch', 'last', 'generator_paused',
  'workers_paused', 'born')
if fenced[1] ~= node or fenced[2] ~= epoch then
  return {'fenced', fenced[1] or '', fenced[2] or '0'}
end
local fleet_last = checked_count(fence, 'last', fenced[3])
if count == '0' then
  -- The generator has published messages after this cursor, and theirs is newer.
  if tonumber(last) < fleet_last then return {'already', fenced[3]} end
  if tonumber(last) > fleet_last then return {'gap', fenced[3] or '0'} end
  if fenced[4] then return {'paused'} end
  redis.call('HSET', fence, 'cursor', cursor)
  if made ~= '' then redis.call('HSET', fence, 'made', made) end
  return {'ok', 0}
end
if tonumber(last) <= fleet_last then return {'already', fenced[3]} end
if tonumber(first) ~= fleet_last + 1 then return {'gap', fenced[3] or '0'} end
if fenced[4] then return {'paused'} end
local counters = redis.call('HMGET', stats, 'done', 'failed', 'retried', 'void')
local open = fleet_last + checked_count(stats, 'retried', counters[3])
  - checked_count(stats, 'done', counters[1]) - checked_count(stats, 'failed', counters[2])
  - checked_count(stats, 'void', counters[4])
if open + tonumber(count) > tonumber(max_open) then
  return {'full', string.format('%.0f', open)}
end
local waiting = redis.call('LLEN', queue)
-- Few calls: after the copy of a large pack, each of them finds the server's caches cold.
local sleeper = redis.call('ZRANGE', idle, 0, 0)[1]
local slot, channel, run_id
if sleeper and waiting == 0 and not fenced[5] then slot, channel, run_id = receiver(sleeper) end
local time
if digest ~= '' then must_be(ledger, 'list') end
if digest ~= '' or slot then time = redis.call('TIME') end
-- It must expire until here, else the generator did not write it.
if bytes == '' and redis.call('PTTL', staged) < 0 then return {'missing'} end

-- The number of the claim is the time in µs: the slot has had no claim of the same number with the same
-- messages. The texts of other numbers are the ones that came, because formatting a number is slow.
local rest, taken_last, number, taken = first, last, nil, nil
if slot then
  -- Any lane wants one message. The server would write out the score, which is slow, too.
  local want = count == '1' and 1 or wanted_by(redis.call('ZSCORE', idle, sleeper))
  if want < tonumber(count) then taken_last = string.format('%.0f', fleet_last + want) end
  number = time[1] .. string.sub('00000' .. time[2], -6)
  taken = first .. ' ' .. count .. ' ' .. first .. ' ' .. taken_last .. ' 0'
  local claim = 'm ' .. number .. ' ' .. run_id .. ' ' .. taken
  if take_slot(slot, claim, to_ms(time) + tonumber(ttl_ms)) then
    rest = taken_last ~= last and string.format('%.0f', fleet_last + want + 1)
  else
    slot = nil
  end
end
if bytes == '' then
  redis.call('PERSIST', staged)
  -- The bytes stay where they are in memory: neither Lua nor the server copies them.
  redis.call('RENAME', staged, pack)
else
  redis.call('SET', pack, bytes)
end
if made == '' then
  redis.call('HSET', fence, 'last', last, 'cursor', cursor)
else
  redis.call('HSET', fence, 'last', last, 'cursor', cursor, 'made', made)
end
if slot then
  redis.call('ZREM', idle, sleeper)
  redis.call('PUBLISH', channel, queue .. '\n' .. number .. '\n' .. taken .. '\n'
    .. pack_for(taken_last, fenced[6]))
end
if rest then
  waiting = redis.call('RPUSH', queue, first .. ' ' .. count .. ' ' .. rest .. ' ' .. last .. ' 0')
  if sleeper then ring(idle, queue, presence) end
end
if digest ~= '' then
  append_entry(ledger, 'p ' .. epoch .. ' ' .. first .. ' ' .. last .. ' ' .. digest, time)
end
return {'ok', waiting}
