//! What a response means for its message.

use std::time::{Duration, SystemTime};

use baton::{Effects, HandlerError, Rejected};
use hyper::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER};
use hyper::{HeaderMap, StatusCode};

use crate::body::{End, MAX_BODY_BYTES, ReadBody};

/// The type of a body that has effects.
const EFFECTS_TYPE: &str = "application/x-baton-effects";
/// Bytes of a body, or of a header, that a reason has.
const REASON_BYTES: usize = 4 << 10;
/// The longest time that a server can ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(366 * 24 * 3600);

/// How many bytes of the body matter.
pub(crate) fn bytes_to_keep(status: StatusCode, headers: &HeaderMap) -> usize {
    match status.is_success() {
        true if has_effects(headers) => MAX_BODY_BYTES,
        true => 0,
        false => REASON_BYTES,
    }
}

/// The effects that a response asks for, or what becomes of the message.
pub(crate) fn outcome(
    status: StatusCode,
    headers: &HeaderMap,
    body: &ReadBody,
) -> Result<Effects, HandlerError> {
    let known = reason(status, headers, body);
    match status.as_u16() {
        200..=299 => success(headers, body).map_err(|problem| match problem {
            Problem::Final(problem) => Rejected::new(format!("{known}: {problem}")).into(),
            Problem::Unknown(problem) => format!("{known}: {problem}").into(),
        }),
        // No standard has a status from 600 on. A rejection for good would be the worse mistake.
        408 | 425 | 429 | 500.. => Err(match retry_after(headers, SystemTime::now()) {
            Some(after) => HandlerError::retry_after(after, known),
            None => known.into(),
        }),
        _ => Err(Rejected::new(known).into()),
    }
}

/// Why a response of success is none.
enum Problem {
    /// No attempt would help.
    Final(String),
    /// The server may have done the work or not.
    Unknown(String),
}

fn success(headers: &HeaderMap, body: &ReadBody) -> Result<Effects, Problem> {
    let has_effects = has_effects(headers);
    match &body.end {
        End::Complete if has_effects => {
            Effects::parse_lines(&body.bytes).map_err(|error| Problem::Final(error.to_string()))
        }
        End::Beyond if has_effects => Err(Problem::Final(format!(
            "its effects have more than {MAX_BODY_BYTES} bytes"
        ))),
        End::Complete | End::Beyond => Ok(Effects::default()),
        End::Broken(problem) => Err(Problem::Unknown(format!("its body broke off: {problem}"))),
        End::TimedOut => Err(Problem::Unknown("its body did not end in time".to_owned())),
    }
}

/// The status, and what the server says about it.
fn reason(status: StatusCode, headers: &HeaderMap, body: &ReadBody) -> String {
    let mut reason = format!("HTTP {}", status.as_u16());
    if let Some(words) = status.canonical_reason() {
        reason = format!("{reason} {words}");
    }
    if status.is_success() {
        return reason;
    }
    if status.is_redirection() {
        let location = headers.get(LOCATION).map(|location| location.as_bytes());
        let location = lossy(location.unwrap_or(b"nowhere"));
        return format!("{reason}: redirects are not followed, this one leads to {location}");
    }
    match lossy(&body.bytes).trim() {
        "" => reason,
        words => format!("{reason}: {words}"),
    }
}

/// The first 4 KiB as text.
fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(REASON_BYTES)]).into_owned()
}

fn has_effects(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    // Parameters such as a charset follow a semicolon.
    let kind = kind.and_then(|kind| kind.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case(EFFECTS_TYPE))
}

