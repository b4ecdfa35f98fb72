//! Who may ask: the token, the sessions of those who showed it, and what proves that a request
//! comes from our own page.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::header::{AUTHORIZATION, COOKIE};
use axum::http::{HeaderMap, StatusCode};
use baton::show::hex;
use subtle::ConstantTimeEq;
use tokio::time::{Instant, sleep};

/// The name of the cookie.
pub(crate) const COOKIE_NAME: &str = "baton_session";
/// How long a session lasts.
pub(crate) const SESSION_TTL: Duration = Duration::from_secs(12 * 3600);
/// Sessions at a time; the oldest go.
const SESSIONS: usize = 1000;
/// The longest token.
const TOKEN_BYTES: usize = 512;
/// Wrong tokens in a row before none is looked at for a while.
const WRONG: f64 = 20.0;
/// In this time, one wrong token is forgiven. It is also the longest wait after one.
const FORGIVEN: Duration = Duration::from_millis(250);

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Caller {
    /// There is no token, and everybody on this machine is welcome.
    Anyone,
    /// A program that sent the token itself.
    Bearer,
    /// A browser with this session.
    Session(String),
}

/// Knows the token and the sessions.
pub(crate) struct Access {
    token: Option<Padded>,
    /// Stands for the session where there is no token.
    csrf: String,
    book: Mutex<Book>,
}

struct Session {
    id: String,
    csrf: String,
    until: Instant,
}

struct Book {
    /// From the oldest.
    sessions: VecDeque<Session>,
    /// Wrong tokens that are not forgiven, at this moment.
    wrong: (f64, Instant),
}

/// A text of fixed size: comparing two tells nothing about their contents or lengths.
struct Padded {
    bytes: [u8; TOKEN_BYTES],
    len: u64,
}

impl Padded {
    fn new(text: &[u8]) -> Option<Self> {
        let mut bytes = [0; TOKEN_BYTES];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(Self {
            bytes,
            len: text.len() as u64,
        })
    }

    fn is(&self, text: &[u8]) -> bool {
        Self::new(text).is_some_and(|other| {
            (self.bytes.ct_eq(&other.bytes) & self.len.ct_eq(&other.len)).into()
        })
    }
}

impl Access {
    /// With this token, or for everybody.
    pub(crate) fn new(token: Option<&str>) -> io::Result<Self> {
        let token = match token {
            None => None,
            Some("") => return Err(invalid("the token is empty")),
            Some(token) => Some(
                Padded::new(token.as_bytes())
                    .ok_or_else(|| invalid("the token is longer than 512 bytes"))?,
            ),
        };
        Ok(Self {
            token,
            csrf: secret(),
            book: Mutex::new(Book {
                sessions: VecDeque::new(),
                wrong: (0.0, Instant::now()),
            }),
        })
    }

    /// Whether there is a token to be known.
    pub(crate) fn needs_token(&self) -> bool {
        self.token.is_some()
    }

    /// Who sent these headers, or how to say that nobody may.
    pub(crate) async fn recognise(&self, headers: &HeaderMap) -> Result<Caller, StatusCode> {
        if self.token.is_none() {
            return Ok(Caller::Anyone);
        }
        if let Some(shown) = headers.get(AUTHORIZATION) {
            let token = bearer(shown.as_bytes()).ok_or(StatusCode::UNAUTHORIZED)?;
            self.try_token(token).await?;
            return Ok(Caller::Bearer);
        }
        let ids = cookies(headers);
        let id = ids.into_iter().find(|id| self.session(id).is_some());
        id.map(Caller::Session).ok_or(StatusCode::UNAUTHORIZED)
    }

    /// Whether a caller is still who it was: sessions end.
    pub(crate) fn still_knows(&self, caller: &Caller) -> bool {
        match caller {
            Caller::Anyone | Caller::Bearer => true,
            Caller::Session(id) => self.session(id).is_some(),
        }
    }

    /// Looks at a token. A wrong one is answered late, and after many of them none is looked
    /// at for a moment: guesses are few per second, however many connections make them. Who
    /// has a session does not notice.
    pub(crate) async fn try_token(&self, shown: &[u8]) -> Result<(), StatusCode> {
        let wait = {
            let mut book = self.lock();
            let (wrong, at) = book.wrong;
            let now = Instant::now();
            let forgiven = (now - at).as_secs_f64() / FORGIVEN.as_secs_f64();
            let wrong = (wrong - forgiven).max(0.0);
            if wrong > WRONG - 1.0 {
                return Err(StatusCode::TOO_MANY_REQUESTS);
            }
            if self.token.as_ref().is_some_and(|token| token.is(shown)) {
                return Ok(());
            }
            book.wrong = (wrong + 1.0, now);
            FORGIVEN.mul_f64((wrong + 1.0) / WRONG)
        };
        sleep(wait).await;
        Err(StatusCode::UNAUTHORIZED)
    }

