//! Messages that wait for their next attempt: commit moves them to `delayed`, reclaim returns them.

use std::time::Duration;

use baton_protocol::{
    Claim, Commit, CommitCall, Delay, GiveBack, Note, PackBuilder, Reclaimed, record,
};

use crate::support::{Fleet, Lane, commit_call, eventually, publish};

pub(crate) const SOON: Duration = Duration::from_millis(1);
const LATER: Duration = Duration::from_secs(60);

/// A message that is to be tried again. It is the first of its pack, or gets a pack of its own.
pub(crate) fn delay(seq: u64, first_of_pack: bool, wait: Duration) -> Delay {
    let note = Note {
        first_reason: format!("first of {seq}"),
        last_reason: format!("last of {seq}"),
    };
    let mut alone = PackBuilder::default();
    alone.push(format!("m{seq}").as_bytes());
    Delay {
        seq,
        delay: wait,
        note: note.encode(),
        pack: match first_of_pack {
            true => Vec::new(),
            false => alone.finish(1, "0123456789", 1),
        },
    }
}

async fn commit(w: &Lane, number: u64, ended: (u64, u64), delayed: &[Delay]) -> Commit {
    let outcomes = CommitCall {
        delayed,
        ..commit_call(ended.0..=ended.1, &[])
    };
    w.commit_outcomes(number, outcomes).await
}

/// Waits until messages that are due are back in the queue.
pub(crate) async fn wake(w: &Lane, count: u64) -> Reclaimed {
    let mut all = Reclaimed::default();
    eventually("delayed messages are back", async || {
        all.add(w.store.reclaim().await.unwrap());
        all.woken >= count
    })
    .await;
    assert_eq!(all.woken, count);
    all
}

#[tokio::test]
async fn delayed_messages_leave_the_claim_and_the_first_of_a_pack_stays_in_it() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(4).await;
    assert_eq!(w.take(1, 4).await, "m1 m2 m3 m4");
    let delayed = [delay(1, true, LATER), delay(3, false, LATER)];
    assert_eq!(commit(&w, 1, (1, 4), &delayed).await, Commit::Done);
    assert_eq!(
        fleet.dump().await,
        [
            "delayed: {1 4 1 1 1=TIME, 3 1 3 3 1=TIME}",
            "fence: {cursor=10, epoch=1, last=4, node=g}",
            "left: {1=1}",
            "notes: {1=first of 1, last of 1, 3=first of 3, last of 3}",
            "packs: {1=[m1 m2 m3 m4], 3=[m3]}",
            "stats: {done=2}",
            "workers: {w:0=1 1 4 TIME}",
        ]
    );
    let census = w.store.census().await.unwrap();
    assert_eq!((census.delayed, census.pending, census.claimed), (2, 0, 0));
    assert!(census.balanced() && census.next_due_ms.is_some());
    let before = fleet.dump().await;
    assert_eq!(commit(&w, 1, (1, 4), &delayed).await, Commit::Already);
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn a_message_that_is_due_is_at_the_head_of_the_queue_and_the_earliest_first() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(3).await;
    assert_eq!(w.take(1, 3).await, "m1 m2 m3");
    let delayed = [
        delay(1, true, LATER),
        delay(2, false, LATER),
        delay(3, false, LATER),
    ];
    assert_eq!(commit(&w, 1, (1, 3), &delayed).await, Commit::Done);
    assert!(publish(&g, 4, 1).await.is_written());
    for (due, range) in [("2", "1 3 1 1 1"), ("1", "2 1 2 2 1")] {
        fleet
            .write(&["ZADD", &fleet.keys.delayed, due, range])
            .await;
    }
    let woken = wake(&w, 2).await;
    assert_eq!((woken.messages, woken.nodes.len()), (0, 0), "none died");
    let next = woken.next_due.unwrap();
    assert!(next > LATER / 2 && next <= LATER, "{next:?}");
    assert_eq!(
        fleet.only("queue delayed").await,
        [
            "delayed: {3 1 3 3 1=TIME}",
            "queue: [2 1 2 2 1, 1 3 1 1 1, 4 1 4 4 0]",
        ]
    );
    assert_eq!(w.take(2, 9).await, "m2 (1)");
}

