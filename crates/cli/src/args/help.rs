//! Examples and rules that the help prints below the flags.

/// Below `baton -h`.
pub(crate) const SHORT: &str = "\
Examples:
  baton                          start a node; type it again in other terminals
  baton getErrors                print the failed messages and remove them
  baton errors --by reason       print what failed, by reason; also retry, drop
  baton status                   who generates, who works, where messages are
  baton top                      the same, live in the terminal
  baton web                      the same on a web page
  baton pause; baton resume      stop for a while; see also drain
  baton health                   exit code 0 if the fleet is healthy, for probes
  baton doctor                   check a server before a fleet lives there

Try `baton --help` for more, and `baton run --help` for the flags of a node.";

/// Below `baton --help` and in the manual page.
pub(crate) const LONG: &str = "\
Examples:
  baton
      Start a node. If no Redis answers on localhost:6379, the node starts one
      and says so. Type the same in other terminals: the copies find each other.
  baton --redis redis://:secret@db.example:6380/2 --fleet orders
      Start a node of another fleet on another Redis.
  baton run --interval 0 --concurrency 8 --log json
      Generate at full speed, handle eight at a time, log for programs.
  baton run --generator-works alone
      Be a fleet of one: generate and handle, until another copy starts.
  baton getErrors > failed.txt
      Take all failed messages. `baton errors` prints them and removes none.
  baton status --json | jq .generator.node
      Ask who generates.
  baton drain --wait && upgrade && baton resume
      Let every message end, and generate none meanwhile.
  baton -addr localhost:6379 -getErrors
  baton --host localhost --port 6379 --db 2 --getErrors
  baton --cleanTemp
      The spellings of older programs work, too.

Which Redis:
  Baton uses the first of these: --redis, --addr, or --host and --port;
  BATON_ADDR, or BATON_HOST and BATON_PORT; REDIS_URL; localhost:6379 if a
  server answers there. If none answers, `run` starts a server on
  127.0.0.1:6379. It keeps its data in your data folder and outlives the node;
  `baton server status` and `baton server stop` control it. It has a password,
  kept in that folder, which every `baton` of yours finds by itself; `baton
  server status` prints how redis-cli gets it. The password comes from the URL,
  --password-file, or REDIS_PASSWORD. Baton never prints it.

Environment:
  Every flag has a variable, named in its help, except those that choose failed
  messages. A typed flag takes precedence. An empty variable counts as unset.
  The variable of a flag without a value is true, 1, yes or on, or false, 0, no
  or off; any other word is an error. REDIS_PASSWORD holds a password;
  BATON_SERVER_PROGRAM names the server program to start instead of
  valkey-server or redis-server.

Exit codes:
  0    the command succeeded; a node was asked to stop and did
  1    the command failed and says why on stderr; also: `status` found books
       that do not balance, `health` heard no yes, `doctor` found a fault,
       `server status` found no server, `getErrors` could not print everything
  2    the command line is wrong
  130  SIGINT ended it, 143 SIGTERM or 129 SIGHUP did: a node ends at once by
       the second signal, `getErrors` by the first, after it has removed what
       it printed, and `drain` by the first";

