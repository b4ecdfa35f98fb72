//! Failed messages taken through the page: saved, confirmed, and only then removed.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use baton_processes::command;
use baton_server::PrivateServer;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{TIMEOUT, Visit, failure, push, server, stored, wait_items};
use crate::tab::Tab;

/// A server with so many failed messages.
fn with_failures(count: u64) -> PrivateServer {
    let server = server();
    let failures: Vec<_> = (1..=count)
        .map(|seq| failure(seq, "too long", "some text"))
        .collect();
    push(&server, &failures);
    server
}

/// Lets a tab save files in a folder of its own.
fn save_to_folder(tab: &Tab) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    tab.save_to(folder.path());
    folder
}

/// Takes all that the page lists, and waits for the question.
#[track_caller]
fn take_all(tab: &Tab) {
    tab.click("#take-all");
    wait_question(tab);
}

#[track_caller]
fn wait_question(tab: &Tab) {
    tab.wait_until("the question", "document.querySelector('#taken').open");
}

#[track_caller]
fn wait_toast(tab: &Tab, words: &str) {
    let words = json!(words);
    tab.wait_until(
        &format!("the page to say {words}"),
        &format!("document.querySelector('#toast').textContent.includes({words})"),
    );
    assert_eq!(
        tab.eval("document.querySelector('#taken').open"),
        json!(false)
    );
}

fn get_errors(server: &PrivateServer) -> Command {
    let mut command = command(Path::new(env!("CARGO_BIN_EXE_baton")));
    command.args(["getErrors", "--json", "--redis", &server.url()]);
    command.stdout(Stdio::piped());
    command
}

#[test]
fn what_is_confirmed_is_in_a_file_and_no_longer_in_the_store() {
    let Some(visit) = Visit::start(|| with_failures(3), 3) else {
        return;
    };
    let (tab, server) = (&visit.tab, &visit.server);
    let folder = save_to_folder(tab);
    take_all(tab);
    let (name, taken) = wait_file(folder.path());
    assert_eq!(
        tab.text("#taken-text"),
        format!("Saved 3 messages as {name}. Is the file there?")
    );
    assert_eq!(stored(server).len(), 3, "the user has not confirmed yet");
    // Escape is no answer.
    tab.press("Escape");
    wait_question(tab);
    tab.click("#taken-remove");
    wait_toast(tab, "took 3");
    assert_eq!(stored(server), []);
    wait_items(tab, 0);
    assert_eq!(seqs(&taken), [1, 2, 3]);
    let first: Value = serde_json::from_str(taken.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["reason"], &first["text"]),
        (&json!("too long"), &json!("some text"))
    );
    assert_eq!(tab.errors(), Vec::<String>::new());
}

#[test]
fn when_nothing_was_saved_nothing_is_removed() {
    let Some(visit) = Visit::start(|| with_failures(50), 50) else {
        return;
    };
    let (tab, server) = (&visit.tab, &visit.server);
    // The browser cancels every download.
    tab.save_nothing();
    take_all(tab);
    assert_eq!(stored(server).len(), 50);
    tab.click("#taken-back");
    wait_toast(tab, "put back 50");
    wait_items(tab, 50);
    assert_eq!(stored(server).len(), 50);

    // They can be taken again, one as well as all.
    let folder = save_to_folder(tab);
    tab.click("#failed [data-id] button.take");
    wait_question(tab);
    let (_, taken) = wait_file(folder.path());
    assert_eq!(seqs(&taken), [50]);
    tab.click("#taken-remove");
    wait_toast(tab, "took 1");
    assert_eq!(stored(server).len(), 49);
}

#[test]
fn who_closes_or_reloads_the_page_leaves_the_messages_in_the_store() {
    let Some(visit) = Visit::start(|| with_failures(3), 3) else {
        return;
    };
    let (other, url) = (&visit.tab, &visit.page.url);
    for close in [false, true] {
        let tab = Tab::open(&visit.browser, url);
        let _folder = save_to_folder(&tab);
        wait_items(&tab, 3);
        take_all(&tab);
        other.click("#look-again");
        wait_items(other, 0);
        match close {
            true => drop(tab.call("Page.close", json!({}))),
            false => tab.go(url),
        }
        // Long before the time for an answer is over.
        let deadline = Instant::now() + TIMEOUT;
        let listed = "document.querySelectorAll('#failed [data-id]').length";
        while other.eval(listed) != json!(3) {
            assert!(Instant::now() < deadline, "they did not return");
            other.click("#look-again");
        }
        assert_eq!(stored(&visit.server).len(), 3);
    }
}

