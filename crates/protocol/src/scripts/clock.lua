-- Shared: milliseconds on Redis's clock, the only clock a script believes.
local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- The longest time to live of a lease or a claim. A time further ahead was written under a
-- clock that has been set right since: it counts as past, or it would hold for as long as the
-- clock was wrong.
local LONGEST_TTL_MS = 3600000
local function is_past(time, now)
  return time <= now or time > now + LONGEST_TTL_MS
end

