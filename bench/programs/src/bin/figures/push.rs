//! Push handlers: what Baton costs beside the same client without it.

use std::convert::Infallible;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use baton::{Effects, FleetName, Handler, Message, Target};
use baton_bench::ServerProbe;
use baton_figures::{TIMEOUT, runtime, server};
use baton_protocol::Keys;
use baton_push::Push;
use futures_util::future::try_join_all;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;

use crate::Rounds;
use crate::quiet_node::QuietNode;
use crate::report::{Report, quartiles};

/// Requests under way at the same time.
const LANES: usize = 16;
/// A text of the length that the random ones have on average.
const TEXT: [u8; 60] = [b'x'; 60];
/// How long one measurement takes.
const WINDOW: Duration = Duration::from_secs(2);

/// The rate of one worker ÷ the rate of the same client in a loop, on the same service by turns.
pub(crate) fn beside_its_client(program: &Path, rounds: Rounds, report: &mut Report) -> Result<()> {
    let url = start_service()?;
    let pairs = if rounds.whole_sizes { 5 } else { 1 };
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    for _ in 0..pairs {
        let alone = client_rate(&url)?;
        let ours = worker_rate(program, &url)?;
        ratios.push(ours / alone);
        rates.push(ours);
    }
    let ([low, median, high], [_, rate, _]) = (quartiles(&ratios), quartiles(&rates));
    report.add(
        "push ÷ the same client without Baton, 16 at a time",
        &format!("{median:.2} ({low:.2} to {high:.2}), {rate:.0} /s"),
        "≥ 0.80",
        median >= 0.8,
    );
    Ok(())
}

/// Starts a service that does nothing, on a thread of its own. Returns its URL.
fn start_service() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let url = format!("http://{}/job", listener.local_addr()?);
    let runtime = runtime()?;
    // It ends with this process.
    std::thread::spawn(move || runtime.block_on(serve(listener)));
    Ok(url)
}

async fn serve(listener: TcpListener) -> Result<Infallible> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let connection =
            http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer));
        tokio::spawn(connection);
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Empty<Bytes>>, hyper::Error> {
    request.into_body().collect().await?;
    let mut response = Response::new(Empty::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

/// Messages per second of the handler in a loop.
fn client_rate(url: &str) -> Result<f64> {
    let push = Push::to(url)?.build()?;
    let began = Instant::now();
    let lane = async || {
        let mut count: u64 = 0;
        while began.elapsed() < WINDOW {
            let message = Message::new(count + 1, &TEXT);
            let handled = push.handle(message, &mut Effects::default()).await;
            if let Err(error) = handled {
                bail!("the service failed: {error}");
            }
            count += 1;
        }
        Ok(count)
    };
    let counts = runtime()?.block_on(try_join_all((0..LANES).map(|_| lane())))?;
    let count: u64 = counts.iter().sum();
    Ok(count as f64 / began.elapsed().as_secs_f64())
}

/// Messages per second of a worker, beside its generator.
fn worker_rate(program: &Path, url: &str) -> Result<f64> {
    let server = server()?;
    let keys = Keys::new(&FleetName::new("default")?);
    let mut probe = ServerProbe::open(&Target::parse(&server.url())?)?;
    let args = format!("--push {url} --concurrency {LANES}");
    let generator = QuietNode::start(program, &server.url(), &args)?;
    let worker = QuietNode::start(program, &server.url(), &args)?;
    let deadline = Instant::now() + TIMEOUT;
    // All lanes are at work when each has ended some.
    while probe.counts(&keys)?.1 < 100 * LANES as u64 {
        if Instant::now() > deadline {
            bail!("no worker at full speed within {TIMEOUT:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let (began, before) = (Instant::now(), probe.counts(&keys)?.1);
    std::thread::sleep(WINDOW);
    let ended = probe.counts(&keys)?.1 - before;
    let rate = ended as f64 / began.elapsed().as_secs_f64();
    worker.stop().context("the worker")?;
    generator.stop().context("the generator")?;
    let failed: u64 = redis::cmd("HLEN").arg(&keys.errors).query(probe.redis())?;
    ensure!(failed == 0, "{failed} messages failed");
    Ok(rate)
}
