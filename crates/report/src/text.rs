//! Texts from elsewhere, made fit for a page, and times in few digits.

/// Escapes a text: it cannot become markup, and it cannot hide or reverse the letters around it.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(letter),
            letter if is_invisible(letter) => safe.extend(letter.escape_unicode()),
            letter => safe.push(letter),
        }
    }
    safe
}

/// Control characters, and characters that only change how others are drawn.
pub(crate) fn is_invisible(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(letter, '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The first letters of a text, at most `max`, on one line.
pub fn shorten(text: &str, max: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= max {
        return line;
    }
    let kept: String = line.chars().take(max.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// An estimate of a text's width in a font of this size. A program that writes SVG cannot ask
/// the font, so the estimate is rather too large than too small.
pub fn width(text: &str, size: f64) -> f64 {
    let letters = text.chars().map(|letter| match letter {
        'i' | 'j' | 'l' | ' ' | '.' | ',' | ':' | '-' | '\'' => 0.38,
        'm' | 'w' | 'M' | 'W' => 0.95,
        letter if letter.is_ascii_uppercase() => 0.72,
        letter if letter.is_ascii() => 0.62,
        _ => 1.1,
    });
    letters.sum::<f64>() * size
}

/// Milliseconds, as exact as is of use.
pub fn millis(ms: f64) -> String {
    match ms {
        ms if ms >= 9_950.0 => format!("{:.1} s", ms / 1000.0),
        ms if ms >= 999.5 => format!("{:.2} s", ms / 1000.0),
        ms if ms >= 9.95 => format!("{ms:.0} ms"),
        ms => format!("{ms:.1} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_few_digits() {
        assert_eq!(
            [0.42, 48.3, 999.7, 1250.0, 31_000.0].map(millis),
            ["0.4 ms", "48 ms", "1.00 s", "1.25 s", "31.0 s"]
        );
    }

    #[test]
    fn an_escaped_text_has_no_markup_and_no_hidden_letters() {
        assert_eq!(
            escape("<b a=\"1\" c='2'>&\u{202e}\u{0}\n"),
            "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;\\u{202e}\\u{0}\n"
        );
    }

    #[test]
    fn a_shortened_text_keeps_its_beginning() {
        assert_eq!(shorten("kill -9\n all", 20), "kill -9 all");
        assert_eq!(shorten("ääääää", 4), "äää…");
    }
}
