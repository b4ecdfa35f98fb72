-- Fragment: the ledger, a list that an audited fleet keeps of what happened to its messages. Each
-- entry ends with Redis's time in seconds and microseconds:
--   "p epoch first last digest ..."        published
--   "c slot first last failed digest ..."  committed
--   "r message ..."                        retried
--   "d message ..."                        delayed: it did not end with the commit before
--   "v first last ..."                     void: the server forgot these numbers

-- Appends an entry. `time` is the reply of TIME.
local function append_entry(ledger, entry, time)
  redis.call('RPUSH', ledger, entry .. ' ' .. time[1] .. ' ' .. time[2])
end

