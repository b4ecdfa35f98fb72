//! Flags of `baton run`: how a node behaves.

use std::net::SocketAddr;
use std::time::Duration;

use baton::{Backoff, FleetName, Interval, Missed, Node, NodeBuilder, Rate, Roles};
use clap::ValueEnum;

use super::cron::CronArgs;
use super::durability::DurabilityArgs;
use super::handler::HandlerArgs;
use super::http::http_addr;
use super::source::SourceArgs;

/// Longest pretended work, retention and interval: a longer one has a mistaken unit.
const LONGEST_WORK: Duration = Duration::from_secs(24 * 3600);
const LONGEST_KEEP: Duration = Duration::from_secs(100 * 366 * 24 * 3600);
const LONGEST_INTERVAL: Duration = Duration::from_secs(366 * 24 * 3600);

/// How a node behaves. Give every copy of a fleet the same.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Node")]
pub(crate) struct RunArgs {
    /// What handles the messages.
    #[command(flatten)]
    pub(crate) handler: HandlerArgs,
    /// What generates them by a crontab.
    #[command(flatten)]
    pub(crate) cron: CronArgs,
    /// What makes the messages.
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Time between two messages; 0 is full speed
    #[arg(long, value_name = "TIME", env = "BATON_INTERVAL", default_value = "500ms",
          value_parser = interval)]
    pub(crate) interval: Duration,
    /// Generate at most so many messages in a time, such as 100/s or 5/min, whatever makes them; random
    /// texts then come at this rate [default: no bound]
    #[arg(long, value_name = "N/TIME", env = "BATON_RATE", conflicts_with = "interval",
          value_parser = rate)]
    pub(crate) rate: Option<Rate>,
    /// Share of messages that the handler rejects, from 0 to 1
    #[arg(long, value_name = "SHARE", env = "BATON_ERROR_RATE", default_value = "0.05",
          value_parser = error_rate)]
    pub(crate) error_rate: f64,
    /// Stop generating when the fleet has published N messages in total [default: never]
    #[arg(long, value_name = "N", env = "BATON_MESSAGES", value_parser = messages)]
    pub(crate) messages: Option<u64>,
    /// Spread a new fleet over N partitions, each in a slot of its own; a fleet keeps the number of its first
    /// copy [default: 1, in a cluster 16]
    #[arg(long, value_name = "N", env = "BATON_PARTITIONS",
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) partitions: Option<u32>,
    /// How long a silent generator keeps its lease, the right to generate
    #[arg(long, value_name = "TIME", env = "BATON_LEASE_TTL", default_value = "1500ms",
          value_parser = lease_ttl)]
    pub(crate) lease_ttl: Duration,
    /// How long a silent worker keeps its claim on messages
    #[arg(long, value_name = "TIME", env = "BATON_CLAIM_TTL", default_value = "5s",
          value_parser = claim_ttl)]
    pub(crate) claim_ttl: Duration,
    /// How many messages a worker handles at the same time
    #[arg(long, value_name = "N", env = "BATON_CONCURRENCY", default_value = "1",
          value_parser = concurrency)]
    pub(crate) concurrency: usize,
    /// Whether the generator handles messages, too
    #[arg(
        long,
        value_name = "WHEN",
        env = "BATON_GENERATOR_WORKS",
        default_value = "never"
    )]
    pub(crate) generator_works: GeneratorWorks,
    /// Never take the lease: this copy only works
    #[arg(long, env = "BATON_NEVER_GENERATE", conflicts_with = "only_generate")]
    pub(crate) never_generate: bool,
    /// Never handle messages: this copy generates, or waits for the lease
    #[arg(long, env = "BATON_ONLY_GENERATE")]
    pub(crate) only_generate: bool,
    /// Pretended handling time of every message
    #[arg(long, value_name = "TIME", env = "BATON_WORK", default_value = "0ms",
          value_parser = work)]
    pub(crate) work: Duration,
    /// Pretended handling time of every character of a message's text
    #[arg(long, value_name = "TIME", env = "BATON_WORK_PER_CHAR", default_value = "0ms",
          value_parser = work)]
    pub(crate) work_per_char: Duration,
    /// How many attempts a message has before it goes to the errors store; the pretended handler
    /// rejects messages for good, at their first attempt
    #[arg(long, value_name = "N", env = "BATON_ATTEMPTS", default_value = "5",
          value_parser = attempts)]
    pub(crate) attempts: u64,
    /// How long a message waits for its next attempt: twice as long each time, from the first time to
    /// the second
    #[arg(long, value_name = "TIME..TIME", env = "BATON_BACKOFF", default_value = "1s..10m",
          value_parser = backoff)]
    pub(crate) backoff: Backoff,
    /// Messages that were due while no node generated: catch-up makes those of the last 10
    /// minutes, catch-up:TIME those of the last TIME, last the last one (of each cron entry), skip
    /// none. A message of cron that is at most 5 s late is made in any case
    #[arg(long, value_name = "HOW", env = "BATON_MISSED", default_value = "catch-up",
          value_parser = missed)]
    pub(crate) missed: Missed,
    /// Pause generating while N messages wait
    #[arg(long, value_name = "N", env = "BATON_MAX_PENDING", default_value = "1000000",
          value_parser = max_pending)]
    pub(crate) max_pending: u64,
    /// Pause handling while the errors store holds N failed messages
    #[arg(long, value_name = "N", env = "BATON_MAX_ERRORS", default_value = "1000000",
          value_parser = max_errors)]
    pub(crate) max_errors: u64,
    /// Drop failed messages that are older than this, such as 30d [default: keep them for ever]
    #[arg(long, value_name = "TIME", env = "BATON_KEEP_ERRORS", value_parser = keep_errors)]
    pub(crate) keep_errors: Option<Duration>,
    /// Format of the log on stdout, one line per event
    #[arg(long, value_name = "FORM", env = "BATON_LOG", default_value = "text")]
    pub(crate) log: LogFormat,
    /// Serve /metrics, /healthz and /readyz on this address, such as 127.0.0.1:9464 [default: off]
    #[arg(long, value_name = "ADDR", env = "BATON_HTTP", value_parser = http_addr)]
    pub(crate) http: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) durability: DurabilityArgs,
    /// Run even on a server that deletes keys when its memory is full
    #[arg(long, env = "BATON_ALLOW_EVICTION")]
    pub(crate) allow_eviction: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GeneratorWorks {
    /// It only generates
    Never,
    /// While it is the only copy of its fleet
    Alone,
    /// As every other copy does
    Always,
}

