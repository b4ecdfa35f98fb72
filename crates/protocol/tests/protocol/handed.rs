//! The step that publishes messages claims some of them for an idle node, if no message waits before them.

use baton_protocol::bounds::{SMALL_PACK_BYTES, WAKING_PACK_BYTES};
use baton_protocol::{
    Claim, ClaimedPack, Commit, Digest, Extend, GiveBack, Handed, Part, Publish, PublishCall,
    Range, Ring, Store,
};

use crate::support::{Dump, EXPIRED, Fleet, LONG, Listener, pack, pack_of, publish, publish_call};

/// A generator, and an idle worker whose lane wants some messages.
struct Pair {
    fleet: Fleet,
    g: Store,
    w: Listener,
}

impl Pair {
    async fn new(want: u64) -> Self {
        let fleet = Fleet::new().await;
        let (g, w) = (fleet.generator().await, fleet.listener("w").await);
        let pair = Self { fleet, g, w };
        pair.sleep(want).await;
        pair
    }

    /// The lane of the worker finds no message.
    async fn sleep(&self, want: u64) {
        assert_eq!(self.w.lane.claim(1, want).await, Claim::Empty);
    }

    /// Publishes messages. Returns how many ranges wait with them.
    async fn publish(&self, first: u64, count: u64) -> u64 {
        waiting(publish(&self.g, first, count).await)
    }

    async fn publish_pack(&self, first: u64, count: u64, pack: &[u8]) -> u64 {
        let published = self.g.publish(publish_call(first, count, pack));
        waiting(published.await.unwrap())
    }

    /// What the server has handed over to the worker, and said nothing else.
    async fn handed(&mut self) -> Handed {
        let mut heard = self.w.heard(&self.fleet).await;
        assert_eq!(heard.len(), 1, "{heard:?}");
        let Ring { partition, handed } = heard.remove(0);
        assert_eq!(partition, 0);
        handed.unwrap()
    }

    /// Checks that the server has only said that messages wait.
    async fn is_only_rung(&mut self) {
        assert_eq!(self.w.heard(&self.fleet).await, [RUNG]);
    }

    async fn only(&self, keys: &str) -> Dump {
        self.fleet.only(keys).await
    }
}

const RUNG: Ring = Ring {
    partition: 0,
    handed: None,
};

fn waiting(published: Publish) -> u64 {
    match published {
        Publish::Ok { waiting } => waiting,
        other => panic!("{other:?}"),
    }
}

/// A pack of two messages that has exactly so many bytes.
fn pack_of_bytes(bytes: usize) -> Vec<u8> {
    let pack = (0..).map(|length| pack_of(&[vec![b'x'; bytes / 2], vec![b'y'; length]]));
    pack.into_iter().find(|pack| pack.len() >= bytes).unwrap()
}

#[tokio::test]
async fn a_lone_message_is_claimed_for_an_idle_node_and_committed_once() {
    let mut pair = Pair::new(1).await;
    assert_eq!(pair.publish(1, 1).await, 0, "no range waits");
    assert_eq!(
        pair.fleet.dump().await,
        [
            "claims: {w:handed=m TIME RUN 1 1 1 1 0}",
            "deadlines: {w:handed=TIME}",
            "fence: {cursor=10, epoch=1, last=1, node=g}",
            "packs: {1=[m1]}",
        ]
    );
    let handed = pair.handed().await;
    let number = handed.number;
    let expected = Handed {
        number,
        range: Range::parse("1 1 1 1 0").unwrap(),
        pack: ClaimedPack::Sent(pack(1, 1)),
        run_id: pair.fleet.run_id().await,
    };
    assert_eq!(handed, expected);
    let Pair { fleet, g, w } = &pair;
    let claim: String = fleet.raw(&["HGET", &fleet.keys.claims, "w:handed"]).await;
    let said = format!("m {number} {} 1 1 1 1 0", handed.run_id);
    assert_eq!(claim, said);
    assert_eq!(w.lane.store.handed_number().await.unwrap(), Some(number));
    // The number is the time in µs, and the claim lives as long as the generator says.
    let deadline: u64 = fleet
        .raw(&["ZSCORE", &fleet.keys.deadlines, "w:handed"])
        .await;
    let ttl_ms = u64::try_from(LONG.as_millis()).unwrap();
    assert_eq!(deadline, number / 1000 + ttl_ms);
    let (seconds, _): (u64, u64) = fleet.raw(&["TIME"]).await;
    assert!(seconds - number / 1_000_000 < 60, "{number}");
    let census = g.census().await.unwrap();
    assert!(census.balanced());
    assert_eq!((census.pending, census.claimed), (0, 1));

    let lane = w.handed_lane();
    assert_eq!(lane.extend(number).await, Extend::Held);
    assert_eq!(lane.commit(number, 1..=1).await, Commit::Done);
    assert_eq!(lane.commit(number, 1..=1).await, Commit::Already);
    let fence = "fence: {cursor=10, epoch=1, last=1, node=g}";
    let ended = ["stats: {done=1}", "workers: {w:handed=TIME 1 1 TIME}"];
    assert_eq!(fleet.dump().await, [fence, ended[0], ended[1]]);
}

