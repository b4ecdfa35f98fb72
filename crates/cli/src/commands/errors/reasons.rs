//! Failed messages, grouped by reason.

use std::collections::HashMap;
use std::io::Write as _;

use baton::FailedMessage;
use baton_protocol::text::{self, Escaped};
use serde::Serialize;

use crate::args::FormatArgs;
use crate::json;

/// Max groups. Further reasons are counted together: memory stays bounded whatever the reasons are.
const MAX_GROUPS: usize = 10_000;
/// Max characters of a group's name.
const MAX_CHARS: usize = 200;

/// The groups so far.
#[derive(Default)]
pub(super) struct Reasons {
    groups: HashMap<String, Group>,
    /// Messages whose reasons did not get a group.
    others: Group,
}

/// Messages with the same reason, apart from numbers in it.
#[derive(Debug, Clone, Copy, Default)]
struct Group {
    count: u64,
    /// When the first and the last of them failed, in ms; 0 if it is not known.
    first_ms: u64,
    last_ms: u64,
    /// The partition and the number of the last one that was added.
    example: (Option<u32>, u64),
}

/// A group as JSON.
#[derive(Serialize)]
struct GroupJson<'a> {
    /// None for all reasons that did not get a group.
    reason: Option<&'a str>,
    count: u64,
    first: Option<String>,
    last: Option<String>,
    /// None in a fleet of one partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    example_partition: Option<u32>,
    example: u64,
}

impl Group {
    fn add(&mut self, failed: &FailedMessage) {
        self.count += 1;
        self.example = (failed.partition, failed.seq);
        if failed.at_ms > 0 {
            self.last_ms = self.last_ms.max(failed.at_ms);
            self.first_ms = match self.first_ms {
                0 => failed.at_ms,
                first => first.min(failed.at_ms),
            };
        }
    }
}

impl Reasons {
    /// Adds a message to its group.
    pub(super) fn add(&mut self, failed: &FailedMessage) {
        let name = pattern(&failed.reason);
        let is_full = self.groups.len() >= MAX_GROUPS;
        let group = match is_full && !self.groups.contains_key(&name) {
            true => &mut self.others,
            false => self.groups.entry(name).or_default(),
        };
        group.add(failed);
    }

    /// One line for each group, the largest first: count, first and last time, an example's number
    /// and the reason, separated by tabs; or JSON.
    pub(super) fn lines(&self, format: &FormatArgs) -> anyhow::Result<Vec<u8>> {
        let mut groups: Vec<(Option<&str>, &Group)> = self
            .groups
            .iter()
            .map(|(name, group)| (Some(name.as_str()), group))
            .collect();
        groups.sort_by(|(a, one), (b, other)| other.count.cmp(&one.count).then(a.cmp(b)));
        groups.extend((self.others.count > 0).then_some((None, &self.others)));
        let mut lines = Vec::new();
        for (reason, group) in groups {
            let (first, last) = (text::moment(group.first_ms), text::moment(group.last_ms));
            if format.json {
                let group = GroupJson {
                    reason,
                    count: group.count,
                    first,
                    last,
                    example_partition: group.example.0,
                    example: group.example.1,
                };
                json::write_line(&mut lines, &group)?;
                continue;
            }
            let dash = |time: Option<String>| time.unwrap_or_else(|| "-".to_owned());
            let example = match group.example {
                (_, 0) => "-".to_owned(),
                (partition, seq) => format!("#{}", text::number(partition, seq)),
            };
            writeln!(
                lines,
                "{}\t{}\t{}\t{example}\t{}",
                group.count,
                dash(first),
                dash(last),
                Escaped(reason.unwrap_or("(all other reasons)").as_bytes())
            )?;
        }
        Ok(lines)
    }
}

/// Words before a number that is a kind of failure, not a detail of it.
const CODES: [&str; 2] = ["exit code ", "HTTP "];

/// The reason with `N` for each number in it, cut to a bounded length. A code at its start stays.
fn pattern(reason: &str) -> String {
    let code = CODES.iter().find_map(|words| {
        let after = reason.strip_prefix(words)?;
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        (1..=3).contains(&digits).then_some(words.len() + digits)
    });
    let (code, rest) = reason.split_at(code.unwrap_or(0));
    let mut name = code.to_owned();
    let mut rest = rest.chars().peekable();
    for length in code.len().. {
        let Some(c) = rest.next() else { break };
        if length == MAX_CHARS {
            name.push('…');
            break;
        }
        if !c.is_ascii_digit() {
            name.push(c);
            continue;
        }
        name.push('N');
        // A point or comma belongs to the number if a digit follows it.
        loop {
            let mut ahead = rest.clone();
            let is_part = match ahead.next() {
                Some('.' | ',') => ahead.next().is_some_and(|c| c.is_ascii_digit()),
                next => next.is_some_and(|c| c.is_ascii_digit()),
            };
            if !is_part {
                break;
            }
            rest.next();
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use baton_protocol::record;

    use super::*;

    #[test]
    fn numbers_do_not_tell_reasons_apart() {
        for (reason, expected) in [
            ("timeout after 1042 ms", "timeout after N ms"),
            ("took 1.5 s, not 1,000.25.", "took N s, not N."),
            ("a1b22", "aNbN"),
            ("7", "N"),
            ("", ""),
            ("exit code 65: line 12", "exit code 65: line N"),
            (
                "HTTP 422 Unprocessable Entity: 7",
                "HTTP 422 Unprocessable Entity: N",
            ),
            ("HTTP 1234", "HTTP N"),
            ("the exit code 65", "the exit code N"),
            ("none: ½ ٣", "none: ½ ٣"),
        ] {
            assert_eq!(pattern(reason), expected);
        }
    }

    #[test]
    fn a_hostile_store_of_reasons_takes_bounded_memory() {
        let long = pattern(&"ü".repeat(100_000));
        assert_eq!(long.chars().count(), MAX_CHARS + 1);
        assert_eq!(pattern(&"1".repeat(100_000)), "N");
        let mut reasons = Reasons::default();
        let letters = |mut n: usize| {
            let mut word = String::new();
            while n > 0 {
                word.push(char::from(b'a' + u8::try_from(n % 26).unwrap()));
                n /= 26;
            }
            word
        };
        for n in 0..MAX_GROUPS + 5 {
            reasons.add(&record::failed_once(1, 1, "n", &letters(n), ""));
        }
        assert_eq!(
            (reasons.groups.len(), reasons.others.count),
            (MAX_GROUPS, 5)
        );
        // A known reason still has its group.
        reasons.add(&record::failed_once(1, 1, "n", &letters(1), ""));
        assert_eq!(reasons.groups[&letters(1)].count, 2);
        let lines = reasons.lines(&FormatArgs { json: true }).unwrap();
        let lines = String::from_utf8(lines).unwrap();
        assert!(
            lines
                .lines()
                .last()
                .unwrap()
                .starts_with(r#"{"reason":null,"count":5,"#)
        );
    }
}
