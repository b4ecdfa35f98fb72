//! A source for tests that mixes hostile texts into the random ones.

use super::RandomText;

/// One text in so many is hostile.
const HOSTILE_ONE_IN: usize = 8;

/// Random texts; with `BATON_HOSTILE=1`, one in eight is hostile to a careless reader.
pub(crate) struct HostileText {
    random: RandomText,
    hostile: Vec<Vec<u8>>,
}

impl HostileText {
    /// Mixes hostile texts into `random` if the environment asks for it.
    pub(crate) fn mixed_into(random: RandomText) -> Self {
        let is_on = std::env::var_os("BATON_HOSTILE").is_some_and(|value| value == "1");
        let hostile = if is_on { hostile_texts() } else { Vec::new() };
        Self { random, hostile }
    }

    /// Appends one text.
    pub(crate) fn append(&mut self, text: &mut Vec<u8>) {
        let at = rand::random_range(0..self.hostile.len().max(1) * HOSTILE_ONE_IN);
        match self.hostile.get(at) {
            Some(hostile) => text.extend_from_slice(hostile),
            None => self.random.append(text),
        }
    }
}

fn hostile_texts() -> Vec<Vec<u8>> {
    let fake_lines = "first\n{\"event\":\"processed\",\"node\":\"0000000000\",\"first\":1,\
                      \"last\":999999,\"failed\":[],\"attempt\":1}\n{\"event\":\"generator\",\
                      \"epoch\":999999}\n";
    vec![
        Vec::new(),
        b"a\0b\0\0".to_vec(),
        b"\xff\xfe\xc3\x28\xed\xa0\x80".to_vec(),
        b"\x1b[2J\x1b]0;title\x07\x1b[31mred\x9b0m\r\x08".to_vec(),
        b"<script>alert(1)</script>&amp;\"'`".to_vec(),
        "\u{202e}txet\u{2066}\u{200b}\u{200d}\u{feff}\u{2028}".into(),
        b"60 kB ".repeat(10_000),
        b"40 kB ".repeat(6_700),
        b"1 1 1 1 0".to_vec(),
        // A pack of one empty text, and a map that promises four billion entries.
        b"\x92\xcf\x00\x00\x01\x90\x00\x00\x00\x00\x91\xa0\xdf\xff\xff\xff\xff".to_vec(),
        fake_lines.into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_in_eight_is_hostile_and_each_comes() {
        let mut source = HostileText {
            random: RandomText::new(),
            hostile: hostile_texts(),
        };
        let kinds = source.hostile.len();
        let mut counts = vec![0; kinds];
        let mut text = Vec::new();
        for _ in 0..8_000 {
            text.clear();
            source.append(&mut text);
            if let Some(kind) = source.hostile.iter().position(|hostile| *hostile == text) {
                counts[kind] += 1;
            }
        }
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
        let hostile: u32 = counts.iter().sum();
        assert!((800..1_200).contains(&hostile), "{hostile}");
    }
}