/// Below `baton run --help`.
pub(crate) const RUN: &str = "\
Examples:
  baton run --interval 100ms --work-per-char 1ms
      Ten messages a second, handled in proportion to the length of their text.
  baton run --interval 0 --messages 1000000
      Full speed, until the fleet has published a million messages in total.
  baton run --exec 'jq -r .email | xargs ./greet' --concurrency 8 --timeout 30s
      Handle each message with a command of yours: its text is the command's
      stdin.
  baton run --cron 'report=0 10 * * MON-FRI Asia/Tokyo' --cron 'clean=@hourly'
      A message at each tick, neither lost nor doubled when a copy dies.
  baton run -- python3 handle.py --verbose
      The same without a shell.
  baton run --push http://127.0.0.1:8080/job --concurrency 8 --timeout 30s
      Handle each message with a service of yours: a POST, the text is its body.
  baton run --source 'tail -n +\"$BATON_NEXT\" orders.csv' --exec ./order.sh
      Messages of your own: each line of a file is one, whatever is killed.
  baton run --source ./poll.sh --source-format json --exec ./handle.sh
      The same with cursors: an object a line, such as
      {\"text\":\"…\",\"cursor\":\"…\"}.
  baton run --redis redis+sentinel://h1,h2,h3/mymaster --durability replicas:2
      What the log says has survived any failover, if the master has two
      replicas.
  BATON_INTERVAL=1s baton run
      The same flag from the environment.

Write times with a unit: 500ms, 1.5s, 2min. SIGINT, SIGTERM or SIGHUP (its
terminal closed) stops the node in good order, with exit code 0; a second signal
ends it at once, with 130, 143 or 129.

A command of yours says by its exit code what becomes of the message: 0 done, 65
rejected for good, 126 and 127 not its fault (it goes back to the queue), all
others try again later. The reason is the end of its stderr; its stdout goes to
the log. It knows BATON_SEQ, BATON_PARTITION, BATON_KEY (for effects elsewhere
that must happen once), BATON_ATTEMPT, BATON_DEADLINE_MS and BATON_EFFECTS, a
file for effects in Redis, such as the line [\"INCRBY\",\"counted\",1].
With --push the status says what becomes of the message: 2xx done; 408, 425, 429
and all from 500 on try again later (Retry-After counts, up to an hour); any
other is a rejection for good, and redirects are not followed. The service knows
the headers Idempotency-Key (for effects elsewhere that must happen once),
Baton-Seq, Baton-Partition, Baton-Attempt and Baton-Deadline-Ms. A 2xx body of
the type application/x-baton-effects has effects in Redis, such as the line
[\"INCRBY\",\"counted\",1].

A source runs on the generator alone and ends with it. Exit code 0 means that
there are no more messages. After any other end it starts again, after a pause
from 0.1 to 30 s, behind the last message that Redis has. Its stderr goes to the
log. With --source-format lines it knows BATON_NEXT, the number of the next
message. With json its stdin begins with {\"baton\":1,\"next\":1042,\"cursor\":\"…\"}:
it continues behind its own cursor, and reads {\"accepted\":\"…\"} when Redis has
one. A cursor covers its message and all before it, and a message waits for a
cursor: give each message one, or each group of up to 1,000 messages that belong
together.

With --log json every line has at, event and node; events are generator (epoch),
worker (generator), published (epoch, first, last, text), processed (first,
last, failed, attempt), delayed (seq, attempt, delay_ms, reason), fenced (epoch,
by), lost (first, last), regressed (first, last: messages that Redis had
acknowledged and has forgotten), void (first, last: such numbers whose message
cannot be had any more), reclaimed (count, nodes), dropped (count of failed
messages), paused and resumed (part), redis (state, reason), handler_output
(seq, text), source_output (text), warning (text), snapshot (role,
published_per_s, processed_per_s, pending, claimed, delayed, errors) and
stopped. Where the output took no more and lines were dropped, log_gap (lines)
counts them.";

/// Below `baton cron next --help`.
pub(crate) const CRON_NEXT: &str = "\
Examples:
  baton cron next 5 '*/15 * * * *'
  baton cron next 3 '30 2 * * * Europe/Vienna'

An expression has the fields minute, hour, day of the month, month and weekday,
with seconds in front if there are six; or it is @hourly, @daily, @midnight,
@weekly, @monthly or @yearly. A field is *, a value, a range (1-5), a step
(*/15), or a list of them; months and weekdays have names, too (MON-FRI). L is
the last day of the month, FRI#2 the second Friday, FRI#L the last. A day that
both fields of days name is due by either.

Where clocks change: one time a day that does not exist is due at the end of the
gap, and one that exists twice is due the first time. Of several times a day,
those that do not exist are left out, and those that exist twice are due twice.";

/// Below `baton health --help`.
pub(crate) const HEALTH: &str = "\
Examples:
  baton health --http 127.0.0.1:9464
      Is the fleet healthy, as the node with this --http sees it?
  baton health --http 127.0.0.1:9464 --ready
      Can this node use Redis and its handler?
  baton health --redis redis://db.example --fleet orders
      Does Redis answer, does a node generate, and can the fleet go on?
  HEALTHCHECK CMD [\"baton\", \"health\", \"--ready\"]
      In a container, whose variables BATON_HTTP or REDIS_URL say whom to ask.

A node that listens on every address (0.0.0.0 or [::]) is asked on loopback. A
node has watched its fleet for a while, so it also knows whether messages wait
and none ends. Without --http the command looks at Redis until it sees a
generator, or has seen none for as long as a lease lives; it says no, too, if
the nodes say all that time that the server refuses messages, that no handler
can work or that writes are not confirmed. With --ready it only has to read the
fleet. A healthy fleet may be paused.

Exit codes: 0 yes; 1 no, or no answer in time; 2 the command line is wrong.";

/// Below `baton pause --help`.
pub(crate) const PAUSE: &str = "\
Examples:
  baton pause             stop both: nothing is published, nothing is claimed
  baton pause generator   let the workers empty the queue; see `baton drain`
  baton pause workers     keep messages in the queue: a database is away

A paused generator keeps its lease, and a paused worker stays in line for it:
takeovers work as ever. What a source makes meanwhile waits; ticks that are due
meanwhile are missed ones, and --missed says what becomes of them. With workers
paused the queue fills up to --max-pending. The fleet stays healthy: `status`,
`top`, the page and the metric baton_paused show the pause.";

/// Below `baton resume --help`.
pub(crate) const RESUME: &str = "\
Examples:
  baton resume            end every pause
  baton resume workers    let the workers go on; the generator stays as it is";

/// Below `baton drain --help`.
pub(crate) const DRAIN: &str = "\
Examples:
  baton drain --wait && systemctl stop 'baton@*'
  baton drain --wait && upgrade && baton resume generator

It waits for delayed messages, too, however long their delays are. It says so if
nothing can end: the workers are paused, or none is alive. Failed messages stay
in the errors store.

Exit codes: 0 every message has ended; 1 another client resumed the generator,
or Redis failed; 129, 130 or 143 interrupted. The generator stays paused, unless
another client resumed it.";

/// Below `baton acl --help`.
pub(crate) const ACL: &str = "\
Examples:
  baton acl --fleet orders | redis-cli
      Make or change the users baton-orders-node, baton-orders-viewer and
      baton-orders-getErrors.
  redis-cli ACL SETUSER baton-orders-node '>PASSWORD'
      Give one its password: without any it cannot log in. The line of `baton
      acl` keeps it.
  REDIS_PASSWORD=… baton run --fleet orders --redis redis://baton-orders-node@db
      Start a node as that user.
  baton acl --server-version 6.2
      For Redis 6.2, which knows neither EVAL_RO nor keys that a user may only
      read.
  baton acl --redis redis+cluster://db.example
      With the commands that find the fleet's server in a cluster.
  baton acl sentinel | redis-cli -p 26379
      The user of the Sentinels, which have users of their own; the URL names it
      as sentinel_user.

Who needs which user:
  node        run, with --http too; pause, resume, drain, retry, drop, web
              --allow-actions
  viewer      status, top, errors, web: reads, and cannot write
  getErrors   getErrors: takes failed messages; it cannot read or change the
              texts of others
  sentinel    asks Sentinels where the master is, and hears when it moves

Effects of handlers write keys of your own: a node needs their patterns, too,
such as ~orders:*, and +incrby or +sadd if they use these. `baton clean` needs
+hscan beside the rights of a node. If a right is missing, `run`, `status`,
`getErrors` and `baton doctor` name it.

With --json every line is one user: user, for, keys, channels, commands and
rule.";

/// Below `baton doctor --help`.
pub(crate) const DOCTOR: &str = "\
Examples:
  baton doctor
  baton doctor --redis rediss://node@db.example --durability fsync
  baton doctor --redis redis+sentinel://h1,h2,h3/main --durability replicas:2
  baton doctor --json | jq '.checks[] | select(.mark != \"ok\")'

A line says FAIL if a fleet cannot live there, or if messages can be lost that
the durability is to keep; it says warn if something may hurt one day or cannot
be known. Some settings need CONFIG GET, which the user of a node had better not
have: they are unknown then.

With --json the object has target, fleet, durability, ok, and checks with check,
mark (ok, warn or fail), found and advice.

Exit codes: 0 no check failed; 1 one did, or the server does not answer.";

/// Below `baton getErrors --help`.
pub(crate) const GET_ERRORS: &str = "\
Examples:
  baton getErrors > failed.txt
  baton getErrors | head -1        takes exactly the one message that it prints
  baton getErrors --json | jq -r .reason | sort | uniq -c

With --json every line has seq, at, node, reason, attempt and text. If the text
is not valid UTF-8, `text` has replacement characters and `text_hex` has all its
bytes.

Exit codes: 0 all printed and removed; 1 not everything could be printed, or
Redis failed; 129, 130 or 143 interrupted. A message that was not printed always
stays.";

/// Below `baton errors --help`.
pub(crate) const ERRORS: &str = "\
The format is that of `baton getErrors`. With --by reason every line is a group:
how many messages, when the first and the last of them failed, the number of
one, and the reason with N for each number in it but its exit code or HTTP
status. As JSON a group has reason, count, first, last and example. What a
`baton getErrors` holds that died is printed, too.

Examples:
  baton errors | less
  baton errors --by reason
  baton errors --reason timeout --since 2h
  baton errors --json | jq -r .text";

/// Below `baton retry --help`.
pub(crate) const RETRY: &str = "\
Examples:
  baton retry --seq 1042
  baton retry --reason timeout --since 2h
  baton retry --all --yes --json

A retried message keeps its number. With --json the last line of stdout has
matched, retried, dropped, missing (another client settled or took it in
between), unfit (it cannot be retried and stays in the store) and held (a `baton
getErrors` holds it, so it was left out).

Exit codes: 0 all that matched are retried or missing; 1 some are unfit, you
said no, or Redis failed; 2 the command line is wrong, or --yes is missing
without a terminal; 129, 130 or 143 interrupted between two batches. What was
done is printed each time.";

/// Below `baton drop --help`.
pub(crate) const DROP: &str = "\
Examples:
  baton drop --seq 1000..1999
  baton drop --reason 'no such customer' --node k3v9x0a7qm
  baton drop --all --yes

To drop failed messages by their age, see `baton run --keep-errors`. `baton
status` counts what was dropped. With --json the last line of stdout has
matched, retried, dropped, missing (another client settled or took it in
between), unfit and held (a `baton getErrors` holds it, so it was left out).

Exit codes: 0 all that matched are dropped or missing; 1 you said no, or Redis
failed; 2 the command line is wrong, or --yes is missing without a terminal;
129, 130 or 143 interrupted between two batches. What was done is printed each
time.";

/// Below `baton status --help`.
pub(crate) const STATUS: &str = "\
Examples:
  baton status
  baton status --watch
  baton status --json | jq '.nodes[] | {node, role, seen}'

A delayed message waits for its next attempt. With --json, next_due says when
the first of them is due, handler_trouble of a node why its handler cannot work,
source_trouble why it generates no more, publish_trouble why the server takes no
messages of it (its memory is full), and durability_trouble why its writes are
not confirmed.

If the nodes have different versions, the row versions counts them.

A void message is lost: Redis acknowledged it, and a failover or a restart
forgot it. The row durability says what the nodes wait for before they call a
write confirmed, and what that is worth on this server; if nodes differ, the
weakest counts.

Exit codes: 0 the books balance: published + retried = done + failed + pending +
claimed + delayed + void, counted in one step; 1 they do not, or Redis did not
answer.";

/// Below `baton top --help`.
pub(crate) const TOP: &str = "\
Examples:
  baton top
  baton top --redis redis://db.example --fleet orders

Keys: arrows select, Tab goes from nodes to failed messages and back, Enter
opens one in full, s sorts, / filters, ? helps, q quits. NO_COLOR=1 turns
colours off. If Redis goes away, the view keeps the last known state and says
so.";

/// Below `baton web --help`.
pub(crate) const WEB: &str = "\
Examples:
  baton web
      Serve a read-only page on http://127.0.0.1:7070/ for this machine alone.
  baton web --allow-actions
      Let visitors take, retry and drop failed messages.
  openssl rand -hex 32 > token; baton web --http 0.0.0.0:7070 --token-file token
      Serve other machines, too: visitors log in with the token. Put a proxy
      with TLS in front.
  curl -H \"Authorization: Bearer $(cat token)\" http://host:7070/metrics
      Programs send the token with each request.

The page reads Redis once per second, however many visitors there are. /metrics
is for Prometheus. /healthz answers 503 when messages wait and none ends, when
no generator renews its lease, or when Redis is gone, each for longer than the
fleet needs to recover. /readyz answers 503 when Redis does not answer. /healthz
and /readyz need no token.";

/// Below `baton bench --help`.
pub(crate) const BENCH: &str = "\
Examples:
  baton bench
  baton bench --kill 20 --report bench.html
  baton bench --persistence everysec --runs 5 --json | tail -1 | jq .rate
  baton bench --messages 100000 --work 1ms --concurrency 8

The floor sends the same messages through RPUSH and LPOP with a count, at the
batch size that is fastest here, and nothing makes it safe; the ratio is ours
divided by the floor. Latency is the time from publish to commit on Redis's
clock; at full speed a message mostly waits in the queue.

With --json the last line of stdout is one object with the medians of all runs:
messages, seconds, audit_seconds, rate, floor_rate, ratio, lost, duplicated,
p50_ms, p99_ms, p999_ms, redis_cpu_us and client_cpu_us (per message),
bytes_per_pending, node_rss_mb (the generator's, mostly), worker_rss_mb,
server_mb, kills and clean. A value that cannot be measured here is null.

Exit codes: 0 every message was committed exactly once; 1 one was not, or the
bench could not run.";

/// Below `baton completions --help`.
pub(crate) const COMPLETIONS: &str = "\
Examples:
  source <(baton completions bash)
  baton completions zsh > ~/.zfunc/_baton
  baton completions fish > ~/.config/fish/completions/baton.fish";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    /// A terminal's usual width.
    const COLUMNS: usize = 80;

    /// Checks the text below the flags of a command, and of those below it.
    fn check(command: &clap::Command) {
        let texts = [command.get_after_help(), command.get_after_long_help()];
        for text in texts.into_iter().flatten() {
            for line in text.to_string().lines() {
                let width = line.chars().count();
                assert!(width <= COLUMNS, "{}: {line}", command.get_name());
            }
        }
        command.get_subcommands().for_each(check);
    }

    #[test]
    fn a_usual_terminal_does_not_wrap_lines_that_are_wrapped_already() {
        check(&super::super::Args::command());
    }
}