#[tokio::test]
async fn a_pack_whose_messages_the_lane_all_wants_is_handed_over_whole() {
    for want in [3, 4, 1000] {
        let mut pair = Pair::new(want).await;
        assert_eq!(pair.publish(1, 3).await, 0);
        assert_eq!(
            pair.fleet.dump().await,
            [
                "claims: {w:handed=m TIME RUN 1 3 1 3 0}",
                "deadlines: {w:handed=TIME}",
                "fence: {cursor=10, epoch=1, last=3, node=g}",
                "packs: {1=[m1 m2 m3]}",
            ],
            "{want}"
        );
        let Handed {
            number,
            range,
            pack: sent,
            ..
        } = pair.handed().await;
        assert_eq!(Some(range), Range::parse("1 3 1 3 0"));
        assert_eq!(sent, ClaimedPack::Sent(pack(1, 3)));
        let lane = pair.w.handed_lane();
        assert_eq!(lane.commit(number, 1..=2).await, Commit::Done);
        assert_eq!(lane.commit(number, 3..=3).await, Commit::Done);
        assert_eq!(
            pair.only("claims deadlines left packs queue stats").await,
            ["stats: {done=3}"]
        );
    }
}

#[tokio::test]
async fn of_a_pack_the_node_gets_what_its_lane_wants_and_the_rest_rings_for_the_next_node() {
    let mut pair = Pair::new(2).await;
    let mut x = pair.fleet.listener("x").await;
    assert_eq!(x.lane.claim(1, 9).await, Claim::Empty);
    let dead = format!("dead@{}", pair.fleet.run_id().await);
    pair.fleet.add_idle("8e12", &dead).await;
    // The first pack makes numbers that differ from places in the pack.
    assert_eq!(pair.publish(1, 1).await, 0);
    assert_eq!(pair.handed().await.range.first, 1);
    let lane = pair.w.handed_lane();
    let number = lane.store.handed_number().await.unwrap().unwrap();
    assert_eq!(lane.commit(number, 1..=1).await, Commit::Done);
    pair.fleet.add_idle("5.001953125", &pair.w.sleeper()).await;

    assert_eq!(pair.publish(2, 5).await, 1, "the rest waits");
    assert_eq!(
        pair.fleet.dump().await,
        [
            "claims: {w:handed=m TIME RUN 2 5 2 3 0}",
            "deadlines: {w:handed=TIME}",
            "fence: {cursor=20, epoch=1, last=6, node=g}",
            "idle: {dead@RUN=TIME}",
            "packs: {2=[m2 m3 m4 m5 m6]}",
            "queue: [2 5 4 6 0]",
            "stats: {done=1}",
            "workers: {w:handed=TIME 1 1 TIME}",
        ]
    );
    let Handed {
        number,
        range,
        pack: sent,
        ..
    } = pair.handed().await;
    assert_eq!(Some(range), Range::parse("2 5 2 3 0"));
    assert_eq!(sent, ClaimedPack::Sent(pack(2, 5)), "a small pack");
    assert_eq!(x.heard(&pair.fleet).await, [RUNG]);

    assert_eq!(lane.commit(number, 2..=3).await, Commit::Done);
    assert_eq!(x.lane.take(1, 9).await, "m4 m5 m6");
    assert_eq!(
        pair.only("claims left packs queue").await,
        [
            "claims: {x:0=m 1 RUN 2 5 4 6 0}",
            "left: {2=3}",
            "packs: {2=[m2 m3 m4 m5 m6]}",
        ]
    );
    assert_eq!(x.lane.commit(1, 4..=6).await, Commit::Done);
    assert_eq!(
        pair.only("claims left packs queue stats").await,
        ["stats: {done=6}"]
    );
    assert!(pair.g.census().await.unwrap().balanced());
}

