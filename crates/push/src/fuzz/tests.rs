//! Replays the corpus of responses, and variations of it.

use super::*;
use replay::{corpus, replay};

/// What a runtime, hyper's buffers and the largest head may need beside the bytes.
const FIXED_BYTES: u64 = 1 << 20;
/// How many variations of the corpus are tried.
const VARIATIONS: u32 = 2000;

#[test]
fn any_response_has_an_outcome_or_none() {
    replay("response", response, FIXED_BYTES, VARIATIONS);
}

#[tokio::test]
async fn the_corpus_has_every_outcome() {
    let mut outcomes = Vec::new();
    for (name, data) in corpus("response") {
        let outcome = match answer(&data).await {
            None => "none".to_owned(),
            Some(Ok(effects)) if effects == Effects::default() => "done".to_owned(),
            Some(Ok(_)) => "effects".to_owned(),
            Some(Err(error)) => format!("{error:?}"),
        };
        outcomes.push((name, outcome));
    }
    for kind in [
        "none",
        "done",
        "effects",
        "Reject",
        "after: None",
        "after: Some",
    ] {
        let has = outcomes.iter().any(|(_, outcome)| outcome.contains(kind));
        assert!(has, "{kind}: {outcomes:#?}");
    }
}