#[test]
fn when_the_page_s_server_is_killed_the_messages_return() {
    let Some(visit) = Visit::start(|| with_failures(3), 3) else {
        return;
    };
    let (tab, server) = (&visit.tab, &visit.server);
    let folder = save_to_folder(tab);
    take_all(tab);
    wait_file(folder.path());
    let held = get_errors(server).output().unwrap();
    assert_eq!(seqs(&String::from_utf8(held.stdout).unwrap()), [0; 0]);
    // With SIGKILL.
    drop(visit.page);
    let printed = get_errors(server).output().unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert_eq!(seqs(&printed), [1, 2, 3]);
    tab.click("#taken-remove");
    tab.wait_until(
        "the page to say that it could not",
        "/does not answer/.test(document.querySelector('#taken-note').textContent)",
    );
}

#[test]
fn two_people_and_get_errors_take_each_message_once() {
    const FAILED: u64 = 3000;
    let Some(visit) = Visit::start(|| with_failures(FAILED), 50) else {
        return;
    };
    let second = Tab::open(&visit.browser, &visit.page.url);
    wait_items(&second, 50);
    let (tabs, server) = ([&visit.tab, &second], &visit.server);
    let folders = tabs.map(save_to_folder);
    // Its reader is slow: it holds some when the others come.
    let mut printing = get_errors(server).spawn().unwrap();
    let mut stdout = printing.stdout.take().unwrap();
    let mut first = [0; 1];
    stdout.read_exact(&mut first).unwrap();
    // One click after the other without waiting for an answer.
    for tab in tabs {
        tab.eval("document.querySelector('#take-all').click()");
    }
    let mut outputs = Vec::new();
    for (tab, folder) in tabs.iter().zip(&folders) {
        tab.wait_until(
            "the question, or that none are left",
            "document.querySelector('#taken').open
                || /took none/.test(document.querySelector('#toast').textContent)",
        );
        if tab.eval("document.querySelector('#taken').open") == json!(true) {
            outputs.push(seqs(&wait_file(folder.path()).1));
            let took = outputs.last().unwrap().len();
            tab.click("#taken-remove");
            tab.wait_until(
                "the end of the take",
                &format!(
                    "document.querySelector('#toast').textContent.replaceAll(/[^a-z0-9]/g, '')
                        .startsWith('took{took}')"
                ),
            );
        }
    }
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert!(printing.wait().unwrap().success());
    outputs.push(seqs(&format!("{}{rest}", first[0] as char)));
    let lengths: Vec<_> = outputs.iter().map(Vec::len).collect();
    assert!(lengths.len() > 1, "{lengths:?}");
    let all = outputs.concat();
    assert_eq!(all.len() as u64, FAILED, "{lengths:?}");
    assert_eq!(BTreeSet::from_iter(all).len() as u64, FAILED, "{lengths:?}");
    assert_eq!(stored(server), []);
}

/// The numbers in a file.
fn seqs(lines: &str) -> Vec<u64> {
    let mut seqs: Vec<u64> = lines
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            line["seq"].as_u64().unwrap()
        })
        .collect();
    seqs.sort_unstable();
    seqs
}

/// The one file of a folder, as soon as there is one that was saved to its end.
#[track_caller]
fn wait_file(folder: &Path) -> (String, String) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let mut files = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().path());
        // A browser keeps the name with an empty file, and gives it to the whole one at the end.
        if let Some(file) = files.find(|file| file.extension().is_some_and(|end| end == "ndjson"))
            && let text = std::fs::read_to_string(&file).unwrap()
            && !text.is_empty()
        {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            return (name, text);
        }
        assert!(Instant::now() < deadline, "no file was saved");
        thread::sleep(Duration::from_millis(10));
    }
}
