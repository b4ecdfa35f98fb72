//! The live view of the demo in a terminal, with every key that it has.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

#[path = "../shared/mod.rs"]
mod shared;
mod terminal;

use baton::FleetName;
use baton::inspect::{NodeRole, Snapshot};
use baton_processes::command;
use baton_protocol::{Keys, record};
use redis::Commands as _;
use rustix::process::Signal;

use terminal::Demo;

fn alive(seen: &Snapshot) -> usize {
    seen.nodes
        .iter()
        .filter(|node| node.role != NodeRole::Dead)
        .count()
}

#[test]
fn a_terminal_without_a_screen_gets_no_escape_sequences() {
    let server = baton_server::PrivateServer::builder().start().unwrap();
    let url = server.url();

    let (code, written) = terminal::run_dumb(&["top", "--redis", &url], "fleet default");
    assert_eq!(code, Some(1), "{written:?}");
    assert!(written.contains("TERM is dumb"), "{written:?}");
    assert!(!written.contains('\x1b'), "{written:?}");

    let (_, written) = terminal::run_dumb(&["status", "--watch", "--redis", &url], "balanced");
    assert!(written.contains("balanced"), "{written:?}");
    assert!(!written.contains('\x1b'), "{written:?}");

    // It tells its story instead of showing a view.
    let (_, written) = terminal::run_dumb(&["demo"], "copies of one program");
    assert!(written.contains("a private "), "{written:?}");
    assert!(!written.contains('\x1b'), "{written:?}");
}

#[test]
fn k_kills_the_generator_another_takes_over_and_q_leaves_nothing_behind() {
    let demo = Demo::start();
    let before = demo.wait_fleet("a generator", |seen| seen.generator.node.is_some());
    demo.press("k");
    demo.wait_words("killed the generator ");
    demo.wait_fleet("a successor", |seen| {
        seen.generator.epoch > before.generator.epoch
            && seen.generator.node.is_some()
            && alive(seen) == 4
    });
    demo.wait_words(" took over from ");

    let offspring = demo.offspring();
    demo.press("q");
    let ended = demo.end();
    assert_eq!(ended.code, Some(0), "{}", ended.words);
    assert!(offspring.is_gone(), "{offspring:?}");
    for words in ["kills             1", "longest gap", "The books balance"] {
        assert!(ended.words.contains(words), "{words}: {}", ended.words);
    }
}

#[test]
fn plus_starts_a_node_minus_stops_one_and_w_kills_a_worker() {
    let demo = Demo::start();
    demo.press("+");
    demo.wait_fleet("six nodes", |seen| alive(seen) == 6);
    demo.wait_words("started ");
    demo.press("-");
    demo.wait_words("in good order");
    let before = demo.wait_fleet("five nodes and a generator", |seen| {
        seen.nodes.len() == 5 && seen.generator.node.is_some()
    });
    demo.press("w");
    demo.wait_words("killed the worker ");
    let killed = demo.word_after("killed the worker ");
    demo.wait_fleet("four nodes", |seen| alive(seen) == 4);
    assert!(before.nodes.iter().any(|node| node.node == killed));
    assert_ne!(before.generator.node, Some(killed));
}

#[test]
fn p_pauses_a_node_and_p_lets_it_go_on() {
    let demo = Demo::start();
    demo.press("p");
    demo.wait_words("with SIGSTOP");
    let paused = demo.word_after("paused ");
    let silent_ms = |seen: &Snapshot| {
        let node = seen.nodes.iter().find(|node| node.node == paused);
        node.map_or(0, |node| seen.now_ms.saturating_sub(node.seen_ms))
    };
    // Every node beats at least twice a second.
    demo.wait_fleet("a silent node", |seen| silent_ms(seen) > 2500);
    demo.press("p");
    demo.wait_words("goes on");
    demo.wait_fleet("its beat", |seen| {
        silent_ms(seen) < 1000 && alive(seen) == 5
    });
}

#[test]
fn f_is_full_speed_after_a_restart_of_every_node_in_good_order() {
    let demo = Demo::start();
    let before = demo.wait_fleet("five nodes", |seen| alive(seen) == 5);
    demo.press("f");
    demo.wait_words("full speed: 5 nodes restarted in good order");
    let after = demo.wait_fleet("many messages", |seen| seen.published > 5_000);
    assert!(after.balanced);
    let stays = |seen: &Snapshot, name: &str| seen.nodes.iter().any(|node| node.node == name);
    assert!(!before.nodes.iter().any(|node| stays(&after, &node.node)));
}

#[test]
fn r_restarts_redis_and_the_fleet_goes_on_with_its_messages() {
    let demo = Demo::start();
    let run_id = |demo: &Demo| -> String {
        let info: String = redis::cmd("INFO")
            .arg("server")
            .query(&mut demo.redis())
            .unwrap();
        let line = info.lines().find(|line| line.starts_with("run_id:"));
        line.unwrap().to_owned()
    };
    let (before, run) = (
        demo.wait_fleet("messages", |seen| seen.done > 0),
        run_id(&demo),
    );
    demo.press("r");
    demo.wait_words("killed Redis with -9");
    assert_ne!(run_id(&demo), run);
    let after = demo.wait_fleet("more messages", |seen| seen.done > before.done + 5);
    assert!(after.balanced);
}

#[test]
fn g_takes_the_failed_messages_and_shows_them_in_a_window() {
    let demo = Demo::start();
    let (reason, text) = ("too \x1b[31mred", "an old story");
    let failed = record::failed_once(4711, 1_700_000_000_123, "n1", reason, text);
    let keys = Keys::new(&FleetName::new("default").unwrap());
    let mut redis = demo.redis();
    let id: u64 = redis.hincr(&keys.errors_ids, "last", 1).unwrap();
    let _: () = redis
        .hset(&keys.errors, id, record::encode(&failed))
        .unwrap();
    demo.press("g");
    demo.wait_words("printed and removed");
    demo.wait_words(r"#4711  n1  too \x1b[31mred  an old story");
    demo.wait_fleet("an emptier store", |seen| {
        seen.newest.iter().all(|failed| failed.seq != 4711)
    });
}

#[test]
fn sigterm_gives_the_terminal_back_and_ends_everything() {
    let demo = Demo::start();
    assert!(!demo.is_calm(), "the view needs single keys");
    let offspring = demo.offspring();
    demo.signal(Signal::TERM);
    let ended = demo.end();
    assert_eq!(ended.code, Some(143), "{}", ended.words);
    assert!(offspring.is_gone(), "{offspring:?}");
    assert!(ended.words.contains("The books balance"), "{}", ended.words);
}

#[test]
fn a_closed_terminal_ends_everything_also_a_paused_node() {
    let demo = Demo::start();
    demo.press("p");
    demo.wait_words("with SIGSTOP");
    let offspring = demo.offspring();
    assert_eq!(demo.hang_up(), Some(129));
    assert!(offspring.is_gone(), "{offspring:?}");
}

#[test]
fn without_a_terminal_the_demo_tells_a_story() {
    let mut child = command(env!("CARGO_BIN_EXE_baton").as_ref())
        .arg("demo")
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(line.starts_with("Baton: one generator"), "{line}");
}
