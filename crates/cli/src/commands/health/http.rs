//! One question to a node over HTTP.

use std::error::Error;
use std::net::SocketAddr;

use anyhow::{Context, anyhow, bail};
use baton_web::ANSWER_HEADER;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::http::response::Parts;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout_at;

use super::{Deadline, Question};

/// Max bytes of an answer: a node says no in a few lines.
const MAX_BODY_BYTES: usize = 64 << 10;

/// Asks a node or a page. Succeeds if it says yes; the error says why not.
pub(super) async fn ask(
    addr: SocketAddr,
    question: Question,
    deadline: Deadline,
) -> anyhow::Result<String> {
    let url = format!("http://{addr}{}", question.path());
    let answer = timeout_at(deadline.at, get(addr, question.path())).await;
    let Ok(answer) = answer else {
        bail!("{url} did not answer within {:?}", deadline.within);
    };
    let (head, body) = answer.with_context(|| format!("cannot ask {url}"))?;
    match head.status {
        StatusCode::OK
            if head
                .headers
                .get(ANSWER_HEADER)
                .is_some_and(|is| is == "yes") =>
        {
            Ok(url)
        }
        StatusCode::OK => bail!(
            "{url} answered, but not as Baton does: is that the address of `run --http` or `web --http`?"
        ),
        StatusCode::SERVICE_UNAVAILABLE => {
            let reasons: Vec<&str> = body.lines().collect();
            bail!("not {}: {url}: {}", question.word(), reasons.join("; "))
        }
        other => {
            bail!("{url} answered {other}: is that the address of `run --http` or `web --http`?")
        }
    }
}

/// Head and body of the answer to a GET.
async fn get(addr: SocketAddr, path: &str) -> anyhow::Result<(Parts, String)> {
    let stream = TcpStream::connect(addr).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async {
        // The request under way hears of an error, too.
        let _ = connection.await;
    });
    let request = Request::get(path).header(HOST, addr.to_string());
    let response = sender.send_request(request.body(Empty::<Bytes>::new())?);
    let response = response.await.map_err(|error| in_words(&error))?;
    let (head, body) = response.into_parts();
    let body = Limited::new(body, MAX_BODY_BYTES).collect();
    let body = body.await.map_err(|error| in_words(error.as_ref()))?;
    let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
    Ok((head, body))
}

/// The error and its first cause: hyper's own words often say little.
fn in_words(error: &(dyn Error + 'static)) -> anyhow::Error {
    match error.source() {
        Some(cause) => anyhow!("no HTTP answer: {error}: {cause}"),
        None => anyhow!("no HTTP answer: {error}"),
    }
}
