//! What a document says that a command prints: `…` stands for anything, and on a line of its own for
//! any lines.

/// Whether a line is what a document expects.
fn line_matches(expected: &str, line: &str) -> bool {
    let mut parts = expected.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.split_once(part) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Whether these lines are what a document expects.
pub(crate) fn output_matches(expected: &[String], lines: &[&str]) -> bool {
    match (expected, lines) {
        ([], lines) => lines.is_empty(),
        ([first, others @ ..], lines) if first == "…" => {
            (0..=lines.len()).any(|skipped| output_matches(others, &lines[skipped..]))
        }
        ([first, others @ ..], [line, rest @ ..]) => {
            line_matches(first, line.trim_end()) && output_matches(others, rest)
        }
        ([_, ..], []) => false,
    }
}

#[test]
fn expected_output_matches_with_gaps_and_not_without() {
    let expected: Vec<String> = ["a … c…", "…", "z"].map(str::to_owned).to_vec();
    assert!(output_matches(&expected, &["a b c", "z"]));
    assert!(output_matches(&expected, &["a b c d", "x", "y", "z"]));
    assert!(!output_matches(&expected, &["a b", "z"]));
    assert!(!output_matches(&expected, &["a b c", "x"]));
    assert!(!output_matches(&expected, &["a b c", "z", "more"]));
    assert!(!line_matches("ab…ba", "aba"));
}