    /// Begins a session and returns its id.
    pub(crate) fn begin(&self) -> String {
        let mut book = self.lock();
        if book.sessions.len() >= SESSIONS {
            book.sessions.pop_front();
        }
        let id = secret();
        book.sessions.push_back(Session {
            id: id.clone(),
            csrf: secret(),
            until: Instant::now() + SESSION_TTL,
        });
        id
    }

    /// Ends the sessions that these headers name.
    pub(crate) fn end(&self, headers: &HeaderMap) {
        let ids = cookies(headers);
        self.lock()
            .sessions
            .retain(|session| !ids.contains(&session.id));
    }

    /// The text that a caller's page sends with every action; none for a program, which no
    /// foreign page can make send its token.
    pub(crate) fn csrf(&self, caller: &Caller) -> Option<String> {
        match caller {
            Caller::Anyone => Some(self.csrf.clone()),
            Caller::Bearer => None,
            Caller::Session(id) => self.session(id),
        }
    }

    /// The session's own text, if it lasts.
    fn session(&self, id: &str) -> Option<String> {
        let mut book = self.lock();
        let now = Instant::now();
        book.sessions.retain(|session| session.until > now);
        let found = book.sessions.iter().find(|session| same(&session.id, id));
        found.map(|session| session.csrf.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether two texts are the same, in a time that does not tell where they differ.
pub(crate) fn same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

/// A text that nobody can guess.
pub(crate) fn secret() -> String {
    hex(&rand::random::<[u8; 32]>())
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

fn bearer(shown: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = shown.split_at_checked("Bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"Bearer ")
        .then(|| token.trim_ascii())
}

/// The session ids that a browser sent.
fn cookies(headers: &HeaderMap) -> Vec<String> {
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
    async fn only_the_whole_token_is_the_token() {
        let access = Access::new(Some("s3cret")).unwrap();
        for wrong in ["", "s3cre", "s3cret\0", "S3cret", "s3crets"] {
            let shown = headers(
                "authorization",
                &format!("Bearer {wrong}").replace('\0', " x"),
            );
            let refused = access.recognise(&shown).await;
            assert_eq!(refused, Err(StatusCode::UNAUTHORIZED), "{wrong}");
            let refused = access.try_token(wrong.as_bytes()).await;
            assert_eq!(refused, Err(StatusCode::UNAUTHORIZED), "{wrong}");
        }
        let long = "s3cret".to_owned() + &"\0".repeat(600);
        assert!(access.try_token(long.as_bytes()).await.is_err());
        let basic = headers("authorization", "Basic s3cret");
        assert!(access.recognise(&basic).await.is_err());
        let right = headers("authorization", "bearer s3cret");
        assert_eq!(access.recognise(&right).await, Ok(Caller::Bearer));
        assert!(Access::new(Some("")).is_err());
        assert!(Access::new(Some(&"x".repeat(513))).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn guesses_are_few_per_second_and_sessions_do_not_notice() {
        let access = Access::new(Some("s3cret")).unwrap();
        let id = access.begin();
        let guesses = (0..100).map(|guess| {
            let access = &access;
            async move { access.try_token(guess.to_string().as_bytes()).await }
        });
        let answers = futures_util::future::join_all(guesses).await;
        let looked_at = |answer: &&Result<(), _>| **answer == Err(StatusCode::UNAUTHORIZED);
        assert_eq!(answers.iter().filter(looked_at).count(), 20);
        // The longest wait was one forgiveness long. Another, and one more guess is looked at.
        sleep(FORGIVEN * 2).await;
        assert!(access.try_token(b"s3cret").await.is_ok());
        let cookie = headers("cookie", &format!("a=b; {COOKIE_NAME}={id}"));
        assert!(access.recognise(&cookie).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_end() {
        let access = Access::new(Some("s3cret")).unwrap();
        let first = access.begin();
        assert!(access.session(&first).is_some());
        for _ in 0..SESSIONS {
            access.begin();
        }
        assert!(access.session(&first).is_none(), "the oldest goes");
        let last = access.begin();
        sleep(SESSION_TTL - Duration::from_secs(1)).await;
        assert!(access.session(&last).is_some());
        sleep(Duration::from_secs(1)).await;
        assert!(access.session(&last).is_none());
        assert!(!access.still_knows(&Caller::Session(last)));
    }
}
