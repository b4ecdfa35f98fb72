//! The text format 0.0.4 of Prometheus.

use std::fmt::{Display, Write};

use baton::inspect::{BOUNDS, Histogram};
use baton_protocol::text::Shortened;

/// A label has at most this many characters. The exposition leaves out a node with a longer name.
pub(super) const MAX_LABEL_CHARS: usize = 100;

/// A text in this format, written family by family.
#[derive(Default)]
pub(super) struct Exposition {
    pub(super) text: String,
}

impl Exposition {
    pub(super) fn counter<L: AsRef<str>, V: Display>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, V)>,
    ) {
        self.family(name, "counter", help, samples);
    }

    pub(super) fn gauge<L: AsRef<str>, V: Display>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, V)>,
    ) {
        self.family(name, "gauge", help, samples);
    }

    pub(super) fn histogram<'a>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (&'a str, &'a Histogram)>,
    ) {
        self.head(name, "histogram", help);
        for (labels, histogram) in samples {
            let mut below: u64 = 0;
            let bounds = BOUNDS.map(|bound| bound.to_string());
            let bounds = bounds.iter().map(String::as_str).chain(["+Inf"]);
            for (count, bound) in histogram.counts().iter().zip(bounds) {
                // A node may send any counts.
                below = below.saturating_add(*count);
                let labels = format!("{labels},le=\"{bound}\"");
                self.sample(name, "_bucket", &labels, below);
            }
            self.sample(name, "_sum", labels, histogram.sum_s);
            self.sample(name, "_count", labels, below);
        }
    }

    fn family<L: AsRef<str>, V: Display>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, V)>,
    ) {
        self.head(name, kind, help);
        for (labels, value) in samples {
            self.sample(name, "", labels.as_ref(), value);
        }
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, suffix: &str, labels: &str, value: impl Display) {
        let _ = writeln!(self.text, "{name}{suffix}{{{labels}}} {value}");
    }
}

/// Labels as they stand between the braces. Their values may be hostile, so this escapes everything
/// that a terminal or a page could obey.
pub(super) fn labels(pairs: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        if !text.is_empty() {
            text.push(',');
        }
        let _ = write!(text, "{name}=\"");
        let escaped = Shortened {
            bytes: value.as_bytes(),
            max_chars: MAX_LABEL_CHARS,
        };
        for c in escaped.to_string().chars() {
            if matches!(c, '\\' | '"') {
                text.push('\\');
            }
            text.push(c);
        }
        text.push('"');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_stay_within_their_quotes_and_their_line() {
        for (value, escaped) in [
            ("plain grün", "plain grün"),
            ("a\"b", "a\\\"b"),
            ("a\\b", "a\\\\\\\\b"),
            ("a\n} 1\nb 2", "a\\\\n} 1\\\\nb 2"),
            ("\u{1b}[31m", "\\\\x1b[31m"),
        ] {
            assert_eq!(labels(&[("node", value)]), format!("node=\"{escaped}\""));
        }
        let long = labels(&[("fleet", "f"), ("host", &"x".repeat(1000))]);
        assert_eq!(long, format!("fleet=\"f\",host=\"{}…\"", "x".repeat(100)));
    }

    #[test]
    fn the_buckets_of_a_histogram_are_cumulative() {
        let histogram = serde_json::from_str(r#"{"counts":[2,0,3],"sum_s":0.5}"#).unwrap();
        let mut out = Exposition::default();
        out.histogram("h", "Help.", [("a=\"1\"", &histogram)]);
        let lines: Vec<&str> = out.text.lines().collect();
        assert_eq!(
            lines[..6],
            [
                "# HELP h Help.",
                "# TYPE h histogram",
                "h_bucket{a=\"1\",le=\"0.001\"} 2",
                "h_bucket{a=\"1\",le=\"0.0025\"} 2",
                "h_bucket{a=\"1\",le=\"0.005\"} 5",
                "h_bucket{a=\"1\",le=\"0.01\"} 5",
            ]
        );
        assert_eq!(
            lines[16..],
            [
                "h_bucket{a=\"1\",le=\"60\"} 5",
                "h_bucket{a=\"1\",le=\"+Inf\"} 5",
                "h_sum{a=\"1\"} 0.5",
                "h_count{a=\"1\"} 5",
            ]
        );
    }
}
