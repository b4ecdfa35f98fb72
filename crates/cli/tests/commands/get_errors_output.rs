//! `baton getErrors` and outputs that fail: what was not printed is not removed.

use std::fs::{File, OpenOptions};
use std::io::Read;

use crate::seeder::{line, texts, with_failures};
use crate::support::{baton, end, read_line, run, shell, start_get_errors};

#[test]
fn a_reader_that_ends_early_takes_exactly_what_it_read() {
    let (server, seed) = with_failures(300);
    let (child, mut stdout) = start_get_errors(&server);
    for seq in 1..=260 {
        assert_eq!(read_line(&mut stdout), line(seq, &format!("m{seq}")));
    }
    drop(stdout);
    let ended = end(child);
    assert_eq!(ended.code, Some(1));
    assert_eq!(
        ended.stderr,
        "baton: cannot write to stdout (Broken pipe): 260 failed messages printed and removed, \
         40 remain\n"
    );
    assert_eq!(seed.waiting(), texts(261..=300));
}

#[test]
fn head_takes_one() {
    let (server, seed) = with_failures(50);
    for seq in 1..=20 {
        let mut command = shell("$BATON getErrors | head -n 1");
        command.env("REDIS_URL", server.url());
        assert_eq!(run(command).lines(), [line(seq, &format!("m{seq}"))]);
        assert_eq!(seed.waiting(), texts(seq + 1..=50));
    }
}

#[test]
fn on_a_full_disk_nothing_is_removed() {
    let (server, seed) = with_failures(5);
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = baton(&["getErrors", "--redis", &server.url()]);
    command.stdout(full);
    let ended = run(command);
    assert_eq!(ended.code, Some(1));
    assert_eq!(
        ended.stderr,
        "baton: cannot write to stdout (No space left on device): 0 failed messages printed and \
         removed, 5 remain\n"
    );
    assert_eq!(seed.waiting(), texts(1..=5));
}

#[test]
fn a_file_that_takes_no_more_has_every_message_that_was_removed() {
    let (server, seed) = with_failures(100);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("failed.txt");
    // A limit on the size of files: the system sends a signal with the error.
    let mut command = shell("ulimit -f 2; exec $BATON getErrors > \"$OUT\"");
    command.env("OUT", &path).env("REDIS_URL", server.url());
    let ended = run(command);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);

    let mut text = String::new();
    File::open(&path)
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    let whole: Vec<&str> = text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .collect();
    let printed = whole.len() as u64;
    assert!((1..100).contains(&printed), "{printed}");
    ended.complains(&format!("{printed} failed messages printed"));
    assert_eq!(seed.waiting(), texts(printed + 1..=100));
}

#[test]
fn without_a_stdout_nothing_is_taken() {
    let (server, seed) = with_failures(5);
    let mut command = shell("exec $BATON getErrors >&-");
    command.env("REDIS_URL", server.url());
    let ended = run(command);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.starts_with("baton: stdout is closed"),
        "{}",
        ended.stderr
    );
    assert_eq!(seed.waiting(), texts(1..=5));

    let mut command = shell("exec $BATON getErrors > /dev/null");
    command.env("REDIS_URL", server.url());
    assert_eq!((run(command).code, seed.waiting().len()), (Some(0), 0));
}