#[tokio::test]
async fn a_node_is_idle_with_exactly_what_its_lane_wants() {
    for want in [1, 2, 3, 7, 333, 512, 998, 999, 1000] {
        let mut pair = Pair::new(want).await;
        let waiting = pair.publish(1, 1000).await;
        let range = pair.handed().await.range;
        assert_eq!((range.first, range.last), (1, want));
        assert_eq!(waiting, u64::from(want < 1000));
        let rest = format!("queue: [1 1000 {} 1000 0]", want + 1);
        let queue = [rest.as_str()];
        match want {
            1000 => assert_eq!(pair.only("queue").await, [""; 0]),
            _ => assert_eq!(pair.only("queue").await, queue),
        }
    }
}

#[tokio::test]
async fn the_node_that_is_idle_longest_gets_the_messages() {
    let fleet = Fleet::new().await;
    let g = fleet.generator().await;
    let [mut a, mut b] = [fleet.listener("a").await, fleet.listener("b").await];
    fleet.add_idle("4.9765625", &b.sleeper()).await;
    fleet.add_idle("5.0009765625", &a.sleeper()).await;
    assert_eq!(waiting(publish(&g, 1, 2).await), 0);
    assert_eq!(b.heard(&fleet).await.len(), 1);
    assert_eq!(fleet.only("idle").await, ["idle: {a@RUN=5 wants 1}"]);
    assert_eq!(waiting(publish(&g, 3, 1).await), 0);
    assert_eq!(a.heard(&fleet).await.len(), 1);
    assert_eq!(
        fleet.only("claims idle queue").await,
        ["claims: {a:handed=m TIME RUN 3 1 3 3 0, b:handed=m TIME RUN 1 2 1 2 0}"]
    );
}

/// How a pack of two messages, which has so many bytes, comes to a node whose lane wants so many.
async fn handed_pack(bytes: usize, want: u64) -> (Pair, Handed, Vec<u8>) {
    let mut pair = Pair::new(want).await;
    let pack = pack_of_bytes(bytes);
    assert_eq!(pack.len(), bytes);
    let waiting = pair.publish_pack(1, 2, &pack).await;
    assert_eq!(waiting, u64::from(want == 1));
    let handed = pair.handed().await;
    (pair, handed, pack)
}

#[tokio::test]
async fn a_large_pack_comes_along_if_the_lane_wants_all_of_it_and_it_is_not_too_large() {
    for bytes in [SMALL_PACK_BYTES, SMALL_PACK_BYTES + 1, WAKING_PACK_BYTES] {
        let (_pair, handed, pack) = handed_pack(bytes, 2).await;
        assert_eq!(Some(handed.range), Range::parse("1 2 1 2 0"));
        assert_eq!(handed.pack, ClaimedPack::Sent(pack), "{bytes}");
    }
    let (pair, handed, pack) = handed_pack(WAKING_PACK_BYTES + 1, 2).await;
    assert_eq!(Some(handed.range), Range::parse("1 2 1 2 0"));
    assert_eq!(handed.pack, ClaimedPack::Whole);
    let lane = pair.w.handed_lane();
    assert_eq!(lane.pack_of(&handed.range, &handed.pack).await, pack);
    assert_eq!(lane.commit(handed.number, 1..=2).await, Commit::Done);
    assert_eq!(pair.only("claims packs staged queue").await, [""; 0]);
}

#[tokio::test]
async fn of_a_part_of_a_large_pack_the_node_hears_only_to_which_data_it_belongs() {
    let (_pair, handed, pack) = handed_pack(SMALL_PACK_BYTES, 1).await;
    assert_eq!(handed.pack, ClaimedPack::Sent(pack), "a small one");
    for bytes in [SMALL_PACK_BYTES + 1, WAKING_PACK_BYTES + 1] {
        let (pair, handed, pack) = handed_pack(bytes, 1).await;
        assert_eq!(Some(handed.range), Range::parse("1 2 1 1 0"));
        let fence = &pair.fleet.keys.fence;
        let born: String = pair.fleet.raw(&["HGET", fence, "born"]).await;
        assert!(!born.is_empty());
        let part = ClaimedPack::Part { born };
        assert_eq!(handed.pack, part, "{bytes}");
        // A claim of the rest says the same.
        let Claim::Claimed { range, pack: rest } = pair.w.lane.claim(2, 1).await else {
            panic!("nothing was claimed");
        };
        assert_eq!((Some(range), rest), (Range::parse("1 2 2 2 0"), part));
        let read = pair.w.lane.store.pack(handed.range.pack).await.unwrap();
        assert_eq!(read, Some(pack));
    }
}

