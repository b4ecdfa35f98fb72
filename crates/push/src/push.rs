//! The handler.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use baton::{Effects, Handler, HandlerError, Message};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::{HeaderMap, Method, Request, Response, Uri};
use tokio::time::{Instant, timeout_at};

use crate::connection::{Connection, Unanswered};
use crate::dialer::Dialer;
use crate::pool::Pool;
use crate::url::PushUrl;
use crate::{PushError, body, header_lines, response, roots};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const SEQ: HeaderName = HeaderName::from_static("baton-seq");
const PARTITION: HeaderName = HeaderName::from_static("baton-partition");
const ATTEMPT: HeaderName = HeaderName::from_static("baton-attempt");
const DEADLINE_MS: HeaderName = HeaderName::from_static("baton-deadline-ms");

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// A longer time has a mistaken unit, and clocks cannot hold any time.
const MAX_TIMEOUT: Duration = Duration::from_secs(366 * 24 * 3600);

/// A handler that posts each message to a URL.
///
/// **The request** has the exact bytes of the message as its body, and the headers
/// `Idempotency-Key` (the message's key, the same in every attempt), `Baton-Seq` (its number),
/// `Baton-Partition` (in which it has that number), `Baton-Attempt` (from 1 on) and `Baton-Deadline-Ms` (when the attempt ends, in ms since 1970).
///
/// **The answer** decides: 2xx is done. 408, 425, 429 and everything from 500 on: try again later,
/// no earlier than `Retry-After` says, which counts up to an hour. Every other status is a rejection;
/// redirects are not followed. A 2xx body of the type `application/x-baton-effects` has effects, see
/// [`Effects::parse_lines`].
///
/// **No answer**: if the service cannot have seen the request (no connection, no trusted
/// certificate), no attempt counts. If the connection breaks later or the time is over, the outcome
/// is unknown, and the message is tried again. The service tells repeated messages by their key.
///
/// It needs a tokio runtime with its time and network drivers.
pub struct Push {
    url: PushUrl,
    /// The target of each request: path and query.
    target: Uri,
    /// The headers of each request.
    headers: HeaderMap,
    timeout: Duration,
    dialer: Dialer,
    pool: Pool,
}

/// The settings of a [`Push`].
#[derive(Debug)]
pub struct PushBuilder {
    url: PushUrl,
    headers: HeaderMap,
    ca_pem: Option<Vec<u8>>,
    timeout: Duration,
}

impl PushBuilder {
    /// Adds headers to each request: lines such as `Authorization: Bearer …`.
    pub fn header_lines(mut self, lines: &[u8]) -> Result<Self, PushError> {
        self.headers = header_lines::parse(lines)?;
        Ok(self)
    }

    /// Trusts the authorities in this PEM file instead of the system's, and a service whose own
    /// certificate is in it. The URL must be `https://`.
    pub fn ca_pem(mut self, pem: &[u8]) -> Self {
        self.ca_pem = Some(pem.to_vec());
        self
    }

    /// How long one attempt may take, from the connection to the last byte of the response. The
    /// default is 60 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.min(MAX_TIMEOUT);
        self
    }

    /// The handler.
    pub fn build(self) -> Result<Push, PushError> {
        let tls = match (&self.url.tls_name, &self.ca_pem) {
            (Some(_), ca_pem) => Some(roots::client_config(ca_pem.as_deref())?),
            (None, None) => None,
            // A user who names an authority expects TLS, and this URL has none.
            (None, Some(_)) => {
                let problem = "only an https:// URL needs CA certificates".to_owned();
                return Err(PushError::Certificates(problem));
            }
        };
        let mut headers = HeaderMap::new();
        headers.insert(HOST, self.url.authority.clone());
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/octet-stream"),
        );
        let agent = concat!("baton/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        // A header of the user replaces ours of the same name.
        headers.extend(self.headers);
        Ok(Push {
            target: Uri::from(self.url.path.clone()),
            url: self.url,
            headers,
            timeout: self.timeout,
            dialer: Dialer::new(tls),
            pool: Pool::default(),
        })
    }
}

impl Push {
    /// Begins a handler that posts to this URL: `http://` or `https://`, without user and password.
    pub fn to(url: &str) -> Result<PushBuilder, PushError> {
        Ok(PushBuilder {
            url: PushUrl::parse(url)?,
            headers: HeaderMap::new(),
            ca_pem: None,
            timeout: DEFAULT_TIMEOUT,
        })
    }

    fn request(&self, message: &Message<'_>, body: Bytes, deadline_ms: u64) -> Sent {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.target.clone();
        let mut headers = self.headers.clone();
        // A key has no control characters: it always is a header's value.
        if let Ok(key) = HeaderValue::try_from(message.key().to_string()) {
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        headers.insert(SEQ, message.seq.into());
        headers.insert(PARTITION, message.partition.into());
        headers.insert(ATTEMPT, message.attempt.into());
        headers.insert(DEADLINE_MS, deadline_ms.into());
        *request.headers_mut() = headers;
        request
    }

    /// Sends a message and waits for the head of the response. A connection that the server closed
    /// before the request left costs nothing: the next one is tried.
    async fn send(
        &self,
        message: &Message<'_>,
        deadline: Instant,
    ) -> Result<(Connection, Response<Incoming>), HandlerError> {
        let body = Bytes::copy_from_slice(message.text);
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let deadline_ms = since_1970.unwrap_or_default() + self.timeout;
        let deadline_ms = u64::try_from(deadline_ms.as_millis()).unwrap_or(u64::MAX);
        let late = || humantime::format_duration(self.timeout);
        loop {
            let (mut connection, is_new) = match self.pool.take() {
                Some(connection) => (connection, false),
                None => {
                    let dialed = timeout_at(deadline, self.dialer.dial(&self.url)).await;
                    let dialed = dialed.unwrap_or_else(|_| {
                        let place = self.url.place();
                        let reason = format!("no connection to {place} within {}", late());
                        Err(HandlerError::unavailable(reason))
                    });
                    (dialed?, true)
                }
            };
            let request = self.request(message, body.clone(), deadline_ms);
            let answered = timeout_at(deadline, connection.send(request)).await;
            match answered {
                Ok(Ok(response)) => return Ok((connection, response)),
                Ok(Err(Unanswered::Unsent(_))) if !is_new => {}
                Ok(Err(Unanswered::Unsent(why))) => {
                    let reason = format!("{} took no request: {why}", self.url.place());
                    return Err(HandlerError::unavailable(reason));
                }
                Ok(Err(Unanswered::Sent(why))) => return Err(format!("no answer: {why}").into()),
                Err(_) => return Err(format!("no answer within {}", late()).into()),
            }
        }
    }
}

type Sent = Request<Full<Bytes>>;

impl Handler for Push {
    async fn handle(
        &self,
        message: Message<'_>,
        effects: &mut Effects,
    ) -> Result<(), HandlerError> {
        let deadline = Instant::now() + self.timeout;
        let (connection, answer) = self.send(&message, deadline).await?;
        let (head, body) = answer.into_parts();
        let keep = response::bytes_to_keep(head.status, &head.headers);
        let body = body::read(body, keep, deadline).await;
        if body.end == body::End::Complete {
            self.pool.put(connection);
        }
        *effects = response::outcome(head.status, &head.headers, &body)?;
        Ok(())
    }
}
