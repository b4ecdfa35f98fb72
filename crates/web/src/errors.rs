//! The failed messages on the page: looking at them, and, where it is allowed, taking,
//! dropping and retrying them.

use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use baton::Inspector;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::answer::Refusal;
use crate::look::{self, Found, Look, Wanted, What};
use crate::page::Page;
use crate::record::Shown;
use crate::settle::Outcome;
use crate::takes::Verdict;

/// Messages that a look shows unless it is told otherwise, and at most.
const LIMIT: (usize, usize) = (50, 200);

#[derive(Deserialize)]
pub(crate) struct LookQuery {
    #[serde(default)]
    search: String,
    #[serde(default)]
    reason: String,
    limit: Option<usize>,
}

#[derive(Deserialize)]
pub(crate) struct OneQuery {
    look: String,
}

#[derive(Deserialize)]
struct Chosen {
    look: String,
    what: What,
}

#[derive(Deserialize)]
struct Action {
    #[serde(flatten)]
    chosen: Chosen,
    action: Verb,
}

#[derive(Deserialize)]
struct Answered {
    verdict: Verdict,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Verb {
    Drop,
    Retry,
}

#[derive(Serialize)]
struct Looked {
    look: String,
    #[serde(flatten)]
    found: Found,
}

/// Looks at the failed messages.
pub(crate) async fn look(
    State(page): State<Arc<Page>>,
    query: Result<Query<LookQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(query) = query.map_err(|rejection| bad(&rejection.body_text()))?;
    let wanted = Wanted {
        search: query.search,
        reason: Some(query.reason).filter(|reason| !reason.is_empty()),
        limit: query.limit.unwrap_or(LIMIT.0).min(LIMIT.1),
    };
    let _turn = page.looking.take().await?;
    if page.allow_actions {
        // What a dead drain or take held is there again. A look does without if that fails.
        let _ = inspector(&page)?.reclaim().await;
    }
    let (look, found) = look::look(&inspector(&page)?, &wanted).await?;
    let look = page.looks.remember(look);
    Ok(Json(Looked { look, found }).into_response())
}

/// Shows one of a look in full.
pub(crate) async fn one(
    State(page): State<Arc<Page>>,
    Path(id): Path<String>,
    query: Result<Query<OneQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(query) = query.map_err(|rejection| bad(&rejection.body_text()))?;
    let look = recall(&page, &query.look)?;
    let gone = || Refusal::new(StatusCode::NOT_FOUND, "this message is not there any more");
    let chosen = look.chosen(&What::Id(id)).into_iter().next();
    let chosen = chosen.ok_or_else(gone)?;
    let _turn = page.reading.take().await?;
    let failed = inspector(&page)?.failed_message(chosen).await?;
    let failed = failed.ok_or_else(gone)?;
    Ok(Json(Shown::whole(chosen.number(), &failed.message)).into_response())
}

/// Claims records of a look for a person who takes them.
pub(crate) async fn take(
    State(page): State<Arc<Page>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let Chosen { look, what } = parse(body)?;
    let chosen = recall(&page, &look)?.chosen(&what);
    let _turn = page.settling.take().await?;
    let begun = page.takes.begin(&inspector(&page)?, &chosen).await?;
    Ok(Json(begun).into_response())
}

/// Sends what a take holds as a file, a line each. It may be asked for again.
pub(crate) async fn file(
    State(page): State<Arc<Page>>,
    Path(take): Path<String>,
) -> Result<Response, Refusal> {
    let (name, lines) = page.takes.file(&take).ok_or_else(|| {
        let why = "this take is over: the messages were removed or put back before";
        Refusal::new(StatusCode::GONE, why)
    })?;
    let headers = [
        (CONTENT_TYPE, "application/x-ndjson".to_owned()),
        (
            CONTENT_DISPOSITION,
            format!("attachment; filename=\"{name}\""),
        ),
        // A proxy that took the whole file for itself would count as a reader who has it.
        (
            HeaderName::from_static("x-accel-buffering"),
            "no".to_owned(),
        ),
    ];
    Ok((headers, Body::from_stream(lines)).into_response())
}

/// Ends a take as the person says.
pub(crate) async fn end_take(
    State(page): State<Arc<Page>>,
    Path(take): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let Answered { verdict } = parse(body)?;
    Ok(Json(page.takes.end(&take, verdict).await?).into_response())
}

/// Drops or retries records of a look.
pub(crate) async fn settle(
    State(page): State<Arc<Page>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let Action { chosen, action } = parse(body)?;
    let Chosen { look, what } = chosen;
    let chosen = recall(&page, &look)?.chosen(&what);
    let _turn = page.settling.take().await?;
    let inspector = inspector(&page)?;
    let settlement = match action {
        Verb::Drop => inspector.drop(&chosen).await,
        Verb::Retry => inspector.retry(&chosen).await,
    };
    let outcome = Outcome::of(&settlement);
    match settlement.error {
        None => Ok(Json(outcome).into_response()),
        Some(error) => {
            let told = json!({ "error": error.to_string(), "so_far": outcome });
            Ok((StatusCode::SERVICE_UNAVAILABLE, Json(told)).into_response())
        }
    }
}

fn inspector(page: &Page) -> Result<Inspector, Refusal> {
    page.watch.inspector().ok_or_else(|| {
        let trouble = page.watch.view().trouble.clone();
        let why = trouble.unwrap_or_else(|| "Redis has not answered yet".to_owned());
        Refusal(StatusCode::SERVICE_UNAVAILABLE, why)
    })
}

fn recall(page: &Page, look: &str) -> Result<Arc<Look>, Refusal> {
    let why = "this look is too long ago: look again";
    let look = page.looks.recall(look);
    look.ok_or_else(|| Refusal::new(StatusCode::GONE, why))
}

fn parse<T: DeserializeOwned>(body: Result<Bytes, BytesRejection>) -> Result<T, Refusal> {
    let body = body.map_err(|rejection| Refusal(rejection.status(), rejection.body_text()))?;
    serde_json::from_slice(&body).map_err(|error| bad(&error.to_string()))
}

fn bad(why: &str) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, why)
}
