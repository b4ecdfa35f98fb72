//! Events for people.

use std::fmt::{self, Display};
use std::io::Write;
use std::time::{Duration, SystemTime};

use baton::Event;
use baton_protocol::text::{Escaped, Excerpt};

use super::Entry;
use crate::hints;

/// The most characters of a message's text in a line.
const EXCERPT_CHARS: usize = 60;

/// Appends a line.
pub(crate) fn write(to: &mut Vec<u8>, at: SystemTime, node: &str, entry: &Entry<'_>) {
    let at = humantime::format_rfc3339_millis(at);
    // Writing to a vector cannot fail.
    let _ = match entry {
        Entry::Event(event) => writeln!(to, "{at} {node:10}  {}", Words(event)),
        Entry::Output { seq, line } => {
            writeln!(to, "{at} {node:10}  #{seq} printed: {}", Escaped(line))
        }
        Entry::SourceOutput(line) => {
            writeln!(to, "{at} {node:10}  source printed: {}", Escaped(line))
        }
        Entry::Gap(lines) => writeln!(
            to,
            "{at} {node:10}  log gap: {lines} lines were dropped, the output took no more"
        ),
    };
}

struct Words<'a>(&'a Event);

/// How so many messages ended.
fn write_outcomes(
    f: &mut fmt::Formatter<'_>,
    count: u64,
    failed: u64,
    delayed: u64,
) -> fmt::Result {
    let done = count.saturating_sub(failed).saturating_sub(delayed);
    let mut separator = " ";
    for (some, word) in [(done, "done"), (failed, "failed"), (delayed, "delayed")] {
        match some {
            0 => continue,
            _ if some == count || (word == "done") => write!(f, "{separator}{word}")?,
            _ => write!(f, "{separator}{some} {word}")?,
        }
        separator = ", ";
    }
    Ok(())
}

impl Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Event::Generator { epoch } => write!(f, "became generator, epoch {epoch}"),
            Event::Worker { generator } => write!(f, "works for {}", Escaped(generator.as_bytes())),
            Event::Published {
                first, last, text, ..
            } => {
                write!(f, "published {}", Numbers(*first, *last))?;
                match text {
                    Some(bytes) => {
                        write!(
                            f,
                            " {}",
                            Excerpt {
                                bytes,
                                max_chars: EXCERPT_CHARS
                            }
                        )
                    }
                    None => Ok(()),
                }
            }
            Event::Processed {
                first,
                last,
                failed,
                delayed,
                attempt,
            } => {
                write!(f, "processed {}", Numbers(*first, *last))?;
                write_outcomes(
                    f,
                    last - first + 1,
                    failed.len() as u64,
                    delayed.len() as u64,
                )?;
                match attempt {
                    0 | 1 => Ok(()),
                    _ => write!(f, ", attempt {attempt}"),
                }
            }
            Event::Delayed {
                seq,
                attempt,
                delay,
                reason,
            } => {
                let wait =
                    humantime::format_duration(Duration::from_millis(delay.as_millis() as u64));
                let reason = Escaped(reason.as_bytes());
                write!(
                    f,
                    "attempt {attempt} of #{seq} failed, next in {wait}: {reason}"
                )
            }
            Event::Fenced { epoch, by } => {
                write!(f, "lost its lease (epoch {epoch})")?;
                match by {
                    Some(node) => write!(f, " to {}", Escaped(node.as_bytes())),
                    None => Ok(()),
                }
            }
            Event::Lost { first, last } => write!(
                f,
                "lost its claim on {}, or the answer to its commit: another worker takes over what has not ended",
                Numbers(*first, *last)
            ),
            Event::Unconfirmed { first, last } => write!(
                f,
                "committed {}, unconfirmed: a failover can still forget that",
                Numbers(*first, *last)
            ),
            Event::Regressed { first, last } => write!(
                f,
                "warning: Redis has forgotten {}, which it had acknowledged (see `baton status`)",
                Numbers(*first, *last)
            ),
            Event::Void { first, last } => write!(
                f,
                "warning: {} cannot be had any more: void, no other message gets the number",
                Numbers(*first, *last)
            ),
            Event::Reclaimed { count, nodes } => {
                let messages = if *count == 1 { "message" } else { "messages" };
                let workers = if nodes.len() == 1 {
                    "worker"
                } else {
                    "workers"
                };
                let nodes = nodes.join(", ");
                let nodes = Escaped(nodes.as_bytes());
                write!(f, "took back {count} {messages} of dead {workers} {nodes}")
            }
            Event::Dropped { count } => {
                let messages = if *count == 1 { "message" } else { "messages" };
                write!(
                    f,
                    "dropped {count} failed {messages}, older than the fleet keeps them"
                )
            }
            Event::Paused { part } => {
                write!(f, "is paused, by `baton pause {}`", part.as_str())
            }
            Event::Resumed { part } => write!(f, "goes on, by `baton resume {}`", part.as_str()),
            Event::Redis { up: true, .. } => f.write_str("regained Redis"),
            Event::Redis { up: false, reason } => {
                let reason = reason.as_deref().unwrap_or("no answer");
                write!(f, "lost Redis: {}", Escaped(reason.as_bytes()))
            }
            Event::Confirmed => f.write_str("writes count again: the server confirms them"),
            Event::Warning(warning) => {
                let text = hints::warning(warning);
                write!(f, "warning: {}", Escaped(text.as_bytes()))
            }
            Event::Snapshot {
                generator,
                published_per_s,
                processed_per_s,
                pending,
                claimed,
                delayed,
                errors,
            } => write!(
                f,
                "{}: {published_per_s:.1} published/s, {processed_per_s:.1} processed/s; \
                 pending {pending}, claimed {claimed}, delayed {delayed}, errors {errors}",
                if *generator { "generator" } else { "worker" }
            ),
            Event::Stopped => f.write_str("stopped"),
            Event::InPartition { partition, event } => {
                write!(f, "partition {partition}: {}", Words(event))
            }
            // A newer library may have more events.
            other => write!(f, "{other:?}"),
        }
    }
}

