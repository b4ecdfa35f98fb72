-- Fragment: time. A script takes the time from Redis's clock and from no other.
-- Constants from bounds.rs: MAX_TTL_MS.

-- The reply of TIME in ms since 1970.
local function to_ms(time)
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- The time now, in ms since 1970.
local function now_ms()
  return to_ms(redis.call('TIME'))
end

-- Whether a time is over. No lease and no claim lives longer than MAX_TTL_MS, so a time further
-- ahead was written while the clock was wrong. It counts as past: else a dead node would hold its
-- lease until that time.
local function is_past(time, now)
  return time <= now or time > now + MAX_TTL_MS
end

