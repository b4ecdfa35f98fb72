//! What every adapter has in common: the arguments, the random texts and the lines on stdout.

use std::collections::hash_map::RandomState;
use std::error::Error;
use std::hash::{BuildHasher, Hasher};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

pub type Result<T = ()> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

pub enum Command {
    Enqueue {
        url: String,
        count: usize,
        size: usize,
    },
    Count {
        url: String,
    },
    Hold {
        url: String,
    },
}

pub fn command() -> Result<Command> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["enqueue", url, count, size] => Ok(Command::Enqueue {
            url: url.into(),
            count: count.parse()?,
            size: size.parse()?,
        }),
        ["work", url, "count"] => Ok(Command::Count { url: url.into() }),
        ["work", url, "hold"] => Ok(Command::Hold { url: url.into() }),
        _ => Err("usage: enqueue URL COUNT SIZE | work URL count | work URL hold".into()),
    }
}

/// `count` random texts of `size` ASCII letters, in groups for a bulk call each. They are made one
/// group at a time, so that the first jobs leave at once.
pub fn bulks(count: usize, size: usize, bulk: usize) -> impl Iterator<Item = Vec<String>> {
    let mut random = RandomState::new().build_hasher().finish() | 1;
    let mut letter = move || {
        // xorshift64: the texts have to differ, they need not be secret.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        char::from(b'a' + (random >> 32) as u8 % 26)
    };
    (0..count).step_by(bulk).map(move |first| {
        (first..count.min(first + bulk))
            .map(|_| (0..size).map(|_| letter()).collect())
            .collect()
    })
}

static DONE: AtomicU64 = AtomicU64::new(0);

/// The whole handler of `work URL count`.
pub fn done() {
    DONE.fetch_add(1, Ordering::Relaxed);
}

/// The whole handler of `work URL hold`.
pub async fn hold() {
    say("begun");
    tokio::time::sleep(Duration::from_secs(600)).await;
}

/// Says `ready`, and from then on the number of jobs done whenever it has changed.
pub fn ready() {
    say("ready");
    // A thread, not a task: a busy runtime must not delay the lines that the time is taken from.
    thread::spawn(|| {
        let mut said = 0;
        loop {
            thread::sleep(Duration::from_millis(20));
            let done = DONE.load(Ordering::Relaxed);
            if done != said {
                say(&format!("done {done}"));
                said = done;
            }
        }
    });
}

fn say(line: &str) {
    let mut stdout = std::io::stdout().lock();
    // Nobody listens any more once the runner has gone: then there is nothing left to work for.
    if writeln!(stdout, "{line}")
        .and_then(|()| stdout.flush())
        .is_err()
    {
        std::process::exit(1);
    }
}
