//! The failed messages on the page: searching them and, if actions are allowed, taking, dropping
//! and retrying them.
//!
//! `search` searches the errors store and remembers which messages it found. An action names such
//! a search and never touches a message that the search did not find. `takes` has the messages that
//! a person has saved as a file and not yet confirmed. `message` is a failed message as JSON, and
//! `turns` limits how many requests work on the store at a time.
//!
//! A remembered search is called `look` in the API.

mod message;
mod search;
mod takes;
mod turns;

use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use baton::Inspector;
use baton::inspect::Settlement;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::http::Refusal;
use crate::page::Page;
use message::MessageJson;
use search::{Choice, Matches, RecentSearches, Search, SearchResult};
use takes::{Takes, Verdict};
use turns::Turns;

/// A search lists this many messages by default, and at most this many.
const DEFAULT_LISTED: usize = 50;
const MAX_LISTED: usize = 200;

/// What the requests about failed messages share.
#[derive(Default)]
pub(crate) struct FailedMessages {
    searches: RecentSearches,
    takes: Arc<Takes>,
    /// Turns to search the store, to read one message, and to change the store.
    search_turns: Turns,
    read_turns: Turns,
    change_turns: Turns,
}

#[derive(Deserialize)]
pub(crate) struct SearchQuery {
    #[serde(default)]
    search: String,
    #[serde(default)]
    reason: String,
    limit: Option<usize>,
}

#[derive(Deserialize)]
pub(crate) struct MessageQuery {
    look: String,
}

/// Messages of a remembered search.
#[derive(Deserialize)]
struct Chosen {
    look: String,
    what: Choice,
}

#[derive(Deserialize)]
struct SettleRequest {
    #[serde(flatten)]
    chosen: Chosen,
    action: Action,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Drop,
    Retry,
}

#[derive(Deserialize)]
struct TakeAnswer {
    verdict: Verdict,
}

#[derive(Serialize)]
struct SearchAnswer {
    look: String,
    #[serde(flatten)]
    result: SearchResult,
}

/// Searches the failed messages and remembers what it found.
pub(crate) async fn search(
    State(page): State<Arc<Page>>,
    query: Result<Query<SearchQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(query) = query.map_err(|rejection| bad_request(&rejection.body_text()))?;
    let search = Search {
        text: query.search,
        reason: Some(query.reason).filter(|reason| !reason.is_empty()),
        limit: query.limit.unwrap_or(DEFAULT_LISTED).min(MAX_LISTED),
    };
    let _turn = page.failed.search_turns.take().await?;
    if page.allow_actions {
        // Frees what dead drains and takes had claimed. If this fails, the search goes on without.
        let _ = inspector(&page)?.reclaim().await;
    }
    let (matches, result) = search.run(&inspector(&page)?).await?;
    let look = page.failed.searches.remember(matches);
    Ok(Json(SearchAnswer { look, result }).into_response())
}

/// Sends one message of a search in full.
pub(crate) async fn message(
    State(page): State<Arc<Page>>,
    Path(id): Path<String>,
    query: Result<Query<MessageQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(query) = query.map_err(|rejection| bad_request(&rejection.body_text()))?;
    let matches = recall(&page, &query.look)?;
    let gone = || Refusal::new(StatusCode::NOT_FOUND, "this message is not there any more");
    let chosen = matches.choose(&Choice::Id(id)).into_iter().next();
    let chosen = chosen.ok_or_else(gone)?;
    let _turn = page.failed.read_turns.take().await?;
    let failed = inspector(&page)?.failed_message(chosen).await?;
    let failed = failed.ok_or_else(gone)?;
    Ok(Json(MessageJson::full(chosen, &failed.message)).into_response())
}

/// Claims messages of a search for a person who takes them.
pub(crate) async fn take(
    State(page): State<Arc<Page>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let Chosen { look, what } = parse(body)?;
    let chosen = recall(&page, &look)?.choose(&what);
    let _turn = page.failed.change_turns.take().await?;
    let begun = page.failed.takes.begin(&inspector(&page)?, &chosen).await?;
    Ok(Json(begun).into_response())
}

/// Sends the messages of a take as a file, one per line. A browser may ask for it again.
pub(crate) async fn take_file(
    State(page): State<Arc<Page>>,
    Path(take): Path<String>,
) -> Result<Response, Refusal> {
    let (name, lines) = page.failed.takes.file(&take).ok_or_else(|| {
        let why = "this take is over: the messages were removed or put back before";
        Refusal::new(StatusCode::GONE, why)
    })?;
    let headers = [
        (CONTENT_TYPE, "application/x-ndjson".to_owned()),
        (
            CONTENT_DISPOSITION,
            format!("attachment; filename=\"{name}\""),
        ),
        // Without this, nginx would read the whole file at once, and the server would take that for
        // a browser that has the whole file.
        (
            HeaderName::from_static("x-accel-buffering"),
            "no".to_owned(),
        ),
    ];
    Ok((headers, Body::from_stream(lines)).into_response())
}

/// Ends a take with the person's answer.
pub(crate) async fn end_take(
    State(page): State<Arc<Page>>,
    Path(take): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let TakeAnswer { verdict } = parse(body)?;
    Ok(Json(page.failed.takes.end(&take, verdict).await?).into_response())
}

/// Drops or retries messages of a search.
pub(crate) async fn settle(
    State(page): State<Arc<Page>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let SettleRequest { chosen, action } = parse(body)?;
    let chosen = recall(&page, &chosen.look)?.choose(&chosen.what);
    let _turn = page.failed.change_turns.take().await?;
    let inspector = inspector(&page)?;
    let settlement = match action {
        Action::Drop => inspector.drop(&chosen).await,
        Action::Retry => inspector.retry(&chosen).await,
    };
    let counts = counts(&settlement);
    match settlement.error {
        None => Ok(Json(counts).into_response()),
        Some(error) => {
            let answer = json!({ "error": error.to_string(), "so_far": counts });
            Ok((StatusCode::SERVICE_UNAVAILABLE, Json(answer)).into_response())
        }
    }
}

fn counts(settlement: &Settlement) -> Value {
    json!({
        "dropped": settlement.dropped,
        "retried": settlement.retried,
        "missing": settlement.missing,
        "unfit": settlement.unfit,
    })
}

fn inspector(page: &Page) -> Result<Inspector, Refusal> {
    page.watch.inspector().ok_or_else(|| {
        let trouble = page.watch.view().trouble.clone();
        let why = trouble.unwrap_or_else(|| "Redis has not answered yet".to_owned());
        Refusal(StatusCode::SERVICE_UNAVAILABLE, why)
    })
}

fn recall(page: &Page, look: &str) -> Result<Arc<Matches>, Refusal> {
    let why = "this look is too long ago: look again";
    let matches = page.failed.searches.recall(look);
    matches.ok_or_else(|| Refusal::new(StatusCode::GONE, why))
}

fn parse<T: DeserializeOwned>(body: Result<Bytes, BytesRejection>) -> Result<T, Refusal> {
    let body = body.map_err(|rejection| Refusal(rejection.status(), rejection.body_text()))?;
    serde_json::from_slice(&body).map_err(|error| bad_request(&error.to_string()))
}

fn bad_request(why: &str) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, why)
}