/// How long the server asks to wait: seconds, or a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit mean a very long time.
        let seconds = Duration::from_secs(value.parse().unwrap_or(u64::MAX));
        return Some(seconds.min(MAX_RETRY_AFTER));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    // A date that has passed means now.
    let after = date.duration_since(now).unwrap_or_default();
    Some(after.min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&'static str, &str)], body: &[u8], end: End) -> String {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        let status = StatusCode::from_u16(status).unwrap();
        let body = ReadBody {
            bytes: body.to_vec(),
            end,
        };
        match outcome(status, &map, &body) {
            Ok(effects) if effects == Effects::default() => "done".to_owned(),
            Ok(effects) => format!("done with {effects:?}"),
            Err(error) => format!("{error:?}"),
        }
    }

    #[test]
    fn a_status_says_what_becomes_of_the_message() {
        let plain = |status| answer(status, &[], b"", End::Complete);
        for status in [200, 201, 202, 204, 299] {
            assert_eq!(plain(status), "done");
        }
        for status in [408, 425, 429, 500, 502, 503, 504, 599, 600, 999] {
            assert!(plain(status).contains("Retry { after: None }"), "{status}");
        }
        for status in [
            101, 300, 301, 302, 304, 307, 308, 400, 401, 404, 422, 451, 499,
        ] {
            assert!(plain(status).contains("Reject"), "{status}");
        }
        assert!(plain(404).contains("\"HTTP 404 Not Found\""));
        let moved = answer(302, &[("location", "http://else/")], b"here", End::Complete);
        assert!(moved.contains("this one leads to http://else/"), "{moved}");
        let bad = answer(422, &[], b"no such \xff customer\n", End::TimedOut);
        let words = "HTTP 422 Unprocessable Entity: no such \u{fffd} customer\"";
        assert!(bad.contains(words), "{bad}");
        assert!(bad.contains("Reject"), "{bad}");
    }

    #[test]
    fn a_body_without_effects_counts_only_if_it_ends_too_early() {
        let html = [("content-type", "text/html")];
        let body = b"[\"INCRBY\",\"a\",1]";
        assert_eq!(answer(200, &html, body, End::Complete), "done");
        assert_eq!(answer(200, &html, body, End::Beyond), "done");
        for end in [End::Broken("reset".to_owned()), End::TimedOut] {
            let unknown = answer(200, &html, body, end);
            assert!(unknown.contains("Retry { after: None }"), "{unknown}");
        }
    }

    #[test]
    fn effects_must_be_whole_and_right() {
        let kind = [("content-type", "Application/X-Baton-Effects; charset=utf-8")];
        let good = b"[\"INCRBY\",\"a\",1]\n";
        assert!(answer(200, &kind, good, End::Complete).contains("done with"));
        assert_eq!(answer(204, &kind, b"", End::Complete), "done");
        assert!(answer(200, &kind, good, End::Beyond).contains("Reject"));
        assert!(answer(200, &kind, good, End::TimedOut).contains("Retry"));
        let bad = answer(200, &kind, b"\n[\"FLUSHALL\"]", End::Complete);
        assert!(bad.contains("effects, line 2"), "{bad}");
        assert!(bad.contains("Reject"), "{bad}");
        // Effects count with success only.
        assert!(answer(500, &kind, good, End::Complete).contains("Retry"));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let read = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, value.parse().unwrap());
            retry_after(&headers, now)
        };
        for (value, seconds) in [
            ("0", 0),
            ("120", 120),
            (" 7 ", 7),
            ("99999999999999999999999", 366 * 24 * 3600),
            ("Sun, 06 Nov 1994 08:50:37 GMT", 60),
            ("Sun, 06 Nov 1994 08:00:00 GMT", 0),
            ("Fri, 31 Dec 9999 23:59:59 GMT", 366 * 24 * 3600),
        ] {
            assert_eq!(read(value), Some(Duration::from_secs(seconds)), "{value}");
        }
        for value in [
            "",
            "-1",
            "+5",
            "1.5",
            "soon",
            "Sun, 99 Nov 1994 08:00:00 GMT",
        ] {
            assert_eq!(read(value), None, "{value}");
        }
        let busy = answer(503, &[("retry-after", "3")], b"busy", End::Complete);
        assert!(busy.contains("after: Some(3s)"), "{busy}");
        let accepted = answer(202, &[("retry-after", "3")], b"", End::Complete);
        assert_eq!(accepted, "done");
    }
}
