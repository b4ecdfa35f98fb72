//! Command lines of other programs for the same problem.

use crate::seeder::{Seeder, line, texts};
use crate::support::{baton, run, server};

#[test]
fn every_known_spelling_takes_the_failed_messages() {
    let server = server();
    let port = server.port().unwrap().to_string();
    let addr = format!("127.0.0.1:{port}");
    let addr_is = format!("-addr={addr}");
    let mut seed = Seeder::new(&server);
    for (args, seq) in [
        vec!["-addr", &addr, "-getErrors"],
        vec![&addr_is, "-getErrors"],
        vec!["--addr", &addr, "--getErrors"],
        vec!["-getErrors", "-addr", &addr],
        vec![
            "--host",
            "127.0.0.1",
            "--port",
            &port,
            "--db",
            "0",
            "--getErrors",
        ],
        vec![
            "-host",
            "127.0.0.1",
            "-port",
            &port,
            "-db",
            "0",
            "-getErrors",
        ],
        vec!["getErrors", "--addr", &addr],
        vec!["get-errors", "--addr", &addr],
        vec!["geterrors", "--addr", &addr],
    ]
    .into_iter()
    .zip(1..)
    {
        seed.fail(&[format!("m{seq}")]);
        let taken = run(baton(&args));
        assert_eq!(
            taken.lines(),
            [line(seq, &format!("m{seq}"))],
            "{args:?}: {}",
            taken.stderr
        );
        assert_eq!((taken.code, seed.waiting().len()), (Some(0), 0), "{args:?}");
    }
}

#[test]
fn clean_temp_cleans() {
    let server = server();
    let addr = format!("127.0.0.1:{}", server.port().unwrap());
    let mut seed = Seeder::new(&server);
    seed.publish(&texts(1..=3));
    seed.claim(2);
    drop(seed);
    for flag in ["--cleanTemp", "-cleanTemp"] {
        let cleaned = run(baton(&["--addr", &addr, flag]));
        assert_eq!(cleaned.code, Some(0), "{}", cleaned.stderr);
        cleaned.says("put back");
    }
}
