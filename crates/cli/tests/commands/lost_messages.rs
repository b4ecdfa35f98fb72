//! Lost messages: those that Redis acknowledged and then forgot.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;

use baton_server::PrivateServer;
use serde_json::Value;

use crate::seeder::{Seeder, texts};
use crate::shared::pty;
use crate::support::{baton, on, server};

const LOST: &str =
    "12 messages that Redis acknowledged are lost: a failover, restart or flush forgot them";

#[test]
fn status_says_how_many_messages_are_lost_and_the_books_balance() {
    let server = server();
    let mut seed = Seeder::new(&server);
    seed.publish(&texts(1..=5));
    let status = on(&server, &["status"]);
    assert!(!status.stdout.contains("void"), "{}", status.stdout);
    seed.void(12);
    seed.publish(&texts(18..=18));
    let status = on(&server, &["status"]);
    assert_eq!(status.code, Some(0), "{}", status.stderr);
    status.says(
        "balanced: published 18 = done 0 + failed 0 + pending 6 + claimed 0 + delayed 0 + void 12\n",
    );
    status.says(&format!("\nvoid       {LOST}\n"));
    let json = on(&server, &["status", "--json"]);
    assert_eq!(json.code, Some(0));
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(
        (&json["void"], &json["balanced"]),
        (&12.into(), &true.into())
    );
}

/// What `baton status` writes to a terminal.
fn on_terminal(server: &PrivateServer, no_color: &str) -> String {
    let (terminal, inner) = pty::open(40, 200);
    let url = server.url();
    let mut command = baton(&["status", "--redis", &url]);
    command.env("TERM", "xterm").env("NO_COLOR", no_color);
    command.stdout(Stdio::from(inner));
    let mut status = command.spawn().unwrap();
    // The command holds the terminal's other end, too.
    drop(command);
    let (mut terminal, mut bytes) = (File::from(terminal), Vec::new());
    // The end of the program is an error here.
    let _ = terminal.read_to_end(&mut bytes);
    assert_eq!(status.wait().unwrap().code(), Some(0));
    String::from_utf8(bytes).unwrap()
}

#[test]
fn lost_messages_are_red_in_a_terminal_unless_the_user_wants_no_colours() {
    let server = server();
    let mut seed = Seeder::new(&server);
    assert!(!on_terminal(&server, "").contains('\u{1b}'));
    seed.void(12);
    let red = on_terminal(&server, "");
    assert!(
        red.contains(&format!("\u{1b}[1;31m{LOST}\u{1b}[0m")),
        "{red:?}"
    );
    let plain = on_terminal(&server, "1");
    assert!(
        plain.contains(LOST) && !plain.contains('\u{1b}'),
        "{plain:?}"
    );
}
