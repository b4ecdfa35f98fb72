//! Finds out why a connection failed: one side spoke TLS and the other did not. Neither side says so: the
//! server hangs up, or waits.

use std::sync::Arc;
use std::time::Duration;

use redis::ConnectionAddr;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Error;

/// How long to wait for an answer.
const TIMEOUT: Duration = Duration::from_millis(300);
/// The first byte of an answer with TLS: an alert or a handshake.
const TLS_ANSWERS: [u8; 2] = [21, 22];

/// Why no client that speaks (or does not speak) TLS as this address says can use the server there.
pub(super) async fn mismatch_at(address: &ConnectionAddr) -> Option<Error> {
    let why = match address {
        ConnectionAddr::Tcp(host, port) => {
            let answer = first_byte_of(host, *port, &client_hello()?).await?;
            TLS_ANSWERS.contains(&answer).then_some(
                "the server speaks TLS: use a URL that begins with rediss instead of redis",
            )
        }
        ConnectionAddr::TcpTls { host, port, .. } => {
            let answer = first_byte_of(host, *port, b"PING\r\n").await?;
            b"+-".contains(&answer).then_some(
                "the server speaks no TLS on this port: use its port for TLS, or a URL that begins \
                 with redis instead of rediss",
            )
        }
        _ => None,
    };
    // A server can learn TLS while a node waits.
    why.map(|why| Error::Unavailable(why.to_owned()))
}

async fn first_byte_of(host: &str, port: u16, question: &[u8]) -> Option<u8> {
    let ask = async {
        let mut stream = TcpStream::connect((host, port)).await.ok()?;
        stream.write_all(question).await.ok()?;
        stream.read_u8().await.ok()
    };
    tokio::time::timeout(TIMEOUT, ask).await.ok()?
}

/// The first message of a client that speaks TLS.
fn client_hello() -> Option<Vec<u8>> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .ok()?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").ok()?;
    let mut client = ClientConnection::new(Arc::new(config), name).ok()?;
    let mut hello = Vec::new();
    client.write_tls(&mut hello).ok()?;
    Some(hello)
}
