//! A server's answer to one command.

use std::io::{self, BufRead, ErrorKind};

/// An answer that is no error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A status, a number or a text.
    Text(String),
    /// Several answers.
    Array(Vec<Reply>),
    /// No value.
    Nil,
}

impl Reply {
    /// Reads one answer. An error that the server answers is an error here, with the server's words.
    pub(crate) fn read(stream: &mut impl BufRead) -> io::Result<Self> {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let line = line.trim_end();
        let (kind, rest) = match line.chars().next() {
            Some(kind) if kind.is_ascii() => (kind, &line[1..]),
            _ => return Err(ErrorKind::UnexpectedEof.into()),
        };
        match kind {
            '+' | ':' => Ok(Self::Text(rest.to_owned())),
            '-' => Err(io::Error::other(rest.to_owned())),
            '$' | '*' if rest == "-1" => Ok(Self::Nil),
            '$' => {
                let mut bytes = vec![0; count(rest)? + "\r\n".len()];
                stream.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - "\r\n".len());
                let text = String::from_utf8(bytes);
                Ok(Self::Text(text.map_err(io::Error::other)?))
            }
            '*' => {
                let all = (0..count(rest)?).map(|_| Self::read(stream));
                Ok(Self::Array(all.collect::<io::Result<_>>()?))
            }
            _ => Err(ErrorKind::InvalidData.into()),
        }
    }

    /// The text; empty if there is none.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Array(_) | Self::Nil => String::new(),
        }
    }

    /// The texts of an array.
    pub(crate) fn texts(self) -> Vec<String> {
        match self {
            Self::Array(all) => all.into_iter().map(Self::text).collect(),
            Self::Text(_) | Self::Nil => Vec::new(),
        }
    }
}

fn count(text: &str) -> io::Result<usize> {
    text.parse().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &str) -> io::Result<Reply> {
        Reply::read(&mut bytes.as_bytes())
    }

    #[test]
    fn each_kind_of_answer_is_read_and_an_error_keeps_its_words() {
        let text = |text: &str| Reply::Text(text.to_owned());
        assert_eq!(read("+OK\r\n").unwrap(), text("OK"));
        assert_eq!(read(":42\r\n").unwrap(), text("42"));
        assert_eq!(read("$4\r\na\r\nb\r\n").unwrap(), text("a\r\nb"));
        assert_eq!(read("$-1\r\n").unwrap(), Reply::Nil);
        let array = read("*2\r\n$1\r\na\r\n*-1\r\n").unwrap();
        assert_eq!(array, Reply::Array(vec![text("a"), Reply::Nil]));
        assert_eq!(array.texts(), ["a", ""]);
        let error = read("-MOVED 7 127.0.0.1:1\r\n").unwrap_err();
        assert_eq!(error.to_string(), "MOVED 7 127.0.0.1:1");
        for cut in ["", "$4\r\na", "*2\r\n+a\r\n", "?\r\n"] {
            assert!(read(cut).is_err(), "{cut:?}");
        }
    }
}