impl From<GeneratorWorks> for baton::GeneratorWorks {
    fn from(works: GeneratorWorks) -> Self {
        match works {
            GeneratorWorks::Never => Self::Never,
            GeneratorWorks::Alone => Self::Alone,
            GeneratorWorks::Always => Self::Always,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// One JSON object per line
    Json,
}

impl RunArgs {
    /// The settings of the node.
    pub(crate) fn settings(&self, fleet: FleetName) -> NodeBuilder {
        Node::builder(fleet)
            .messages(self.messages)
            .rate(self.rate)
            .lease_ttl(self.lease_ttl)
            .claim_ttl(self.claim_ttl)
            .concurrency(self.concurrency)
            .attempts(self.attempts)
            .backoff(self.backoff)
            .generator_works(self.generator_works.into())
            .roles(self.roles())
            .partitions(self.partitions)
            .max_pending(self.max_pending)
            .max_errors(self.max_errors)
            .keep_errors(self.keep_errors)
            .allow_eviction(self.allow_eviction)
            .durability(self.durability.durability)
    }

    fn roles(&self) -> Roles {
        match (self.never_generate, self.only_generate) {
            (true, _) => Roles::OnlyWorks,
            (_, true) => Roles::OnlyGenerates,
            _ => Roles::Both,
        }
    }

    /// The task's source: a text every interval. `append` makes it.
    pub(crate) fn texts(
        &self,
        mut append: impl FnMut(&mut Vec<u8>) + Send + 'static,
    ) -> Interval<impl FnMut(u64, &mut Vec<u8>) + Send + 'static> {
        let texts = move |_, text: &mut Vec<u8>| append(text);
        let interval = match self.rate {
            Some(_) => Duration::ZERO,
            None => self.interval,
        };
        baton::interval(interval, texts).missed(self.missed)
    }
}

pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text, LONGEST_INTERVAL)?;
    if interval > Duration::ZERO && interval < Duration::from_millis(1) {
        return Err("the interval is zero (full speed) or at least 1 ms".to_owned());
    }
    Ok(interval)
}

