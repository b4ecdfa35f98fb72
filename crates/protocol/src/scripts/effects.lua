-- Shared: staged effects (needs checked), checked as a whole before the first of them is written.
-- In ARGV from `at`: how many, then per effect: verb, number of arguments, arguments.
-- In KEYS from `key`: one key per effect.
local EFFECT_TYPE = {SET = 'any', DEL = 'any', INCRBY = 'string', HSET = 'hash', HINCRBY = 'hash',
  RPUSH = 'list', SADD = 'set', ZADD = 'zset'}

-- A number as Redis writes it, with or without a sign: INCRBY refuses leading zeros and '-0'.
local function signed(text)
  if not text then return nil end
  local size = string.match(text, '^-([1-9].*)$')
  return whole(size or text)
end

-- The effects as commands, or nil and the reason why one of them would fail.
local function check_effects(at, key)
  local commands, verbs, sums = {}, {}, {}
  local count = tonumber(ARGV[at] or '0')
  at = at + 1
  for i = 1, count do
    local verb, size, name = ARGV[at], tonumber(ARGV[at + 1]), KEYS[key + i - 1]
    local command = {verb, name}
    for j = 1, size do command[j + 2] = ARGV[at + 1 + j] end
    at = at + 2 + size
    local needed = EFFECT_TYPE[verb]
    if not needed then return nil, 'no such effect: ' .. tostring(verb) end
    -- What one verb leaves behind could make the next one fail halfway.
    if verbs[name] and verbs[name] ~= verb then
      return nil, name .. ': ' .. verbs[name] .. ' and ' .. verb .. ' in one commit'
    end
    verbs[name] = verb
    if redis.acl_check_cmd and not redis.acl_check_cmd(unpack(command)) then
      return nil, name .. ': this user may not run ' .. verb
    end
    local kind = redis.call('TYPE', name).ok
    if needed ~= 'any' and kind ~= 'none' and kind ~= needed then
      return nil, name .. ': holds a ' .. kind .. ', ' .. verb .. ' needs a ' .. needed
    end
    if verb == 'INCRBY' or verb == 'HINCRBY' then
      local counter, by = name, command[3]
      local value
      if verb == 'HINCRBY' then
        counter, by = name .. '\0' .. command[3], command[4]
        value = sums[counter] or redis.call('HGET', name, command[3]) or '0'
      else
        value = sums[counter] or redis.call('GET', name) or '0'
      end
      local sum = signed(tostring(value)) and signed(by) and tonumber(value) + tonumber(by)
      if not sum or math.abs(sum) > LARGEST then
        return nil, name .. ': not a number that ' .. verb .. ' can add to'
      end
      sums[counter] = string.format('%.0f', sum)
    end
    commands[i] = command
  end
  return commands
end

