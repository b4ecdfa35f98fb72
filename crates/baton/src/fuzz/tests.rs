//! Replays the corpus of each kind of bytes, and random bytes.

use super::*;
use replay::{corpus, peak, replay};

/// What the parser of the client library reserves at most, whatever an array announces:
/// 4096 values on each of 100 levels.
const PARSER_BYTES: u64 = 100 * 4096 * size_of::<Value>() as u64;
/// What any check may need beside its bytes.
const FEW_BYTES: u64 = 256 << 10;
/// How many variations of a corpus are tried.
const VARIATIONS: u32 = 2000;

#[test]
fn every_call_understands_something_of_the_corpus() {
    let fleet = &FleetName::new("hostile").unwrap();
    let answers: Vec<Value> = corpus("reply")
        .iter()
        .filter_map(|(_, data)| redis::parse_redis_value(data).ok())
        .collect();
    let understood = |name: &str, understands: &dyn Fn(&Value) -> bool| {
        assert!(answers.iter().any(understands), "{name}");
    };
    understood("beat", &|answer| decode::beat(fleet, 1, answer).is_ok());
    understood("leave", &|answer| decode::leave(answer).is_ok());
    understood("free", &|answer| decode::free(answer).is_ok());
    understood("forget", &|answer| decode::forget(answer).is_ok());
    let reads = |answer: &Value, reads: &dyn Fn(&[Value]) -> bool| match answer {
        Value::Array(answers) => reads(answers),
        _ => false,
    };
    understood("roster", &|answer| {
        reads(answer, &|answers| {
            let roster = decode::roster(PRESENCE, answers);
            roster.is_ok_and(|roster| roster.nodes.iter().any(|node| node.present))
        })
    });
    understood("reading", &|answer| {
        reads(answer, &|answers| {
            let reading = decode::fleet_state(fleet, 1, PRESENCE, 3, answers);
            reading.is_ok_and(|reading| reading.census.balanced())
        })
    });
    understood("seal", &|answer| decode::seal("fence", answer).is_ok());
    understood("publish", &|answer| {
        decode::publish("publish", answer).is_ok()
    });
    understood("pause", &|answer| decode::pause(answer).is_ok());
    understood("claim", &|answer| {
        matches!(decode::claim(answer), Ok(Claim::Claimed { pack: ClaimedPack::Sent(pack), .. })
            if Pack::parse(&pack).is_ok())
    });
    understood("extend", &|answer| decode::extend(answer).is_ok());
    understood("commit", &|answer| decode::commit(answer).is_ok());
    understood("give_back", &|answer| decode::give_back(answer).is_ok());
    understood("reclaim", &|answer| decode::reclaim(answer).is_ok());
    understood("census", &|answer| {
        reads(answer, &|answers| {
            let census = decode::census(3, answers);
            census.is_ok_and(|census| census.balanced() && census.retried > 0 && census.claimed > 0)
        })
    });
    understood(
        "errors_claim",
        &|answer| matches!(decode::errors_claim(answer), Ok(ErrorsClaim::Claimed(ids)) if !ids.is_empty()),
    );
    understood("records", &|answer| {
        let records = decode::records(answer).unwrap_or_default();
        let seq = |record: &Option<Vec<u8>>| record.as_deref().map(seq_of);
        records.iter().any(|record| seq(record) > Some(0))
    });
    understood("error_ids", &|answer| decode::error_ids(answer).is_ok());
    understood("presence", &|answer| decode::are_present(answer).is_ok());
    understood("scanned", &|answer| decode::scanned(answer).is_ok());
    understood("errors_commit", &|answer| {
        decode::errors_commit(answer).is_ok()
    });
    understood("errors_settle", &|answer| {
        decode::errors_settle(answer).is_ok_and(|settled| settled.len() == 4)
    });
    understood("newest", &|answer| {
        let newest = decode::newest(answer).unwrap_or_default();
        newest.iter().any(|failed| failed.seq > 0 && failed.cut)
    });
    understood("takeovers", &|answer| {
        let lines = decode::lines(answer).unwrap_or_default();
        lines.iter().any(|line| decode::takeover(line).is_some())
    });
    understood("length", &|answer| decode::length(answer).is_ok());
    understood("lines", &|answer| {
        decode::lines(answer).is_ok_and(|lines| lines.iter().any(|l| Entry::parse(l).is_some()))
    });
    understood("preflight", &|answer| {
        matches!(decode::preflight(answer), Err(Error::Refused(_)))
    });
    understood("protocol", &|answer| {
        decode::protocol(fleet, answer).is_ok()
    });
    understood("key_type", &|answer| {
        decode::key_type("k", "hash", answer).is_ok()
    });
    understood("info", &|answer| {
        decode::info(answer).is_ok_and(|info| info.aof)
    });
    understood("setting", &|answer| decode::setting(answer).is_some());
}

