//! `baton clean`.

use std::time::Duration;

use baton::Snapshot;
use baton::protocol::{Claim, ClaimCall, Slot, Store};
use baton::{FleetName, Target};

use crate::seed::{Seed, texts};
use crate::support::{on, server};

#[test]
fn what_the_dead_held_is_put_back_and_they_are_forgotten() {
    let server = server();
    let mut seed = Seed::new(&server);
    seed.fail(&texts(1..=1));
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
            let _ = store.beat(ttl, "{}", 0).await.unwrap();
            let slot = &Slot::new(store.node(), 0);
            let (number, want) = (1, 2);
            let claim = store
                .claim(ClaimCall {
                    slot,
                    number,
                    want,
                    ttl,
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
    let status = runtime.block_on(Snapshot::read(&living)).unwrap();
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
