//! New connections to the service.

use std::io;
use std::sync::Arc;

use baton::HandlerError;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::connection::Connection;
use crate::tls_error;
use crate::url::PushUrl;
use crate::wire::{Departure, Wire};

/// Connects to the host of a URL.
pub(crate) struct Dialer {
    tls: Option<TlsConnector>,
}

impl Dialer {
    /// Connects with TLS if there is a configuration for it.
    pub(crate) fn new(tls: Option<Arc<ClientConfig>>) -> Self {
        Self {
            tls: tls.map(TlsConnector::from),
        }
    }

    /// A new connection. An error costs the message no attempt: the service has not seen it.
    pub(crate) async fn dial(&self, url: &PushUrl) -> Result<Connection, HandlerError> {
        let failed = |error: io::Error| {
            let reason = format!("cannot connect to {}: {error}", url.place());
            HandlerError::unavailable(reason)
        };
        let stream = TcpStream::connect((url.host.as_str(), url.port));
        let stream = stream.await.map_err(failed)?;
        // A request is one write. Waiting for more to send would only delay it.
        stream.set_nodelay(true).map_err(failed)?;
        let departure = Departure::default();
        let wire = Wire::new(stream, departure.clone());
        let opened = match (&self.tls, &url.tls_name) {
            (Some(tls), Some(name)) => {
                let encrypted = tls.connect(name.clone(), wire).await;
                let encrypted = encrypted.map_err(|error| untrusted(url, &error))?;
                Connection::open(encrypted, departure).await
            }
            _ => Connection::open(wire, departure).await,
        };
        opened.map_err(|error| failed(io::Error::other(error)))
    }
}

fn untrusted(url: &PushUrl, error: &io::Error) -> HandlerError {
    let place = url.place();
    let tls = error.get_ref().and_then(|error| error.downcast_ref());
    HandlerError::unavailable(match tls {
        Some(rustls::Error::InvalidCertificate(why)) => {
            let why = tls_error::distrust(why);
            format!("the certificate of {place} is not trusted: {why}")
        }
        Some(other) => format!("no TLS with {place}: {}", tls_error::words(other)),
        None => format!("no TLS with {place}: {error}"),
    })
}