fn rate(text: &str) -> Result<Rate, String> {
    let words = "write how many messages in what time, such as 100/s, 5/min or 1/10s";
    let (count, time) = text.split_once('/').ok_or(words)?;
    let count: u32 = count.trim().parse().map_err(|_| words)?;
    let time = time.trim();
    // A time without a number, such as "s", is one of it.
    let time = match time.starts_with(|first: char| first.is_ascii_digit()) {
        true => time.to_owned(),
        false => format!("1{time}"),
    };
    let time = duration(&time, LONGEST_INTERVAL).map_err(|error| format!("{error}; {words}"))?;
    let rate = Rate::new(count, time);
    checked(rate, |settings| settings.rate(rate))
}

fn lease_ttl(text: &str) -> Result<Duration, String> {
    let ttl = duration(text, Duration::MAX)?;
    checked(ttl, |settings| settings.lease_ttl(ttl))
}

pub(crate) fn claim_ttl(text: &str) -> Result<Duration, String> {
    let ttl = duration(text, Duration::MAX)?;
    checked(ttl, |settings| settings.claim_ttl(ttl))
}

pub(crate) fn work(text: &str) -> Result<Duration, String> {
    duration(text, LONGEST_WORK)
}

pub(crate) fn concurrency(text: &str) -> Result<usize, String> {
    let concurrency = number(text)?;
    checked(concurrency, |settings| settings.concurrency(concurrency))
}

pub(crate) fn messages(text: &str) -> Result<u64, String> {
    let messages = number(text)?;
    checked(messages, |settings| settings.messages(Some(messages)))
}

fn attempts(text: &str) -> Result<u64, String> {
    let attempts = number(text)?;
    checked(attempts, |settings| settings.attempts(attempts))
}

fn backoff(text: &str) -> Result<Backoff, String> {
    let Some((shortest, longest)) = text.split_once("..") else {
        return Err("write the shortest and the longest wait, such as 1s..10m".to_owned());
    };
    let time = |text: &str| duration(text, Duration::MAX);
    let backoff = Backoff::new(time(shortest)?, time(longest)?);
    checked(backoff, |settings| settings.backoff(backoff))
}

fn missed(text: &str) -> Result<Missed, String> {
    match text.split_once(':') {
        None if text == "catch-up" => Ok(Missed::default()),
        None if text == "skip" => Ok(Missed::Skip),
        None if text == "last" => Ok(Missed::Last),
        Some(("catch-up", time)) => Ok(Missed::CatchUp {
            at_most: duration(time, LONGEST_INTERVAL)?,
        }),
        _ => Err("write catch-up, catch-up:TIME (such as catch-up:30m), last or skip".to_owned()),
    }
}

fn max_pending(text: &str) -> Result<u64, String> {
    let most = number(text)?;
    checked(most, |settings| settings.max_pending(most))
}

fn max_errors(text: &str) -> Result<u64, String> {
    let most = number(text)?;
    checked(most, |settings| settings.max_errors(most))
}

fn keep_errors(text: &str) -> Result<Duration, String> {
    let keep = duration(text, LONGEST_KEEP)?;
    checked(keep, |settings| settings.keep_errors(keep))
}

/// Lets the library check one setting, so that its limits are in one place. clap adds the flag's name
/// to the complaint.
fn checked<T>(value: T, set: impl FnOnce(NodeBuilder) -> NodeBuilder) -> Result<T, String> {
    let words = |error: baton::Error| error.to_string();
    let settings = Node::builder(FleetName::new("any").map_err(words)?);
    set(settings).check().map_err(words)?;
    Ok(value)
}

pub(super) fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| "write a whole number; this is none, or it is too large".to_owned())
}

pub(crate) fn error_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        // NaN lies in no range.
        Ok(rate) if (0.0..=1.0).contains(&rate) => Ok(rate),
        _ => Err("write a number from 0 (none) to 1 (all), such as 0.05".to_owned()),
    }
}

