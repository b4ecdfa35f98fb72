//! What hostile bytes of a command reach: its exit, its output, its effects; or its messages, if it is a
//! source.
//!
//! The fuzz targets in `proof/fuzz/` call the functions; the tests below replay their corpora.

mod source;

pub use self::source::source;
use baton::Effects;

use crate::handler::Exec;
use crate::leash::{Cause, Ended};
use crate::output_lines::{MAX_LINE_BYTES, MAX_OUTPUT_BYTES, OutputLines};
use crate::plan::Plan;
use crate::stderr_tail::{MAX_TAIL_BYTES, StderrTail};

/// Bytes that a line or a reason has beside those of the command.
const OUR_WORDS: usize = 64;

/// A command from its end on: two bytes say how it ended, and the next one the size of the pieces in
/// which the rest comes: as stdout, as stderr, as effects, and as a plan.
pub fn exec(data: &[u8]) {
    let [code, how, piece, printed @ ..] = data else {
        return;
    };
    let ended = Ended {
        cause: match how & 1 {
            0 => Cause::Exit(i32::from(*code)),
            _ => Cause::Signal(i32::from(*code)),
        },
        timed_out: how & 2 != 0,
    };
    let pieces = || printed.chunks(usize::from(*piece).max(1));
    check_end(ended, pieces());
    check_output(printed, pieces());
    if let Ok(effects) = Effects::parse_lines(printed) {
        let blank = printed.trim_ascii().is_empty();
        assert!(!blank || effects == Effects::default());
    }
    if let Ok(plan) = Plan::read(printed) {
        let mut written = Vec::new();
        assert!(plan.write(&mut written).is_ok());
        assert_eq!(Plan::read(&written[..]).ok(), Some(plan));
    }
}

/// Each end has one meaning, and its reason is bounded.
fn check_end<'a>(ended: Ended, pieces: impl Iterator<Item = &'a [u8]>) {
    let mut tail = StderrTail::default();
    pieces.for_each(|piece| tail.push(piece));
    let judged = Exec::shell("true").judge(ended, &tail.text());
    let is_done = ended.cause == Cause::Exit(0) && !ended.timed_out;
    assert_eq!(judged.is_ok(), is_done);
    let Err(error) = judged else {
        return;
    };
    let exit = match ended {
        Ended {
            cause: Cause::Exit(code),
            timed_out: false,
        } => code,
        // Neither a signal nor a timeout is final, and the message is to blame.
        _ => 1,
    };
    assert_eq!(error.is_final(), exit == 65);
    assert_eq!(error.is_unavailable(), exit == 126 || exit == 127);
    // A byte that is no UTF-8 becomes a character of three.
    assert!(error.reason().len() <= 3 * MAX_TAIL_BYTES + OUR_WORDS);
}

/// Lines are bounded, and together they have what was printed.
fn check_output<'a>(printed: &[u8], pieces: impl Iterator<Item = &'a [u8]>) {
    let (mut lines, mut bytes) = (0, 0);
    let mut count = |line: &[u8]| {
        assert!(line.len() <= MAX_LINE_BYTES + OUR_WORDS && !line.contains(&b'\n'));
        lines += 1;
        bytes += line.len();
    };
    let mut output = OutputLines::default();
    pieces.for_each(|piece| output.push(piece, &mut count));
    output.finish(&mut count);
    if printed.len() <= MAX_LINE_BYTES.min(MAX_OUTPUT_BYTES) {
        let ends = printed.iter().filter(|byte| **byte == b'\n').count();
        assert!((ends..=ends + 1).contains(&lines));
        // Each line may have had a carriage return at its end.
        let fewest = printed.len().saturating_sub(lines);
        assert!((fewest..=printed.len()).contains(&(bytes + ends)));
    }
}

#[cfg(test)]
#[path = "../../../proof/fuzz/replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    #[test]
    fn any_end_and_any_output_of_a_command_have_a_bounded_meaning() {
        super::replay::replay("exec", super::exec, 256 << 10, 2000);
    }

    #[test]
    fn any_output_of_a_source_makes_the_messages_that_it_should_whatever_the_pieces() {
        super::replay::replay("source", super::source, 512 << 10, 4000);
    }
}
