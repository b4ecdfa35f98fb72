//! Effects as lines of JSON: how a program that is not written in Rust stages them.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};

use crate::Effects;
use crate::text::{Excerpt, Shortened};

/// Words of the longest command: a verb, a key, a field and a value.
const MAX_WORDS: usize = 4;
/// What the keys of every fleet begin with.
const FLEET_PREFIX: &[u8] = b"baton:{";
/// Characters of a word that a complaint quotes.
const QUOTED_CHARS: usize = 40;
/// Characters of a complaint of the JSON parser.
const PARSER_CHARS: usize = 120;

/// Why a text is not lines of effects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("effects, line {line}: {problem}")]
#[non_exhaustive]
pub struct EffectsError {
    /// The line, from 1 on.
    pub line: usize,
    /// What is wrong with it, in words that are safe to print.
    pub problem: String,
}

impl Effects {
    /// Max bytes that [`Effects::parse_lines`] accepts.
    pub const MAX_LINES_BYTES: usize = 1 << 20;

    /// Reads effects from lines of JSON, one command a line, such as `["INCRBY","counted",1]`.
    ///
    /// The commands are those of the methods: SET key value, DEL key, INCRBY key number, HSET key
    /// field value, HINCRBY key field number, RPUSH key value, SADD key member, ZADD key score
    /// member. A word is a text or a whole number. Empty lines are skipped. A key of a fleet
    /// (`baton:{…`) is refused: only Baton writes those.
    pub fn parse_lines(text: &[u8]) -> Result<Self, EffectsError> {
        let mut effects = Self::default();
        if text.len() > Self::MAX_LINES_BYTES {
            let kept = &text[..Self::MAX_LINES_BYTES];
            return Err(EffectsError {
                line: kept.split(|byte| *byte == b'\n').count(),
                problem: format!("ends beyond the first {} bytes", Self::MAX_LINES_BYTES),
            });
        }
        for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            parse_line(line, &mut effects).map_err(|problem| EffectsError {
                line: at + 1,
                problem,
            })?;
        }
        Ok(effects)
    }
}

fn parse_line(line: &[u8], effects: &mut Effects) -> Result<(), String> {
    let Words(words) = serde_json::from_slice(line).map_err(|error| {
        // The parser's line is always 1 here: its words alone help.
        let words = error.to_string().replace(r" (\u0000-\u001F)", "");
        let problem = words.split(" at line 1").next().unwrap_or(&words);
        // They may quote the line, which may be long.
        let problem = Shortened {
            bytes: problem.as_bytes(),
            max_chars: PARSER_CHARS,
        };
        format!("not a command such as [\"INCRBY\",\"counted\",1]: {problem}")
    })?;
    let Some((verb, args)) = words.split_first() else {
        return Err("an empty command".to_owned());
    };
    let verb = verb.to_ascii_uppercase();
    if let Some(key) = args.first().filter(|key| key.starts_with(FLEET_PREFIX)) {
        return Err(format!("{} belongs to a fleet", quoted(key)));
    }
    match (verb.as_slice(), args) {
        (b"SET", [key, value]) => effects.set(key, value),
        (b"DEL", [key]) => effects.del(key),
        (b"INCRBY", [key, by]) => effects.incr_by(key, number(by)?),
        (b"HSET", [key, field, value]) => effects.hset(key, field, value),
        (b"HINCRBY", [key, field, by]) => effects.hincr_by(key, field, number(by)?),
        (b"RPUSH", [key, value]) => effects.rpush(key, value),
        (b"SADD", [key, member]) => effects.sadd(key, member),
        (b"ZADD", [key, score, member]) => effects.zadd(key, number(score)?, member),
        (b"SET" | b"DEL" | b"INCRBY" | b"HSET" | b"HINCRBY" | b"RPUSH" | b"SADD" | b"ZADD", _) => {
            let verb = String::from_utf8_lossy(&verb);
            return Err(format!("{verb} does not take {} arguments", args.len()));
        }
        _ => return Err(format!("{} is no known command", quoted(&words[0]))),
    }
    Ok(())
}

fn number(word: &[u8]) -> Result<i64, String> {
    let number = str::from_utf8(word).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("{} is no whole number", quoted(word)))
}

fn quoted(word: &[u8]) -> Excerpt<'_> {
    Excerpt {
        bytes: word,
        max_chars: QUOTED_CHARS,
    }
}

