//! Accepts connections and serves them, with limits on their number and on a client's slowness.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::Request;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::connections::{Connections, Place};
use super::write_timeout::WriteTimeout;

/// The server serves at most this many connections at a time.
const MAX_CONNECTIONS: usize = 256;
/// The whole head of a request must arrive within this time, also on an idle connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// A client must read some of its answer within this time.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest head of a request.
const MAX_HEAD_BYTES: usize = 32 << 10;
/// The pause after a failed accept, for example because no file descriptors are left. It is
/// shorter if the server could evict a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const EVICTED_PAUSE: Duration = Duration::from_millis(5);

/// Serves until the future is dropped; all connections end with it.
pub(crate) async fn serve(listener: std::net::TcpListener, router: Router) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let open = Connections::new(MAX_CONNECTIONS);
    let mut connections = JoinSet::new();
    loop {
        let (stream, address) = accept(&listener, &open).await;
        let place = open.admit(address.ip()).await;
        while connections.try_join_next().is_some() {}
        let router = router.clone();
        // A task per connection: a panic ends that connection and no other.
        connections.spawn(async move {
            tokio::select! {
                () = serve_connection(stream, router, Arc::clone(&place)) => {}
                () = place.evicted() => {}
            }
        });
    }
}

async fn accept(listener: &TcpListener, open: &Connections) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(_) if open.evict() => sleep(EVICTED_PAUSE).await,
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve_connection(stream: TcpStream, router: Router, place: Arc<Place>) {
    // Events are small, and a browser waits for each. The connection also works without this.
    let _ = stream.set_nodelay(true);
    let stalling = Arc::clone(&place);
    let on_stall = move |stalled| stalling.stalled(stalled);
    let stream = WriteTimeout::new(TokioIo::new(stream), WRITE_TIMEOUT, on_stall);
    let router = TowerToHyperService::new(router);
    let service = service_fn(async |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&place));
        let answer = hyper::service::Service::call(&router, request).await?;
        let place = Arc::clone(&place);
        Ok::<_, Infallible>(answer.map(|body| AnswerBody { body, place }))
    });
    // An error here means that the client went away or broke the protocol.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(stream, service)
        .await;
}

/// The body of an answer. After it the server waits for the client again.
struct AnswerBody {
    body: Body,
    place: Arc<Place>,
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        self.place.answered();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn ask(port: u16, path: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
            .await
            .unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        // A panic may reset the connection.
        let _ = stream.read_to_string(&mut answer).await;
        answer
    }

    #[tokio::test]
    async fn a_panic_ends_its_connection_and_no_other() {
        let router = Router::new()
            .route(
                "/panic",
                get(async || -> &'static str { panic!("on purpose") }),
            )
            .route("/", get(async || "fine"));
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = tokio::spawn(serve(listener, router));
        assert_eq!(ask(port, "/panic").await, "");
        let answer = ask(port, "/").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.ends_with("fine"), "{answer}");
        served.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_cut_off() {
        use hyper::rt::Write;
        let (near, _far) = tokio::io::duplex(1 << 10);
        let mut near = WriteTimeout::new(TokioIo::new(near), WRITE_TIMEOUT, |_| {});
        let mut write = async |bytes: &[u8]| {
            std::future::poll_fn(|cx| std::pin::Pin::new(&mut near).poll_write(cx, bytes)).await
        };
        let before = tokio::time::Instant::now();
        assert_eq!(write(&[0; 2 << 10]).await.unwrap(), 1 << 10);
        let error = write(&[0]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(before.elapsed() >= WRITE_TIMEOUT);
    }
}
