-- Fragment: staged effects, all checked before the commit writes the first. Needs counts.
-- Constants from bounds.rs: MAX_EXACT.

-- Whether INCRBY adds to such a text: a whole number with or without a minus sign. It refuses
-- leading zeros and '-0'.
local function is_addend(text)
  if not text then return false end
  return parse_count(string.match(text, '^-([1-9].*)$') or text) ~= nil
end

-- Adds the increment of a command to its counter in `sums`, which has the counters of the earlier
-- effects of this commit. Returns whether Redis would add it, too, and the sum stays exact.
local function add_up(sums, command)
  local verb, key = command[1], command[2]
  local counter, by, value
  if verb == 'INCRBY' then
    counter, by = key, command[3]
    value = sums[counter] or redis.call('GET', key) or '0'
  else
    counter, by = key .. '\0' .. command[3], command[4]
    value = sums[counter] or redis.call('HGET', key, command[3]) or '0'
  end
  if not is_addend(value) or not is_addend(by) then return false end
  local sum = tonumber(value) + tonumber(by)
  sums[counter] = string.format('%.0f', sum)
  return math.abs(sum) < MAX_EXACT
end

-- Reads and checks the effects.
--   at   place in ARGV of their number. For each effect follow its verb, the number of its
--        arguments and the arguments
--   key  place in KEYS of the first effect's key; each effect has one
-- Returns the effects as commands; or nil and the reason why one of them would fail.
local function check_effects(at, key)
  local count = tonumber(ARGV[at] or '0')
  if count == 0 then return {} end
  local needed = {SET = 'any', DEL = 'any', INCRBY = 'string', HSET = 'hash', HINCRBY = 'hash',
    RPUSH = 'list', SADD = 'set', ZADD = 'zset'}
  local commands, verbs, sums = {}, {}, {}
  at = at + 1
  for i = 1, count do
    local verb, size, name = ARGV[at], tonumber(ARGV[at + 1]), KEYS[key + i - 1]
    local command = {verb, name, unpack(ARGV, at + 2, at + 1 + size)}
    at = at + 2 + size
    if not needed[verb] then return nil, 'no such effect: ' .. tostring(verb) end
    -- What one verb leaves behind could make the next one fail halfway.
    if verbs[name] and verbs[name] ~= verb then
      return nil, name .. ': ' .. verbs[name] .. ' and ' .. verb .. ' in one commit'
    end
    verbs[name] = verb
    if redis.acl_check_cmd and not redis.acl_check_cmd(unpack(command)) then
      return nil, name .. ': this user may not run ' .. verb
    end
    local kind = redis.call('TYPE', name).ok
    if needed[verb] ~= 'any' and kind ~= 'none' and kind ~= needed[verb] then
      return nil, name .. ': holds a ' .. kind .. ', ' .. verb .. ' needs a ' .. needed[verb]
    end
    if (verb == 'INCRBY' or verb == 'HINCRBY') and not add_up(sums, command) then
      return nil, name .. ': not a number that ' .. verb .. ' can add to'
    end
    commands[i] = command
  end
  return commands
end