pub(super) fn duration(text: &str, longest: Duration) -> Result<Duration, String> {
    if text != "0" && text.parse::<f64>().is_ok() {
        return Err(format!("a unit is missing: {text}ms, {text}s or {text}min"));
    }
    let duration = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write it like 500ms, 1.5s or 2min"))?;
    if duration > longest {
        let longest = humantime::format_duration(longest);
        return Err(format!("at most {longest}"));
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_library() {
        #[derive(clap::Parser)]
        struct Only {
            #[command(flatten)]
            run: RunArgs,
        }
        let fleet = FleetName::new("f").unwrap();
        let args = <Only as clap::Parser>::try_parse_from(["run"]).unwrap().run;
        let (ours, theirs) = (args.settings(fleet.clone()), Node::builder(fleet));
        assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
        assert_eq!(
            (args.error_rate, args.work, args.work_per_char),
            (0.05, Duration::ZERO, Duration::ZERO)
        );
    }

    #[test]
    fn a_rate_is_a_number_of_messages_in_a_time() {
        let second = Duration::from_secs(1);
        assert_eq!(rate("100/s"), Ok(Rate::new(100, second)));
        assert_eq!(rate("5/min"), Ok(Rate::new(5, 60 * second)));
        assert_eq!(rate("1 / 10s"), Ok(Rate::new(1, 10 * second)));
        for (bad, words) in [
            ("100", "such as 100/s"),
            ("/s", "such as 100/s"),
            ("-1/s", "such as 100/s"),
            ("1.5/s", "such as 100/s"),
            ("5/", "such as 100/s"),
            ("5/0s", "higher than any generator"),
            ("5/soon", "such as 100/s"),
            ("0/s", "pause the generator"),
            ("1/900days", "at most"),
        ] {
            let error = rate(bad).unwrap_err();
            assert!(error.contains(words), "{bad}: {error}");
        }
    }

    #[test]
    fn a_time_needs_a_unit_unless_it_is_zero() {
        let read = |text| duration(text, LONGEST_WORK);
        assert_eq!(read("0"), Ok(Duration::ZERO));
        assert_eq!(read("0ms"), Ok(Duration::ZERO));
        assert_eq!(read("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(read("1m 30s"), Ok(Duration::from_secs(90)));
        assert!(read("500").unwrap_err().contains("500ms"));
        for bad in [
            "",
            "-1s",
            "1.5",
            "soon",
            "1e9s",
            "99999999999999999999s",
            "25h",
            "NaN",
            "inf",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn missed_messages_are_made_up_for_within_a_bound_or_skipped() {
        let minutes = |minutes: u64| Missed::CatchUp {
            at_most: Duration::from_secs(60 * minutes),
        };
        assert_eq!(missed("catch-up"), Ok(minutes(10)));
        assert_eq!(missed("catch-up:30m"), Ok(minutes(30)));
        assert_eq!(missed("catch-up:0"), Ok(minutes(0)));
        assert_eq!(missed("skip"), Ok(Missed::Skip));
        assert_eq!(missed("last"), Ok(Missed::Last));
        for bad in [
            "",
            "never",
            "catch-up:",
            "catch-up:30",
            "catch-up:-1s",
            "catch-up:1000y",
            "skip:1s",
            "Skip",
        ] {
            assert!(missed(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn failed_messages_are_kept_for_a_second_at_least() {
        let days = |days: u64| Duration::from_secs(days * 24 * 3600);
        assert_eq!(keep_errors("30d"), Ok(days(30)));
        assert_eq!(keep_errors("1s"), Ok(Duration::from_secs(1)));
        for bad in ["", "0", "0d", "999ms", "30", "-1d", "forever", "1000y"] {
            assert!(keep_errors(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_share_lies_between_none_and_all() {
        for good in ["0", "1", "0.05", "1e-3"] {
            assert!(error_rate(good).is_ok(), "{good}");
        }
        for bad in ["", "-0.1", "1.1", "NaN", "inf", "5%", "0,05"] {
            assert!(error_rate(bad).is_err(), "{bad}");
        }
    }
}
