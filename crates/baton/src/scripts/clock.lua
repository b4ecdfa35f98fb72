-- Shared: milliseconds on Redis's clock, the only clock a script believes.
local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

