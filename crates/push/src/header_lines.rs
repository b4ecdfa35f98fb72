//! Headers of the user's own, one a line: often a secret.

use hyper::HeaderMap;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING,
    UPGRADE,
};

use crate::PushError;

/// Max headers of a file, and max bytes of all together: servers accept no more than a hundred.
const MAX_LINES: usize = 50;
const MAX_BYTES: usize = 16 << 10;

/// Headers that frame the request. A wrong one would make the server read another request.
const FRAMING: [HeaderName; 7] = [
    CONNECTION,
    CONTENT_LENGTH,
    EXPECT,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Reads lines such as `Authorization: Bearer …`. Empty lines are skipped. No complaint repeats a
/// value.
pub(crate) fn parse(lines: &[u8]) -> Result<HeaderMap, PushError> {
    let mut headers = HeaderMap::new();
    let mut bytes = 0;
    for (at, line) in lines.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let problem = |problem: &str| PushError::HeaderLine {
            line: at + 1,
            problem: problem.to_owned(),
        };
        bytes += line.len();
        if headers.len() == MAX_LINES || bytes > MAX_BYTES {
            return Err(problem("there are too many headers"));
        }
        let (name, value) = parse_line(line).ok_or_else(|| problem("write it as Name: value"))?;
        let is_ours = name.as_str().starts_with("baton-") || name == "idempotency-key";
        if is_ours || FRAMING.contains(&name) {
            return Err(problem(&format!("Baton itself sets {name}")));
        }
        headers.append(name, value);
    }
    Ok(headers)
}

fn parse_line(line: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let name = HeaderName::from_bytes(&line[..colon]).ok()?;
    let mut value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_header() {
        let lines = "Authorization: Bearer a:b\r\n\n  X-Team:grün\nX-Team: two\nX-Empty:";
        let headers = parse(lines.as_bytes()).unwrap();
        assert_eq!(headers["authorization"], "Bearer a:b");
        let teams: Vec<&[u8]> = headers
            .get_all("x-team")
            .iter()
            .map(HeaderValue::as_bytes)
            .collect();
        assert_eq!(teams, ["grün".as_bytes(), b"two"]);
        assert_eq!(headers["x-empty"], "");
        assert!(!format!("{headers:?}").contains("Bearer"));
    }

    #[test]
    fn a_bad_line_is_named_by_its_number_and_never_repeated() {
        for (line, problem) in [
            ("s3cret", "write it as Name: value"),
            ("s3cret name: x", "write it as Name: value"),
            (": s3cret", "write it as Name: value"),
            ("X-Token: s3cret\u{7}", "write it as Name: value"),
            ("X-Token: s3cret\rHost: h", "write it as Name: value"),
            ("X-Token: s3cret\0", "write it as Name: value"),
            ("X\r-Token: s3cret", "write it as Name: value"),
            ("Content-Length: s3cret", "itself sets content-length"),
            ("transfer-encoding: s3cret", "itself sets transfer-encoding"),
            ("Baton-Seq: s3cret", "itself sets baton-seq"),
            ("Idempotency-Key: s3cret", "itself sets idempotency-key"),
        ] {
            let lines = format!("X-Good: yes\n\n{line}\n");
            let error = parse(lines.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("line 3: "), "{line}: {error}");
            assert!(error.contains(problem), "{line}: {error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
        assert!(parse(&b"A: b\n".repeat(MAX_LINES)).is_ok());
        assert!(parse(&b"A: b\n".repeat(MAX_LINES + 1)).is_err());
        let long = [&b"A: "[..], &vec![b'x'; MAX_BYTES]].concat();
        assert!(parse(&long).is_err());
    }
}
