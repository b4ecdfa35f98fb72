//! `baton clean`.

use std::time::Duration;

use baton::{FleetName, Inspector, Target};
use baton_protocol::{BeatCall, Claim, ClaimCall, Slot, Store};

use crate::seeder::{texts, with_failures};
use crate::support::{on, server};

#[test]
fn what_the_dead_held_is_put_back_and_they_are_forgotten() {
    let (server, mut seed) = with_failures(1);
    seed.publish(&texts(2..=6));
    // The living keep what they hold.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ttl = Duration::from_secs(600);
    let url = server.url();
    let open = async |name: &str| {
        let (target, fleet) = (
            Target::parse(&url).unwrap(),
            FleetName::new("default").unwrap(),
        );
        Store::open(&target, &fleet, name, |_| {}).await.unwrap()
    };
    let living = runtime.block_on(async {
        let (living, dying) = (open("living").await, open("dying").await);
        for store in [&living, &dying] {
            let _ = store
                .beat(BeatCall {
                    lease_ttl: ttl,
                    about: "{}",
                    above: 0,
                    is_candidate: true,
                    known: 0,
                })
                .await
                .unwrap();
            let slot = &Slot::new(store.node(), 0);
            let (number, want) = (1, 2);
            let claim = store
                .claim(ClaimCall {
                    slot,
                    number,
                    want,
                    ttl,
                    alone: true,
                })
                .await;
            assert!(matches!(claim.unwrap(), Claim::Claimed { .. }));
        }
        drop(dying);
        while living
            .roster()
            .await
            .unwrap()
            .nodes
            .iter()
            .filter(|node| node.present)
            .count()
            > 1
        {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        living
    });

    let cleaned = on(&server, &["clean"]);
    assert_eq!(
        (cleaned.code, cleaned.stdout.as_str()),
        (
            Some(0),
            "put back 2 messages and 0 failed messages that dying held\nforgot dying\n"
        ),
        "{}",
        cleaned.stderr
    );
    let status = runtime
        .block_on(Inspector::over(living.clone()).snapshot())
        .unwrap();
    assert_eq!(
        (
            status.published,
            status.pending,
            status.claimed,
            status.failed
        ),
        (6, 3, 2, 1)
    );
    assert!(status.balanced);
    assert_eq!(
        status
            .nodes
            .iter()
            .map(|node| node.node.as_str())
            .collect::<Vec<_>>(),
        ["living"]
    );

    let again = on(&server, &["clean"]);
    assert_eq!(
        again.stdout,
        "nothing to put back: no dead node held a message\nno dead node to forget\n"
    );
}

/// All are dead, and a clock that was a day ahead wrote the lease; since then the server has
/// restarted, so that absence proves nothing.
fn with_a_lease_until(server: &baton_server::PrivateServer, until_ms: u64) {
    let mut redis = redis::Client::open(server.url())
        .unwrap()
        .get_connection()
        .unwrap();
    redis::cmd("HSET")
        .arg("baton:{default:0}:generator")
        .arg(&[
            "node", "ghost", "epoch", "7", "since", "1", "run", "0ddba11",
        ])
        .arg(&["until", &until_ms.to_string()])
        .exec(&mut redis)
        .unwrap();
}

fn now_ms() -> u64 {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

#[test]
fn status_names_the_holder_of_a_lease_that_ends_tomorrow_and_clean_frees_it() {
    let server = server();
    with_a_lease_until(&server, now_ms() + 86_400_000);
    let status = on(&server, &["status"]);
    assert_eq!(status.code, Some(1), "{}", status.stdout);
    for words in ["ghost has the lease (epoch 7)", "a clock that was ahead"] {
        status.says(words);
    }
    let cleaned = on(&server, &["clean"]);
    assert_eq!(cleaned.code, Some(0), "{}", cleaned.stderr);
    cleaned.says("freed the lease that ghost had\n");
    let status = on(&server, &["status"]);
    assert_eq!(status.code, Some(0), "{}", status.stdout);
    status.says("none at this moment (last epoch 7)");
}

#[test]
fn a_lease_of_a_dead_holder_that_still_holds_is_named_with_its_end() {
    let server = server();
    with_a_lease_until(&server, now_ms() + 3_000_000);
    let status = on(&server, &["status"]);
    assert_eq!(status.code, Some(0), "{}", status.stdout);
    status.says("or at once with `baton clean`");
}

#[test]
fn status_names_a_value_that_is_no_number() {
    let server = server();
    let mut redis = redis::Client::open(server.url())
        .unwrap()
        .get_connection()
        .unwrap();
    for (key, field, named) in [
        ("baton:{default:0}:stats", "failed", "stats failed"),
        ("baton:{default:0}:fence", "last", "fence last"),
        ("baton:{default:0}:generator", "until", "generator until"),
    ] {
        let mut set = redis::cmd("HSET");
        set.arg(key).arg(field).arg("1.5").exec(&mut redis).unwrap();
        let status = on(&server, &["status"]);
        assert_eq!(status.code, Some(1), "{}", status.stdout);
        status.complains(named);
        let mut forget = redis::cmd("DEL");
        forget.arg(key).exec(&mut redis).unwrap();
    }
}
