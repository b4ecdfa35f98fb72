//! What Sentinels say: where the master is, and that it moves.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::ConnectionInfo;
use tokio::task::JoinSet;

use super::connect::unreachable;
use super::locate::{Address, Locator, connect};
use crate::rights::SENTINEL_CHANNELS;
use crate::target::{Place, Target};
use crate::{Backoff, Error};

/// How long to wait for the other Sentinels when one has answered.
const OTHERS: Duration = Duration::from_millis(100);
/// Pauses between attempts to listen to a Sentinel: the first, and the longest.
const LISTEN_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// What one Sentinel says.
struct Answer {
    address: Address,
    /// Grows with each failover: a Sentinel that was cut off has an old one.
    epoch: u64,
}

/// The master's address, as the Sentinels with the newest knowledge have it.
pub(super) async fn master(
    target: &Target,
    sentinels: &[ConnectionInfo],
    name: &str,
) -> Result<Address, Error> {
    let asked = sentinels.iter().enumerate().map(async |(place, sentinel)| {
        let answer = ask(target, sentinel, name).await;
        (place, sentinel.addr().to_string(), answer)
    });
    let mut asked: FuturesUnordered<_> = asked.collect();
    let mut told = Vec::new();
    let mut is_known = false;
    loop {
        let next = match is_known {
            false => asked.next().await,
            true => tokio::time::timeout(OTHERS, asked.next())
                .await
                .unwrap_or(None),
        };
        let Some(next) = next else {
            break;
        };
        is_known |= next.2.is_ok();
        told.push(next);
    }
    decide(name, told)
}

/// What a Sentinel said: its place in the URL, its address, and its answer.
type Told = (usize, String, Result<Answer, Error>);

/// The master, after what each Sentinel said.
fn decide(name: &str, mut told: Vec<Told>) -> Result<Address, Error> {
    // The first answer may come from any Sentinel, and the same answers must give the same words.
    told.sort_by_key(|(place, ..)| *place);
    let known = told.iter().filter_map(|(.., answer)| answer.as_ref().ok());
    let Some(newest) = known.map(|answer| answer.epoch).max() else {
        return Err(unknown(name, told));
    };
    let mut votes: Vec<(Address, Vec<String>)> = Vec::new();
    for (_, sentinel, answer) in told {
        let Ok(answer) = answer else { continue };
        if answer.epoch < newest {
            continue;
        }
        match votes
            .iter_mut()
            .find(|(address, _)| *address == answer.address)
        {
            Some((_, voters)) => voters.push(sentinel),
            None => votes.push((answer.address, vec![sentinel])),
        }
    }
    votes.sort_by_key(|(_, voters)| std::cmp::Reverse(voters.len()));
    match &votes[..] {
        [(_, most), (_, next), ..] if most.len() == next.len() => {
            let each = votes.iter().map(|(address, voters)| {
                let voters = voters.join(" and ");
                format!("{address} (by {voters})")
            });
            let each: Vec<_> = each.collect();
            Err(Error::Unavailable(format!(
                "the Sentinels disagree about the master '{name}': it is {}; make sure that all of \
                 them watch the same servers",
                each.join(" or ")
            )))
        }
        _ => Ok(votes.swap_remove(0).0),
    }
}

/// Why no Sentinel names the master.
fn unknown(name: &str, told: Vec<Told>) -> Error {
    let errors = told
        .into_iter()
        .filter_map(|(_, sentinel, answer)| Some((sentinel, answer.err()?)));
    let errors: Vec<(String, Error)> = errors.collect();
    let problem = errors.iter().find_map(|(_, error)| match error {
        Error::Certificate { problem, .. } => Some(*problem),
        _ => None,
    });
    let is_silence = |(_, error): &(String, Error)| matches!(error, Error::Unavailable(_));
    let are_silent = errors.iter().all(is_silence);
    let errors = errors
        .into_iter()
        .map(|(sentinel, error)| match (error, problem) {
            // Said once for all.
            (Error::Certificate { detail, .. }, Some(_)) => format!("{sentinel}: {detail}"),
            (error, _) => format!("{sentinel}: {}", why(error)),
        });
    let errors = errors.collect::<Vec<_>>().join("; ");
    match problem {
        Some(problem) => Error::Certificate {
            problem,
            detail: errors,
        },
        None if are_silent => Error::Unavailable(format!("no Sentinel answers: {errors}")),
        None => Error::Unavailable(format!("no Sentinel names the master '{name}': {errors}")),
    }
}

