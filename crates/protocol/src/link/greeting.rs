//! What a server sends before it gets a command. Only a server that refuses its client sends
//! something: it has too many clients, or is in protected mode.

use std::time::Duration;

use redis::ConnectionAddr;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::{TcpStream, UnixStream};

use crate::Error;

/// How long to wait for a refusal. A server that accepts its client sends nothing.
const TIMEOUT: Duration = Duration::from_millis(300);
/// Max bytes of a refusal that are read.
const MAX_BYTES: u64 = 1024;

/// The refusal with which the server at this address greets a client, if it does. Over TLS it
/// sends none.
pub(super) async fn refusal_of(address: &ConnectionAddr) -> Option<Error> {
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
    let greeting = tokio::time::timeout(TIMEOUT, listen).await.ok()??;
    refusal(&greeting)
}

async fn read(stream: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut greeting = Vec::new();
    // The bytes that came before an error count.
    let _ = stream.take(MAX_BYTES).read_to_end(&mut greeting).await;
    greeting
}

/// The error of Redis in the first line, if it is one.
fn refusal(greeting: &[u8]) -> Option<Error> {
    let line = greeting
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