#[tokio::test]
async fn messages_behind_others_wait_in_the_queue() {
    let fleet = Fleet::new().await;
    let g = fleet.generator_of(1).await;
    let w = fleet.listener("w").await;
    fleet.make_idle(&["w"]).await;
    let mut pair = Pair { fleet, g, w };
    assert_eq!(pair.publish(2, 1).await, 2);
    pair.is_only_rung().await;
    assert_eq!(
        pair.fleet.dump().await,
        [
            "fence: {cursor=20, epoch=1, last=2, node=g}",
            "packs: {1=[m1], 2=[m2]}",
            "queue: [1 1 1 1 0, 2 1 2 2 0]",
        ]
    );
}

#[tokio::test]
async fn no_message_is_handed_over_while_the_workers_are_paused() {
    let mut pair = Pair::new(1).await;
    let _ = pair.g.pause(&[Part::Workers]).await.unwrap();
    assert_eq!(pair.publish(1, 1).await, 1);
    pair.is_only_rung().await;
    let queue = "queue: [1 1 1 1 0]";
    assert_eq!(pair.only("claims deadlines idle queue").await, [queue]);
    let _ = pair.g.resume(&[Part::Workers]).await.unwrap();
    assert_eq!(pair.w.lane.take(2, 1).await, "m1");
    pair.fleet.make_idle(&["w"]).await;
    assert_eq!(pair.publish(2, 1).await, 0, "after the pause");
}

#[tokio::test]
async fn a_node_that_has_handed_messages_is_only_rung_for_the_next_ones() {
    let mut pair = Pair::new(1).await;
    let mut x = pair.fleet.listener("x").await;
    assert_eq!(pair.publish(1, 1).await, 0);
    let first = pair.handed().await;
    pair.fleet.make_idle(&["w", "x"]).await;
    assert_eq!(pair.publish(2, 1).await, 1);
    pair.is_only_rung().await;
    assert_eq!(x.heard(&pair.fleet).await, [], "the next one");
    let store = &pair.w.lane.store;
    assert_eq!(store.handed_number().await.unwrap(), Some(first.number));
    assert_eq!(
        pair.only("claims deadlines idle queue").await,
        [
            "claims: {w:handed=m TIME RUN 1 1 1 1 0}",
            "deadlines: {w:handed=TIME}",
            "idle: {x@RUN=2 wants 1}",
            "queue: [2 1 2 2 0]",
        ]
    );
}

#[tokio::test]
async fn messages_for_an_absent_node_wait_for_the_next() {
    let fleet = Fleet::new().await;
    let (g, w) = (fleet.generator().await, fleet.listener("w").await);
    fleet.make_idle(&["dead", "w"]).await;
    let mut pair = Pair { fleet, g, w };
    assert_eq!(pair.publish(1, 3).await, 1);
    pair.is_only_rung().await;
    let waits = [
        "fence: {cursor=10, epoch=1, last=3, node=g}",
        "packs: {1=[m1 m2 m3]}",
        "queue: [1 3 1 3 0]",
    ];
    assert_eq!(pair.fleet.dump().await, waits);

    // A ring passes over 16 nodes that are absent.
    pair.fleet.write(&["DEL", &pair.fleet.keys.queue]).await;
    let dead = (10..30).map(|number| format!("d{number}"));
    pair.fleet.make_idle(&dead.collect::<Vec<_>>()).await;
    assert_eq!(pair.publish(4, 1).await, 1);
    assert_eq!(
        pair.only("claims deadlines idle queue").await,
        [
            "idle: {d26@RUN=17 wants 1, d27@RUN=18 wants 1, d28@RUN=19 wants 1, d29@RUN=20 wants 1}",
            "queue: [4 1 4 4 0]",
        ]
    );
}

#[tokio::test]
async fn a_client_that_watches_all_channels_makes_no_dead_node_present() {
    let fleet = Fleet::new().await;
    let (g, mut w) = (fleet.generator().await, fleet.listener("w").await);
    let _watcher = fleet.watch_channels().await;
    fleet.make_idle(&["dead", "dying", "w"]).await;
    assert_eq!(waiting(publish(&g, 1, 1).await), 1);
    assert_eq!(w.heard(&fleet).await, [RUNG], "behind two that are dead");
    let queue = "queue: [1 1 1 1 0]";
    assert_eq!(fleet.only("claims idle queue").await, [queue]);
}