#[tokio::test]
async fn the_end_of_a_message_deletes_its_note_and_its_pack() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(2).await;
    assert_eq!(w.take(1, 2).await, "m1 m2");
    let delayed = [delay(1, true, SOON), delay(2, false, SOON)];
    assert_eq!(commit(&w, 1, (1, 2), &delayed).await, Commit::Done);
    let note = w.store.note(2).await.unwrap().unwrap();
    assert_eq!(note.first_reason, "first of 2");
    wake(&w, 2).await;
    assert_eq!(w.take(2, 1).await, "m1 (1)");
    assert_eq!(w.commit(2, 1..=1).await, Commit::Done);
    assert_eq!(w.take(3, 1).await, "m2 (1)");
    let again = [delay(2, true, LATER)];
    assert_eq!(commit(&w, 3, (2, 2), &again).await, Commit::Done);
    assert_eq!(
        fleet.only("delayed notes packs left").await,
        [
            "delayed: {2 1 2 2 2=TIME}",
            "notes: {2=first of 2, last of 2}",
            "packs: {2=[m2]}"
        ]
    );
}

#[tokio::test]
async fn delays_that_do_not_fit_the_claim_write_nothing() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(3).await;
    assert_eq!(w.take(1, 3).await, "m1 m2 m3");
    let before = fleet.dump().await;
    for wrong in [
        vec![delay(3, false, SOON)],
        vec![delay(2, false, SOON), delay(1, true, SOON)],
        vec![delay(1, true, SOON), delay(1, true, SOON)],
        vec![delay(1, true, SOON); 3],
    ] {
        assert_eq!(commit(&w, 1, (1, 2), &wrong).await, Commit::Lost);
    }
    assert_eq!(fleet.dump().await, before);
}

#[tokio::test]
async fn a_delayed_message_outlives_the_death_of_its_worker() {
    let fleet = Fleet::new().await;
    let (g, w) = fleet.with_messages(1).await;
    assert_eq!(w.take(1, 1).await, "m1");
    assert_eq!(
        commit(&w, 1, (1, 1), &[delay(1, true, SOON)]).await,
        Commit::Done
    );
    drop(w);
    let x = fleet.lane("x").await;
    wake(&x, 1).await;
    assert_eq!(x.take(1, 1).await, "m1 (1)");
    assert!(g.census().await.unwrap().balanced());
}

#[tokio::test]
async fn a_time_that_a_wrong_clock_made_counts_as_past() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(1).await;
    assert_eq!(w.take(1, 1).await, "m1");
    assert_eq!(
        commit(&w, 1, (1, 1), &[delay(1, true, LATER)]).await,
        Commit::Done
    );
    let day_ahead = (w.store.census().await.unwrap().now_ms + 86_400_000).to_string();
    fleet
        .write(&["ZADD", &fleet.keys.delayed, &day_ahead, "1 1 1 1 1"])
        .await;
    assert_eq!(wake(&w, 1).await.next_due, None);
    assert_eq!(w.take(2, 1).await, "m1 (1)");
}

#[tokio::test]
async fn what_no_script_wrote_into_delayed_goes_to_the_errors_store() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(1).await;
    fleet
        .write(&["ZADD", &fleet.keys.delayed, "1", "garbage"])
        .await;
    wake(&w, 1).await;
    assert_eq!(w.take(1, 1).await, "m1");
    let failures = w.failures().await;
    assert_eq!(failures.len(), 1);
    assert_eq!(record::decode(&failures[0].record).text, b"garbage");
}

#[tokio::test]
async fn a_slot_keeps_the_first_messages_of_its_claim_and_gives_back_the_others() {
    let fleet = Fleet::new().await;
    let (_g, w) = fleet.with_messages(4).await;
    assert_eq!(w.take(7, 4).await, "m1 m2 m3 m4");
    let keep = async |number, last| {
        let answer = w.store.give_back_after(&w.slot, number, last).await;
        answer.unwrap()
    };
    assert_eq!(keep(7, 2).await, GiveBack::Ok);
    let kept = ["claims: {w:0=m 7 RUN 1 4 1 2 0}", "queue: [1 4 3 4 0]"];
    assert_eq!(fleet.only("claims queue").await, kept);
    assert_eq!(keep(7, 2).await, GiveBack::Ok, "the same call again");
    for (number, last) in [(6, 1), (8, 1), (7, 0), (7, 3)] {
        assert_eq!(keep(number, last).await, GiveBack::Lost, "{number} {last}");
    }
    assert_eq!(fleet.only("claims queue").await, kept);
    assert_eq!(w.commit(7, 1..=2).await, Commit::Done);
    assert!(matches!(w.claim(8, 4).await, Claim::Claimed { .. }));
}
