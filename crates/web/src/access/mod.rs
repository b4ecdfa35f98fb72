//! Access control: who may ask, under which host name, and from which page.
//!
//! This module knows the token and the sessions of the browsers that have logged in with it.
//! `guard` applies the rules to every request, `hosts` has the allowed host names, `origin` tells
//! our own page from other sites, `login` has the login form.

pub(crate) mod guard;
pub(crate) mod hosts;
pub(crate) mod login;
pub(crate) mod origin;
mod token;

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::header::{AUTHORIZATION, COOKIE};
use axum::http::{HeaderMap, StatusCode};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use token::Token;
pub(crate) use token::{equal, secret};

/// The name of the session's cookie.
pub(crate) const COOKIE_NAME: &str = "baton_session";
/// How long a session lasts.
pub(crate) const SESSION_TTL: Duration = Duration::from_secs(12 * 3600);
/// At most this many sessions at a time; a new one ends the oldest.
const MAX_SESSIONS: usize = 1000;
/// The server refuses a wrong token after this time.
const WRONG_TOKEN_DELAY: Duration = Duration::from_millis(250);
/// At most this many requests wait for that refusal; the server refuses more at once.
const MAX_DELAYED: usize = 64;

/// The sender of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Caller {
    /// Anyone on this machine: the page has no token.
    Anyone,
    /// A program that sent the token itself.
    Bearer,
    /// A browser that has logged in, with the id of its session.
    Session(String),
}

/// The token and the sessions.
pub(crate) struct Access {
    token: Option<Token>,
    /// The CSRF token of a page without a token, which has no sessions.
    csrf: String,
    /// Oldest first.
    sessions: Mutex<VecDeque<Session>>,
    delayed: Semaphore,
}

struct Session {
    id: String,
    csrf: String,
    until: Instant,
}

impl Access {
    /// Access with this token, or for anyone on this machine.
    pub(crate) fn new(token: Option<&str>) -> io::Result<Self> {
        let token = match token {
            None => None,
            Some("") => return Err(invalid("the token is empty")),
            Some(token) => Some(
                Token::new(token.as_bytes())
                    .ok_or_else(|| invalid("the token is longer than 512 bytes"))?,
            ),
        };
        Ok(Self {
            token,
            csrf: secret(),
            sessions: Mutex::default(),
            delayed: Semaphore::new(MAX_DELAYED),
        })
    }

    /// Whether the page has a token.
    pub(crate) fn needs_token(&self) -> bool {
        self.token.is_some()
    }

    /// The sender of these headers, or the status with which to refuse the request.
    ///
    /// The right token counts, then a session. Other credentials in the headers do not matter: a
    /// browser sends the password of a proxy in the same header, with every request.
    pub(crate) async fn authenticate(&self, headers: &HeaderMap) -> Result<Caller, StatusCode> {
        if self.token.is_none() {
            return Ok(Caller::Anyone);
        }
        let tokens = headers.get_all(AUTHORIZATION).into_iter();
        let tokens: Vec<_> = tokens.filter_map(|one| bearer(one.as_bytes())).collect();
        if tokens.iter().any(|token| self.is_token(token)) {
            return Ok(Caller::Bearer);
        }
        let ids = session_ids(headers);
        if let Some(id) = ids.into_iter().find(|id| self.session(id).is_some()) {
            return Ok(Caller::Session(id));
        }
        Err(match tokens.is_empty() {
            true => StatusCode::UNAUTHORIZED,
            false => self.refuse_token().await,
        })
    }

    /// Whether a caller still has access: a session may have ended.
    pub(crate) fn is_valid(&self, caller: &Caller) -> bool {
        match caller {
            Caller::Anyone | Caller::Bearer => true,
            Caller::Session(id) => self.session(id).is_some(),
        }
    }

    /// Accepts the right token at once, and refuses a wrong one late.
    ///
    /// The server accepts the right token however many wrong ones arrive: a common limit would let
    /// any caller lock all others out. What makes guessing hopeless is the length of the token and
    /// the comparison in constant time. The delay limits a connection to four guesses per second.
    pub(crate) async fn check_token(&self, text: &[u8]) -> Result<(), StatusCode> {
        match self.is_token(text) {
            true => Ok(()),
            false => Err(self.refuse_token().await),
        }
    }

    fn is_token(&self, text: &[u8]) -> bool {
        self.token.as_ref().is_some_and(|token| token.is(text))
    }

    /// Refuses a wrong token: late, or at once if many such refusals wait already, so that they do
    /// not occupy all connections.
    async fn refuse_token(&self) -> StatusCode {
        match self.delayed.try_acquire() {
            Ok(_permit) => {
                sleep(WRONG_TOKEN_DELAY).await;
                StatusCode::UNAUTHORIZED
            }
            Err(_) => StatusCode::TOO_MANY_REQUESTS,
        }
    }

