//! Who may ask: the token, the sessions of those who showed it, and what proves that a request
//! comes from our own page.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::header::{AUTHORIZATION, COOKIE};
use axum::http::{HeaderMap, StatusCode};
use baton_protocol::text::hex;
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

/// The name of the cookie.
pub(crate) const COOKIE_NAME: &str = "baton_session";
/// How long a session lasts.
pub(crate) const SESSION_TTL: Duration = Duration::from_secs(12 * 3600);
/// Sessions at a time; the oldest go.
const SESSIONS: usize = 1000;
/// The longest token.
const TOKEN_BYTES: usize = 512;
/// A wrong token is answered after this time.
const WRONG_PAUSE: Duration = Duration::from_millis(250);
/// Wrong tokens that are held back at a time; more are refused at once.
const WRONG_HELD: usize = 64;

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
    /// From the oldest.
    sessions: Mutex<VecDeque<Session>>,
    wrong: Semaphore,
}

struct Session {
    id: String,
    csrf: String,
    until: Instant,
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
            sessions: Mutex::default(),
            wrong: Semaphore::new(WRONG_HELD),
        })
    }

    /// Whether there is a token to be known.
    pub(crate) fn needs_token(&self) -> bool {
        self.token.is_some()
    }

    /// Who sent these headers, or how to say that the sender is not known.
    ///
    /// The right token counts, then a session, and whatever else the headers say does not
    /// matter: a browser sends the password of a proxy in the same header, with every request.
    pub(crate) async fn recognise(&self, headers: &HeaderMap) -> Result<Caller, StatusCode> {
        if self.token.is_none() {
            return Ok(Caller::Anyone);
        }
        let shown = headers.get_all(AUTHORIZATION).into_iter();
        let shown: Vec<_> = shown.filter_map(|one| bearer(one.as_bytes())).collect();
        if shown.iter().any(|token| self.is_token(token)) {
            return Ok(Caller::Bearer);
        }
        let ids = cookies(headers);
        if let Some(id) = ids.into_iter().find(|id| self.session(id).is_some()) {
            return Ok(Caller::Session(id));
        }
        Err(match shown.is_empty() {
            true => StatusCode::UNAUTHORIZED,
            false => self.refuse_token().await,
        })
    }

    /// Whether a caller is still who it was: sessions end.
    pub(crate) fn still_knows(&self, caller: &Caller) -> bool {
        match caller {
            Caller::Anyone | Caller::Bearer => true,
            Caller::Session(id) => self.session(id).is_some(),
        }
    }

    /// Compares a token; a wrong one is answered late.
    ///
    /// The right one is never held up and never refused, however many wrong ones come: a limit
    /// that counts for all would let anyone lock everyone out. Guesses are hopeless for another
    /// reason, the length of the token, and it is compared in constant time. The pause keeps one
    /// connection to four guesses per second.
    pub(crate) async fn try_token(&self, shown: &[u8]) -> Result<(), StatusCode> {
        match self.is_token(shown) {
            true => Ok(()),
            false => Err(self.refuse_token().await),
        }
    }

    fn is_token(&self, shown: &[u8]) -> bool {
        self.token.as_ref().is_some_and(|token| token.is(shown))
    }

    /// How a wrong token is refused: late, or at once where many are held back already, so that
    /// they do not take all connections.
    async fn refuse_token(&self) -> StatusCode {
        match self.wrong.try_acquire() {
            Ok(_held) => {
                sleep(WRONG_PAUSE).await;
                StatusCode::UNAUTHORIZED
            }
            Err(_) => StatusCode::TOO_MANY_REQUESTS,
        }
    }

    /// Begins a session and returns its id.
    pub(crate) fn begin(&self) -> String {
        let mut sessions = self.lock();
        if sessions.len() >= SESSIONS {
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
    pub(crate) fn end(&self, caller: &Caller) {
        if let Caller::Session(id) = caller {
            self.lock().retain(|session| !same(&session.id, id));
        }
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
        let mut sessions = self.lock();
        let now = Instant::now();
        sessions.retain(|session| session.until > now);
        let found = sessions.iter().find(|session| same(&session.id, id));
        found.map(|session| session.csrf.clone())
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
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
    async fn wrong_tokens_are_held_up_and_the_right_one_is_not() {
        let access = Access::new(Some("s3cret")).unwrap();
        let id = access.begin();
        let before = Instant::now();
        let guesses = (0..100).map(|guess| {
            let access = &access;
            async move { access.try_token(guess.to_string().as_bytes()).await }
        });
        let right = async {
            assert!(access.try_token(b"s3cret").await.is_ok());
            let cookie = headers("cookie", &format!("a=b; {COOKIE_NAME}={id}"));
            assert!(access.recognise(&cookie).await.is_ok());
            before.elapsed()
        };
        let (answers, took) = tokio::join!(futures_util::future::join_all(guesses), right);
        assert_eq!(
            (took, before.elapsed() >= WRONG_PAUSE),
            (Duration::ZERO, true)
        );
        let late = |answer: &&Result<(), _>| **answer == Err(StatusCode::UNAUTHORIZED);
        assert_eq!(answers.iter().filter(late).count(), WRONG_HELD);
        assert!(answers.iter().all(Result::is_err));
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