async fn ask(target: &Target, sentinel: &ConnectionInfo, name: &str) -> Result<Answer, Error> {
    let fields = fields(target, sentinel, name).await?;
    let number = |name: &str| fields.get(name).and_then(|text| text.parse().ok());
    match (fields.get("ip"), number("port")) {
        (Some(host), Some(port)) => Ok(Answer {
            address: Address {
                host: host.clone(),
                port: u16::try_from(port).unwrap_or_default(),
            },
            epoch: number("config-epoch").unwrap_or_default(),
        }),
        _ => Err(Error::Unavailable("it names no address".to_owned())),
    }
}

/// What a Sentinel knows about the master of this name.
async fn fields(
    target: &Target,
    sentinel: &ConnectionInfo,
    name: &str,
) -> Result<HashMap<String, String>, Error> {
    let connected = connect(&target.sentinel_client(sentinel)?).await;
    let mut connection = connected.map_err(explained)?;
    let mut command = redis::cmd("SENTINEL");
    command.arg("MASTER").arg(name);
    let fields = command.query_async(&mut connection).await;
    fields.map_err(|error| explained(unreachable(error)))
}

/// What became of the question to one Sentinel.
#[derive(Debug, Clone)]
pub struct SentinelReport {
    /// Its address.
    pub sentinel: String,
    /// What it knows, or why it did not say.
    pub view: Result<SentinelView, String>,
}

/// What one Sentinel knows about the master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentinelView {
    /// The master's address.
    pub master: String,
    /// Its state, such as `master` or `master,s_down,o_down`.
    pub flags: String,
    /// How many Sentinels must miss the master before they replace it.
    pub quorum: u64,
    /// How many Sentinels there are, as far as this one knows.
    pub sentinels: u64,
    /// How many replicas the master has.
    pub replicas: u64,
}

/// Asks all Sentinels of a target, side by side.
pub(super) async fn reports(target: &Target) -> Vec<SentinelReport> {
    let Place::Sentinels { sentinels, master } = target.place() else {
        return Vec::new();
    };
    let asked = sentinels.iter().map(async |sentinel| {
        let fields = fields(target, sentinel, master).await;
        SentinelReport {
            sentinel: sentinel.addr().to_string(),
            view: fields.map(|fields| view(&fields)).map_err(why),
        }
    });
    futures_util::future::join_all(asked).await
}

fn view(fields: &HashMap<String, String>) -> SentinelView {
    let text = |name: &str| fields.get(name).map_or("", String::as_str);
    let number = |name: &str| text(name).parse().unwrap_or_default();
    let others: u64 = number("num-other-sentinels");
    SentinelView {
        master: format!("{}:{}", text("ip"), text("port")),
        flags: text("flags").to_owned(),
        quorum: number("quorum"),
        sentinels: others + 1,
        replicas: number("num-slaves"),
    }
}

/// A refusal in words that say what to do.
fn explained(error: Error) -> Error {
    match error {
        Error::Refused(why) if why.contains("No such master") => {
            Error::Refused("it watches no master of this name".to_owned())
        }
        Error::Refused(why) if why.contains("unknown command") => {
            Error::Refused("this is a server, not a Sentinel".to_owned())
        }
        Error::Refused(why)
            if ["NOAUTH", "WRONGPASS", "Password authentication failed"]
                .iter()
                .any(|words| why.starts_with(words)) =>
        {
            Error::Refused(
                "the Sentinel wants a user or password of its own: sentinel_user and \
                 sentinel_password in the URL name them"
                    .to_owned(),
            )
        }
        error => error,
    }
}

/// Why a Sentinel gave no answer, without the preamble of the error.
fn why(error: Error) -> String {
    match error {
        Error::Unavailable(why) | Error::Refused(why) => why,
        error => error.to_string(),
    }
}