    /// Begins a session and returns its id.
    pub(crate) fn begin_session(&self) -> String {
        let mut sessions = self.lock();
        if sessions.len() >= MAX_SESSIONS {
            sessions.pop_front();
        }
        let id = secret();
        sessions.push_back(Session {
            id: id.clone(),
            csrf: secret(),
            until: Instant::now() + SESSION_TTL,
        });
        id
    }

    /// Ends a caller's session.
    pub(crate) fn end_session(&self, caller: &Caller) {
        if let Caller::Session(id) = caller {
            self.lock().retain(|session| !equal(&session.id, id));
        }
    }

    /// The CSRF token that a caller's page sends with every action. A program needs none: no other
    /// site can make it send its token.
    pub(crate) fn csrf(&self, caller: &Caller) -> Option<String> {
        match caller {
            Caller::Anyone => Some(self.csrf.clone()),
            Caller::Bearer => None,
            Caller::Session(id) => self.session(id),
        }
    }

    /// The CSRF token of a session; none if the session has ended.
    fn session(&self, id: &str) -> Option<String> {
        let mut sessions = self.lock();
        let now = Instant::now();
        sessions.retain(|session| session.until > now);
        let found = sessions.iter().find(|session| equal(&session.id, id));
        found.map(|session| session.csrf.clone())
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// The token of an `Authorization` header, if its scheme is `Bearer`.
fn bearer(header: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = header.split_at_checked("Bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"Bearer ")
        .then(|| token.trim_ascii())
}

/// The session ids in the cookies of a request.
fn session_ids(headers: &HeaderMap) -> Vec<String> {
    let lines = headers.get_all(COOKIE).into_iter();
    lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(name, _)| *name == COOKIE_NAME)
        .map(|(_, id)| id.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        headers
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_whole_token_is_accepted() {
        let access = Access::new(Some("s3cret")).unwrap();
        for wrong in ["", "s3cre", "s3cret\0", "S3cret", "s3crets"] {
            let header = headers(
                "authorization",
                &format!("Bearer {wrong}").replace('\0', " x"),
            );
            let refused = access.authenticate(&header).await;
            assert_eq!(refused, Err(StatusCode::UNAUTHORIZED), "{wrong}");
            let refused = access.check_token(wrong.as_bytes()).await;
            assert_eq!(refused, Err(StatusCode::UNAUTHORIZED), "{wrong}");
        }
        let long = "s3cret".to_owned() + &"\0".repeat(600);
        assert!(access.check_token(long.as_bytes()).await.is_err());
        let basic = headers("authorization", "Basic s3cret");
        assert!(access.authenticate(&basic).await.is_err());
        let right = headers("authorization", "bearer s3cret");
        assert_eq!(access.authenticate(&right).await, Ok(Caller::Bearer));
        assert!(Access::new(Some("")).is_err());
        assert!(Access::new(Some(&"x".repeat(513))).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn wrong_tokens_are_refused_late_and_the_right_one_is_accepted_at_once() {
        let access = Access::new(Some("s3cret")).unwrap();
        let id = access.begin_session();
        let before = Instant::now();
        let guesses = (0..100).map(|guess| {
            let access = &access;
            async move { access.check_token(guess.to_string().as_bytes()).await }
        });
        let right = async {
            assert!(access.check_token(b"s3cret").await.is_ok());
            let cookie = headers("cookie", &format!("a=b; {COOKIE_NAME}={id}"));
            assert!(access.authenticate(&cookie).await.is_ok());
            before.elapsed()
        };
        let (answers, took) = tokio::join!(futures_util::future::join_all(guesses), right);
        assert_eq!(
            (took, before.elapsed() >= WRONG_TOKEN_DELAY),
            (Duration::ZERO, true)
        );
        let late = |answer: &&Result<(), _>| **answer == Err(StatusCode::UNAUTHORIZED);
        assert_eq!(answers.iter().filter(late).count(), MAX_DELAYED);
        assert!(answers.iter().all(Result::is_err));
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_end() {
        let access = Access::new(Some("s3cret")).unwrap();
        let first = access.begin_session();
        assert!(access.session(&first).is_some());
        for _ in 0..MAX_SESSIONS {
            access.begin_session();
        }
        assert!(access.session(&first).is_none(), "the oldest goes");
        let last = access.begin_session();
        sleep(SESSION_TTL - Duration::from_secs(1)).await;
        assert!(access.session(&last).is_some());
        sleep(Duration::from_secs(1)).await;
        assert!(access.session(&last).is_none());
        assert!(!access.is_valid(&Caller::Session(last)));
    }
}
