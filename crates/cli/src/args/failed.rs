//! Flags that choose failed messages: of `baton errors`, `baton retry` and `baton drop`.

use std::ops::RangeInclusive;
use std::time::{Duration, UNIX_EPOCH};

use clap::ValueEnum;

use super::run::{duration, number};
use super::{DurabilityArgs, FormatArgs};

/// Which failed messages. The conditions combine.
///
/// These flags read no variables. A forgotten variable would choose what `baton drop` removes, and a
/// handler's command has `BATON_SEQ` for its own message.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "Which failed messages (the flags combine)")]
pub(crate) struct FilterArgs {
    /// Messages whose reason contains TEXT
    #[arg(long, value_name = "TEXT", value_parser = words)]
    pub(crate) reason: Option<String>,
    /// Messages that failed on this node
    #[arg(long, value_name = "NAME", value_parser = words)]
    pub(crate) node: Option<String>,
    /// Messages that failed since then: a time ago, such as 2h, or a moment in UTC, such as
    /// 2026-01-31 or 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub(crate) since: Option<Since>,
    /// The message with this number, or all from A to B; 0 is what never was a message. With
    /// several partitions, 3.17 is number 17 of partition 3, and 17 is that of each
    #[arg(long, value_name = "N|A..B", value_parser = seqs)]
    pub(crate) seq: Option<Seqs>,
}

impl FilterArgs {
    /// Whether no condition is set.
    pub(crate) fn is_empty(&self) -> bool {
        self.reason.is_none() && self.node.is_none() && self.since.is_none() && self.seq.is_none()
    }
}

/// Numbers of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seqs {
    /// None for those of every partition.
    pub(crate) partition: Option<u64>,
    pub(crate) numbers: RangeInclusive<u64>,
}

/// A moment in the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    /// So long ago.
    Ago(Duration),
    /// At this time, in ms.
    At(u64),
}

#[derive(clap::Args)]
pub(crate) struct ErrorsArgs {
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    /// Print groups instead of messages
    #[arg(long, value_name = "FIELD")]
    pub(crate) by: Option<GroupBy>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
}

/// What the messages of a group have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupBy {
    /// The reason, whatever numbers are in it; a code of exit or HTTP counts
    Reason,
}

/// The flags of `baton getErrors`.
#[derive(clap::Args)]
pub(crate) struct GetErrorsArgs {
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    #[command(flatten)]
    pub(crate) durability: DurabilityArgs,
}

#[derive(clap::Args)]
pub(crate) struct SettleArgs {
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    #[command(flatten)]
    pub(crate) durability: DurabilityArgs,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// All messages that are in the errors store when the command starts
    #[arg(long, conflicts_with_all = ["reason", "node", "since", "seq"])]
    pub(crate) all: bool,
}

/// A text that is not empty: an empty one would match every message.
fn words(text: &str) -> Result<String, String> {
    match text {
        "" => Err("an empty text matches every message: leave the flag out".to_owned()),
        text => Ok(text.to_owned()),
    }
}

fn since(text: &str) -> Result<Since, String> {
    // A date alone is its first moment.
    let date = format!("{text} 00:00:00");
    let moment = [text, &date]
        .into_iter()
        .find_map(|text| humantime::parse_rfc3339_weak(text).ok());
    if let Some(moment) = moment {
        let ms = moment
            .duration_since(UNIX_EPOCH)
            .map(|time| time.as_millis());
        return ms
            .ok()
            .and_then(|ms| u64::try_from(ms).ok())
            .map(Since::At)
            .ok_or_else(|| "this moment is before 1970".to_owned());
    }
    let ago = text
        .strip_suffix("ago")
        .map_or(text, |ago| ago.trim_end_matches([' ', '-']));
    let ago = duration(ago, Duration::MAX).map_err(|error| {
        format!("{error}; a moment is written like 2026-01-31 or 2026-01-31T12:00:00Z")
    })?;
    Ok(Since::Ago(ago))
}

fn seqs(text: &str) -> Result<Seqs, String> {
    let number = |text| {
        number(text)
            .map_err(|_| "write 17, 17..20 or, for partition 3, 3.17 or 3.17..20".to_owned())
    };
    let (first, last) = match text.split_once("..") {
        Some((first, last)) => (first, Some(last)),
        None => (text, None),
    };
    let (partition, first) = match first.split_once('.') {
        Some((partition, first)) => (Some(number(partition)?), first),
        None => (None, first),
    };
    let (first, last) = (number(first)?, number(last.unwrap_or(first))?);
    match first <= last {
        true => Ok(Seqs {
            partition,
            numbers: first..=last,
        }),
        false => Err("the first number is larger than the last".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_time_ago_or_a_date() {
        let hours = |hours: u64| Ok(Since::Ago(Duration::from_secs(3600 * hours)));
        for (text, expected) in [
            ("2h", hours(2)),
            ("2h ago", hours(2)),
            ("2h-ago", hours(2)),
            ("30d", hours(720)),
            ("0", hours(0)),
            ("1970-01-02", Ok(Since::At(86_400_000))),
            ("1970-01-02T00:00:01Z", Ok(Since::At(86_401_000))),
            ("1970-01-02 00:00:01.5", Ok(Since::At(86_401_500))),
        ] {
            assert_eq!(since(text), expected, "{text}");
        }
        for bad in [
            "",
            "ago",
            "2",
            "soon",
            "-2h",
            "2026-13-01",
            "1969-12-31",
            "99999-01-01",
        ] {
            assert!(since(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_range_of_numbers_has_both_ends() {
        let of = |partition, numbers| Ok(Seqs { partition, numbers });
        assert_eq!(seqs("17"), of(None, 17..=17));
        assert_eq!(seqs("1..18446744073709551615"), of(None, 1..=u64::MAX));
        assert_eq!(seqs("0"), of(None, 0..=0));
        assert_eq!(seqs("3.17"), of(Some(3), 17..=17));
        assert_eq!(seqs("0.1..20"), of(Some(0), 1..=20));
        for bad in [
            "",
            "..",
            "1..",
            "..2",
            "3..2",
            "-1",
            "1...3",
            "1..2..3",
            "3.",
            ".17",
            "3.1..3.2",
            "1.2.3",
            "x",
            "18446744073709551616",
        ] {
            assert!(seqs(bad).is_err(), "{bad}");
        }
    }
}
