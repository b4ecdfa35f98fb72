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

/// The master's address, as the Sentinel with the newest knowledge has it.
pub(super) async fn master(
    target: &Target,
    sentinels: &[ConnectionInfo],
    name: &str,
) -> Result<Address, Error> {
    let asked = sentinels.iter().map(async |sentinel| {
        let answer = ask(target, sentinel, name).await;
        answer.map_err(|error| format!("{}: {}", sentinel.addr(), why(error)))
    });
    let mut asked: FuturesUnordered<_> = asked.collect();
    let (mut best, mut errors): (Option<Answer>, Vec<String>) = (None, Vec::new());
    loop {
        let next = match best {
            None => asked.next().await,
            Some(_) => tokio::time::timeout(OTHERS, asked.next())
                .await
                .unwrap_or(None),
        };
        match next {
            Some(Ok(answer)) if best.as_ref().is_none_or(|best| best.epoch < answer.epoch) => {
                best = Some(answer);
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => errors.push(error),
            None => break,
        }
    }
    best.map(|best| best.address).ok_or_else(|| {
        let errors = errors.join("; ");
        Error::Unavailable(format!("no Sentinel knows the master '{name}': {errors}"))
    })
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
    let mut connection = connect(&target.sentinel_client(sentinel)?).await?;
    let mut command = redis::cmd("SENTINEL");
    command.arg("MASTER").arg(name);
    let fields = command.query_async(&mut connection).await;
    fields.map_err(unreachable)
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
