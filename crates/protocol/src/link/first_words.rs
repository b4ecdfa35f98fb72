//! What a server says before it is asked anything. Only one that refuses a client does so:
//! because it has as many as it may have, or is in protected mode.

use std::time::Duration;

use redis::ConnectionAddr;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::{TcpStream, UnixStream};

use crate::Error;

/// Timeout of the first words; a server that has none stays silent.
const TIMEOUT: Duration = Duration::from_millis(300);
/// Longest refusal that is read, in bytes.
const LONGEST: u64 = 1024;

/// The refusal with which the server at this address greets a client, if it does. Over TLS it
/// says nothing.
pub(super) async fn of(address: &ConnectionAddr) -> Option<Error> {
    let listen = async {
        match address {
            ConnectionAddr::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await.ok()?;
                Some(read(stream).await)
            }
            ConnectionAddr::Unix(path) => Some(read(UnixStream::connect(path).await.ok()?).await),
            _ => None,
        }
    };
    let said = tokio::time::timeout(TIMEOUT, listen).await.ok()??;
    refusal(&said)
}

async fn read(stream: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut said = Vec::new();
    // What came before an error counts.
    let _ = stream.take(LONGEST).read_to_end(&mut said).await;
    said
}

/// Reads a first line that is an error of Redis.
fn refusal(said: &[u8]) -> Option<Error> {
    let line = said
        .strip_prefix(b"-")?
        .split(|byte| *byte == b'\r')
        .next()?;
    let line = String::from_utf8_lossy(line).into_owned();
    Some(match line.starts_with(crate::error::TOO_MANY_CLIENTS) {
        true => Error::Unavailable(line),
        false => Error::Refused(line),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_full_may_have_room_later_and_other_refusals_stay() {
        let full = refusal(b"-ERR max number of clients reached\r\n");
        assert!(
            matches!(&full, Some(Error::Unavailable(why)) if why == "ERR max number of clients reached"),
            "{full:?}"
        );
        let denied = refusal(b"-DENIED Redis is running in protected mode\r\n");
        assert!(matches!(denied, Some(Error::Refused(_))), "{denied:?}");
        for other in [&b""[..], b"220 smtp ready\r\n", b"+OK\r\n"] {
            assert!(refusal(other).is_none());
        }
    }
}