/// `#17`, or `#1–#500`.
struct Numbers(u64, u64);

impl Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (first, last) if first == last => write!(f, "#{first}"),
            (first, last) => write!(f, "#{first}–#{last}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::lines;

    #[test]
    fn every_event_is_one_readable_line() {
        let lines = lines(super::write);
        let words: Vec<&str> = lines
            .iter()
            .map(|line| {
                line.strip_prefix("2023-11-14T22:13:20.123Z n0de        ")
                    .unwrap()
            })
            .collect();
        assert_eq!(
            words,
            [
                "became generator, epoch 3",
                "works for k3v9x0a7qm",
                r#"published #17 "two\nlines\xff""#,
                "published #1–#500",
                "processed #17 done",
                "processed #17 failed, attempt 2",
                "processed #1–#500 done",
                "processed #1–#500 done, 2 failed",
                "processed #1–#2 failed",
                "processed #1–#3 done, 1 failed, 1 delayed",
                "processed #7 delayed, attempt 2",
                r"attempt 2 of #7 failed, next in 2s 100ms: no\nanswer",
                "lost its lease (epoch 3)",
                "lost its lease (epoch 3) to k3v9x0a7qm",
                "lost its claim on #5–#6, or the answer to its commit: another worker takes over what has not ended",
                "committed #5–#6, unconfirmed: a failover can still forget that",
                "warning: Redis has forgotten #7–#9, which it had acknowledged (see `baton status`)",
                "warning: #8 cannot be had any more: void, no other message gets the number",
                "took back 1 message of dead worker k3v9x0a7qm",
                "took back 3 messages of dead workers k3v9x0a7qm, b",
                "dropped 500 failed messages, older than the fleet keeps them",
                "is paused, by `baton pause generator`",
                "goes on, by `baton resume workers`",
                "lost Redis: connection refused",
                "regained Redis",
                "writes count again: the server confirms them",
                "warning: cannot publish for now: OOM command not allowed",
                "generator: 2.0 published/s, 0.0 processed/s; pending 3, claimed 1, delayed 2, errors 6",
                "stopped",
                r"#17 printed: tab\tand grün",
                r"source printed: tab\tand grün",
                "log gap: 12 lines were dropped, the output took no more",
            ]
        );
    }
}