/// The words of one command. A line has room for half a million, so reading ends at the first that
/// is too many.
struct Words(Vec<Vec<u8>>);

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_seq(WordsVisitor)
    }
}

struct WordsVisitor;

impl<'de> Visitor<'de> for WordsVisitor {
    type Value = Words;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of texts and whole numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Words, A::Error> {
        let mut words = Vec::with_capacity(MAX_WORDS);
        while words.len() < MAX_WORDS {
            match seq.next_element::<Word>()? {
                Some(Word(word)) => words.push(word),
                None => return Ok(Words(words)),
            }
        }
        match seq.next_element::<IgnoredAny>()? {
            Some(IgnoredAny) => Err(de::Error::custom("too many words")),
            None => Ok(Words(words)),
        }
    }
}

/// A text, or a whole number as its digits.
struct Word(Vec<u8>);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(WordVisitor)
    }
}

struct WordVisitor;

impl Visitor<'_> for WordVisitor {
    type Value = Word;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a whole number")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Word, E> {
        Ok(Word(text.as_bytes().to_vec()))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Word, E> {
        Ok(Word(number.to_string().into_bytes()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Word, E> {
        Ok(Word(number.to_string().into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_stages_what_its_method_stages() {
        let lines = r#"
            ["SET","s","grün \"1\""]
            ["del","d"]
            ["INCRBY","i",-3]
            ["INCRBY","i","4"]
            ["HSET","h","f",7]
            ["HINCRBY","hi","f",9007199254740993]

            ["RPUSH","l",""]
            ["SADD","sa","m"]
            ["ZADD","z",-5,"m"]"#;
        let mut expected = Effects::default();
        expected.set("s", "grün \"1\"");
        expected.del("d");
        expected.incr_by("i", -3);
        expected.incr_by("i", 4);
        expected.hset("h", "f", "7");
        expected.hincr_by("hi", "f", 9_007_199_254_740_993);
        expected.rpush("l", "");
        expected.sadd("sa", "m");
        expected.zadd("z", -5, "m");
        assert_eq!(Effects::parse_lines(lines.as_bytes()), Ok(expected));
        assert_eq!(Effects::parse_lines(b""), Ok(Effects::default()));
        assert_eq!(Effects::parse_lines(b"\r\n \n"), Ok(Effects::default()));
    }

    #[test]
    fn a_line_that_is_no_effect_is_refused_with_its_number() {
        for (line, problem) in [
            (r"INCRBY a 1", "not a command such as"),
            (r#"["INCRBY","a",1"#, "EOF while parsing"),
            (r#"["INCRBY","a",1] x"#, "trailing characters"),
            ("[\"SET\",\"a\",\"\u{1}\"]", ": control character found"),
            (r#"{"INCRBY":1}"#, "an array of texts and whole numbers"),
            (r"[]", "an empty command"),
            (r#"["INCRBY","a",1.5]"#, "a text or a whole number"),
            (r#"["SET","a",["b"]]"#, "a text or a whole number"),
            (r#"["SET","a",null]"#, "a text or a whole number"),
            (r#"["INCRBY","a","many"]"#, "\"many\" is no whole number"),
            (r#"["INCRBY","a",18446744073709551615]"#, "no whole number"),
            (r#"["SET","a"]"#, "SET does not take 1 arguments"),
            (r#"["DEL","a","b","c","d"]"#, "too many words"),
            (r#"["FLUSHALL"]"#, "\"FLUSHALL\" is no known command"),
            (r#"["\u001b[31m","a"]"#, r#""\x1b[31m" is no known command"#),
            (
                r#"["DEL","baton:{other:0}:queue"]"#,
                "\"baton:{other:0}:queue\" belongs to a fleet",
            ),
        ] {
            let text = format!("[\"INCRBY\",\"good\",1]\n\n{line}\n");
            let error = Effects::parse_lines(text.as_bytes()).unwrap_err();
            assert_eq!(error.line, 3, "{line}");
            assert!(error.problem.contains(problem), "{line}: {error}");
        }
        assert_eq!(Effects::parse_lines(b"\xff").unwrap_err().line, 1);
    }

    #[test]
    fn a_text_beyond_the_bound_is_refused() {
        let mut text = vec![b'\n'; Effects::MAX_LINES_BYTES];
        assert_eq!(Effects::parse_lines(&text), Ok(Effects::default()));
        text.push(b'\n');
        assert!(Effects::parse_lines(&text).is_err());
    }
}