#[test]
fn every_corpus_has_sound_bytes_and_others() {
    let mixed = |target: &str, is_sound: fn(&[u8]) -> bool| {
        let files = corpus(target);
        let sound = files.iter().filter(|(_, data)| is_sound(data)).count();
        assert!((1..files.len()).contains(&sound), "{target}: {sound} sound");
    };
    mixed("pack", |data| {
        Pack::parse(data).is_ok_and(|pack| pack.texts.len() > 1)
    });
    mixed("failed", |data| record::decode(data).seq > 0);
    mixed("ledger", |data| {
        let mut lines = data.split(|byte| *byte == b'\n');
        lines.any(|line| str::from_utf8(line).ok().and_then(Entry::parse).is_some())
    });
    mixed("url", |data| {
        Target::parse(&String::from_utf8_lossy(data)).is_ok()
    });
    mixed("info", |data| {
        let info = baton_protocol::ServerInfo::parse(&String::from_utf8_lossy(data));
        !info.run_id.is_empty()
    });
    mixed("about", |data| {
        serde_json::from_slice::<About>(data).is_ok_and(|about| about.pid > 0)
    });
    mixed("effects", |data| {
        Effects::parse_lines(data).is_ok_and(|effects| effects.len() > 1)
    });
    mixed("fleet_name", |data| {
        FleetName::new(&String::from_utf8_lossy(data)).is_ok()
    });
}

#[test]
fn any_pack_is_read_or_refused() {
    replay("pack", pack, FEW_BYTES, VARIATIONS);
}

#[test]
fn any_error_record_can_be_read_and_written_again() {
    replay("failed", failed, FEW_BYTES, VARIATIONS);
}

#[test]
fn any_reply_is_understood_or_refused_by_every_call() {
    replay("reply", reply, PARSER_BYTES + FEW_BYTES, VARIATIONS);
}

#[test]
fn reading_a_reply_takes_memory_for_what_is_there_and_not_for_what_is_announced() {
    for (name, data) in corpus("reply") {
        let Ok(answer) = redis::parse_redis_value(&data) else {
            continue;
        };
        let most = 64 * data.len() as u64 + FEW_BYTES;
        let peak = peak(|| read_all(&answer));
        assert!(peak <= most, "{name}: {peak} bytes");
    }
}

#[test]
fn any_ledger_is_audited() {
    replay("ledger", ledger, FEW_BYTES, VARIATIONS);
}

#[test]
fn a_ledger_of_more_messages_than_can_be_counted_is_audited() {
    ledger(
        "c a:0 1 9007199254740991 0 ff 1 1\n"
            .repeat(3000)
            .as_bytes(),
    );
    ledger(
        "c a:0 1 9007199254740991 9007199254740991 - 1 1\n"
            .repeat(3000)
            .as_bytes(),
    );
}

#[test]
fn any_url_is_parsed_or_refused_and_shows_no_password() {
    replay("url", url, FEW_BYTES, VARIATIONS);
}

#[test]
fn any_info_gives_the_facts_that_are_in_it() {
    replay("info", info, FEW_BYTES, VARIATIONS);
}

#[test]
fn anything_may_be_said_about_a_node() {
    replay("about", about, FEW_BYTES, VARIATIONS);
}

#[test]
fn any_name_of_a_fleet_is_refused_or_keeps_the_hash_tag() {
    replay("fleet_name", fleet_name, FEW_BYTES, VARIATIONS);
}

#[test]
fn any_lines_of_effects_are_staged_or_refused() {
    replay("effects", effects, FEW_BYTES, VARIATIONS);
}