/// Listens to all Sentinels of a target until it is dropped. Returns none if the target has none.
pub(super) fn listen(locator: &Arc<Locator>) -> Option<JoinSet<()>> {
    let Place::Sentinels { sentinels, master } = locator.target.place() else {
        return None;
    };
    let mut listeners = JoinSet::new();
    for sentinel in sentinels {
        let Ok(client) = locator.target.sentinel_client(sentinel) else {
            continue;
        };
        let (locator, master) = (Arc::clone(locator), master.clone());
        listeners.spawn(async move {
            let mut backoff = Backoff::new(LISTEN_PAUSE.0, LISTEN_PAUSE.1);
            loop {
                // Whatever ends it, a Sentinel that is back is heard again.
                let _ = listen_to(&client, &locator, &master, &mut backoff).await;
                tokio::time::sleep(backoff.pause()).await;
            }
        });
    }
    Some(listeners)
}

async fn listen_to(
    client: &redis::Client,
    locator: &Locator,
    master: &str,
    backoff: &mut Backoff,
) -> redis::RedisResult<()> {
    let mut events = client.get_async_pubsub().await?;
    events.subscribe(&SENTINEL_CHANNELS).await?;
    backoff.reset();
    let mut events = events.on_message();
    while let Some(event) = events.next().await {
        let words: String = event.get_payload()?;
        if let Some(address) = promoted(&words, master) {
            locator.promote(address);
        }
    }
    Ok(())
}

/// The server that an event promotes, if the event is about this master:
/// `slave 10.0.0.2:6379 10.0.0.2 6379 @ mymaster 10.0.0.1 6379` or
/// `mymaster 10.0.0.1 6379 10.0.0.2 6379`.
fn promoted(event: &str, master: &str) -> Option<Address> {
    let words: Vec<&str> = event.split(' ').collect();
    let (host, port) = match words[..] {
        ["slave", _, host, port, "@", name, ..] if name == master => (host, port),
        [name, _, _, host, port] if name == master => (host, port),
        _ => return None,
    };
    Some(Address {
        host: host.to_owned(),
        port: port.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(sentinel: &str, port: u16, epoch: u64) -> Told {
        let host = "10.0.0.1".to_owned();
        let address = Address { host, port };
        (0, sentinel.to_owned(), Ok(Answer { address, epoch }))
    }

    #[test]
    fn the_same_errors_give_the_same_words_in_whatever_order_they_come() {
        let silent = |place: usize| {
            let error = Error::Unavailable("refused".to_owned());
            (place, format!("h{place}"), Err(error))
        };
        for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
            let told = order.map(silent).into_iter().collect();
            let error = decide("m", told).unwrap_err().to_string();
            let words = "no Sentinel answers: h0: refused; h1: refused; h2: refused";
            assert!(error.ends_with(words), "{error}");
        }
    }

    #[test]
    fn the_newest_knowledge_wins_and_then_the_majority() {
        for (told, port) in [
            (vec![says("a", 1, 4), says("b", 2, 5), says("c", 1, 4)], 2),
            (vec![says("a", 1, 5), says("b", 2, 5), says("c", 2, 5)], 2),
            (vec![says("a", 1, 0)], 1),
        ] {
            assert_eq!(decide("m", told).unwrap().port, port);
        }
    }

    #[test]
    fn sentinels_that_disagree_are_named_with_what_they_say() {
        let told = vec![says("a", 1, 5), says("b", 2, 5), says("c", 3, 4)];
        let error = decide("m", told).unwrap_err();
        assert!(error.is_transient());
        let words = "disagree about the master 'm': it is 10.0.0.1:1 (by a) or 10.0.0.1:2 (by b)";
        assert!(error.to_string().contains(words), "{error}");
    }

    #[test]
    fn both_events_name_the_new_master_and_others_do_not_count() {
        let new = Address {
            host: "10.0.0.2".to_owned(),
            port: 6380,
        };
        for event in [
            "slave 10.0.0.2:6380 10.0.0.2 6380 @ mine 10.0.0.1 6379",
            "mine 10.0.0.1 6379 10.0.0.2 6380",
        ] {
            assert_eq!(promoted(event, "mine"), Some(new.clone()), "{event}");
            assert_eq!(promoted(event, "other"), None, "{event}");
        }
        for event in ["", "mine", "mine 10.0.0.1 6379 10.0.0.2 x"] {
            assert_eq!(promoted(event, "mine"), None, "{event}");
        }
    }
}