#[tokio::test]
async fn a_score_that_no_script_wrote_is_read_as_a_wish_of_one_message_at_least() {
    for (score, last) in [
        ("-inf", 1),
        ("-1e300", 1),
        ("-1.5", 3),
        ("-0", 1),
        ("0.0001", 1),
        ("0.002", 2),
        ("7", 1),
        ("7.9999", 3),
        ("1e300", 1),
        ("inf", 1),
    ] {
        let fleet = Fleet::new().await;
        let (g, w) = (fleet.generator().await, fleet.listener("w").await);
        fleet.add_idle(score, &w.sleeper()).await;
        let mut pair = Pair { fleet, g, w };
        let waiting = pair.publish(1, 3).await;
        let range = pair.handed().await.range;
        assert_eq!((range.first, range.last), (1, last), "{score}");
        assert_eq!(waiting, u64::from(last < 3));
        let census = pair.g.census().await.unwrap();
        assert!(census.balanced());
        assert_eq!((census.pending, census.claimed), (3 - last, last));
    }
}

#[tokio::test]
async fn a_plain_name_in_idle_gets_no_messages_even_if_its_node_is_present() {
    let fleet = Fleet::new().await;
    let (g, w) = (fleet.generator().await, fleet.listener("w").await);
    fleet.add_idle("1.5", "w").await;
    let mut pair = Pair { fleet, g, w };
    assert_eq!(pair.publish(1, 1).await, 1);
    assert_eq!(pair.w.heard(&pair.fleet).await, []);
    let queue = "queue: [1 1 1 1 0]";
    assert_eq!(pair.only("claims deadlines idle queue").await, [queue]);
}

#[tokio::test]
async fn a_repeated_publish_hands_over_nothing_again() {
    let mut pair = Pair::new(2).await;
    assert_eq!(pair.publish(1, 3).await, 1);
    assert_eq!(pair.handed().await.range.last, 2);
    pair.fleet.make_idle(&["w"]).await;
    let before = pair.fleet.dump().await;
    let again = publish(&pair.g, 1, 3).await;
    assert_eq!(again, Publish::Already { last: 3 });
    assert_eq!(pair.fleet.dump().await, before);
    // And neither when the messages have ended.
    let lane = pair.w.handed_lane();
    let number = lane.store.handed_number().await.unwrap().unwrap();
    assert_eq!(lane.commit(number, 1..=2).await, Commit::Done);
    pair.fleet.write(&["DEL", &pair.fleet.keys.queue]).await;
    let before = pair.fleet.dump().await;
    let again = publish(&pair.g, 1, 3).await;
    assert_eq!(again, Publish::Already { last: 3 });
    assert_eq!(pair.fleet.dump().await, before);
    assert_eq!(pair.w.heard(&pair.fleet).await, []);
}

#[tokio::test]
async fn a_publish_that_writes_no_message_hands_over_nothing() {
    let mut pair = Pair::new(2).await;
    let before = pair.fleet.dump().await;
    let small = pack(1, 1);
    let call = publish_call(1, 1, &small);
    let refused = [
        PublishCall { epoch: 2, ..call },
        PublishCall { first: 2, ..call },
        PublishCall {
            max_pending: 0,
            ..call
        },
    ];
    for call in refused {
        let answer = pair.g.publish(call).await.unwrap();
        assert!(!answer.is_written(), "{answer:?}");
        assert_eq!(pair.fleet.dump().await, before, "{answer:?}");
    }
    let large = pack_of_bytes(SMALL_PACK_BYTES + 1);
    let gone = PublishCall {
        is_staged: true,
        ..publish_call(1, 2, &large)
    };
    assert_eq!(pair.g.publish(gone).await.unwrap(), Publish::Missing);
    assert_eq!(pair.fleet.dump().await, before);
    let _ = pair.g.pause(&[Part::Generator]).await.unwrap();
    assert_eq!(publish(&pair.g, 1, 1).await, Publish::Paused);
    let _ = pair.g.resume(&[Part::Generator]).await.unwrap();
    assert_eq!(pair.fleet.dump().await, before);
    let cursor_alone = publish_call(1, 0, b"");
    assert!(pair.g.publish(cursor_alone).await.unwrap().is_written());
    assert_eq!(
        pair.fleet.dump().await,
        [
            "fence: {cursor=10, epoch=1, node=g}",
            "idle: {w@RUN=TIME wants 2}",
        ]
    );
    assert_eq!(pair.w.heard(&pair.fleet).await, []);
}

#[tokio::test]
async fn the_ledger_of_an_audited_fleet_does_not_show_where_messages_went() {
    let digest = Digest::of(0, b"m1");
    let mut ledgers = Vec::new();
    for (want, waits) in [(Some(2), 0), (Some(1), 1), (None, 1)] {
        let fleet = Fleet::new().await;
        let (g, w) = (fleet.generator().await, fleet.listener("w").await);
        if let Some(want) = want {
            assert_eq!(w.lane.claim(1, want).await, Claim::Empty);
        }
        let pack = pack(1, 2);
        let call = PublishCall {
            digest: Some(digest),
            ..publish_call(1, 2, &pack)
        };
        assert_eq!(waiting(g.publish(call).await.unwrap()), waits);
        ledgers.push(format!("{:?}", fleet.only("ledger").await));
    }
    assert!(ledgers[0].contains(&format!("[p 1 1 2 {digest} TIME]")));
    assert!(ledgers.iter().all(|it| *it == ledgers[0]), "{ledgers:?}");
}

#[tokio::test]
async fn handed_messages_go_back_without_blame_and_with_it_if_their_claim_expires() {
    let mut pair = Pair::new(2).await;
    assert_eq!(pair.w.lane.store.handed_number().await.unwrap(), None);
    assert_eq!(pair.publish(1, 3).await, 1);
    let Handed { number, .. } = pair.handed().await;
    let lane = pair.w.handed_lane();
    assert_eq!(lane.give_back(number).await, GiveBack::Ok);
    let keys = "claims deadlines queue workers";
    assert_eq!(
        pair.only(keys).await,
        [
            "queue: [1 3 1 2 0, 1 3 3 3 0]",
            "workers: {w:handed=TIME 0 0 TIME}",
        ]
    );
    assert_eq!(lane.commit(number, 1..=2).await, Commit::Lost);

    pair.fleet.write(&["DEL", &pair.fleet.keys.queue]).await;
    pair.sleep(2).await;
    let pack = pack(4, 2);
    let call = PublishCall {
        claim_ttl: EXPIRED,
        ..publish_call(4, 2, &pack)
    };
    assert_eq!(waiting(pair.g.publish(call).await.unwrap()), 0);
    assert_eq!(pair.g.reclaim().await.unwrap().nodes, ["w"]);
    // The node is present, so it did not die.
    assert_eq!(
        pair.only("claims deadlines queue").await,
        ["queue: [4 2 4 5 1]"]
    );
}

#[tokio::test]
async fn handed_messages_of_a_node_that_died_come_back_with_its_name() {
    let Pair { fleet, g, w } = Pair::new(2).await;
    assert_eq!(waiting(publish(&g, 1, 2).await), 0);
    drop(w);
    fleet.wait_absent("w").await;
    assert_eq!(g.reclaim().await.unwrap().nodes, ["w"]);
    assert_eq!(
        fleet.only("claims deadlines queue").await,
        ["queue: [1 2 1 2 1 TIME RUN w]"]
    );
    let x = fleet.lane("x").await;
    let taken = x.take(1, 2).await;
    assert_eq!(taken, "m1 m2 (1)");
}

#[tokio::test]
async fn a_staged_pack_that_another_program_replaced_is_handed_over_as_one_that_is_gone() {
    let mut pair = Pair::new(2).await;
    let large = pack_of_bytes(SMALL_PACK_BYTES + 1);
    let staged = format!("{}g:1", pair.fleet.keys.staged);
    pair.fleet.write(&["LPUSH", &staged, "foreign"]).await;
    pair.fleet.write(&["EXPIRE", &staged, "60"]).await;
    let call = PublishCall {
        is_staged: true,
        ..publish_call(1, 2, &large)
    };
    assert!(pair.g.publish(call).await.unwrap().is_written());
    let handed = pair.handed().await;
    assert_eq!(handed.pack, ClaimedPack::Whole);
    assert!(pair.g.census().await.unwrap().balanced());
    // As with messages that waited, the node finds no pack, and gives them back.
    assert_eq!(pair.w.lane.store.pack(1).await.unwrap(), None);
    let given_back = pair.w.handed_lane().give_back(handed.number).await;
    assert_eq!(given_back, GiveBack::Ok);
    pair.sleep(2).await;
    assert_eq!(pair.only("queue stats").await, ["stats: {foreign=1}"]);
}
