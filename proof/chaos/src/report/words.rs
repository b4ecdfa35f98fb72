//! Figures and foreign texts, made fit for a page.

/// Any text as text: nothing in it is markup, and nothing in it hides or turns its neighbours.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(letter),
            letter if is_unseen(letter) => safe.extend(letter.escape_unicode()),
            letter => safe.push(letter),
        }
    }
    safe
}

/// Control characters, and those that only change how others are shown.
fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(letter, '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// At most `most` letters of a text, on one line.
pub(super) fn cut(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= most {
        return line;
    }
    let kept: String = line.chars().take(most.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// About how wide a text is in a font of this size. Nothing here can ask the font, so it is
/// rather too much than too little.
pub(super) fn width(text: &str, size: f64) -> f64 {
    let letters = text.chars().map(|letter| match letter {
        'i' | 'j' | 'l' | ' ' | '.' | ',' | ':' | '-' | '\'' => 0.38,
        'm' | 'w' | 'M' | 'W' => 0.95,
        letter if letter.is_ascii_uppercase() => 0.72,
        letter if letter.is_ascii() => 0.62,
        _ => 1.1,
    });
    letters.sum::<f64>() * size
}

/// A count with its thousands set apart.
pub(super) fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut words = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            words.push(',');
        }
        words.push(digit);
    }
    words
}

/// A count and what is counted.
pub(super) fn many(count: u64, one: &str, more: &str) -> String {
    format!(
        "{} {}",
        thousands(count),
        if count == 1 { one } else { more }
    )
}

/// Milliseconds, as exact as is of use.
pub(super) fn millis(ms: f64) -> String {
    match ms {
        ms if ms >= 9_950.0 => format!("{:.1} s", ms / 1000.0),
        ms if ms >= 999.5 => format!("{:.2} s", ms / 1000.0),
        ms if ms >= 9.95 => format!("{ms:.0} ms"),
        ms => format!("{ms:.1} ms"),
    }
}

/// Seconds since the run began.
pub(super) fn at(seconds: f64) -> String {
    format!("{seconds:.2} s")
}

/// In order, without what is no number.
pub(super) fn sorted(figures: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut figures: Vec<f64> = figures.filter(|figure| figure.is_finite()).collect();
    figures.sort_by(f64::total_cmp);
    figures
}

/// The smallest of sorted figures that at least this share does not exceed.
pub(super) fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escaped_text_has_no_markup_and_no_hidden_letters() {
        assert_eq!(
            escape("<b a=\"1\" c='2'>&\u{202e}\u{0}\n"),
            "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;\\u{202e}\\u{0}\n"
        );
    }

    #[test]
    fn a_cut_text_keeps_its_beginning() {
        assert_eq!(cut("kill -9\n all", 20), "kill -9 all");
        assert_eq!(cut("ääääää", 4), "äää…");
    }

    #[test]
    fn quantiles_are_figures_that_were_measured() {
        let hundred = sorted((1..=100).rev().map(f64::from));
        assert_eq!(quantile(&hundred, 0.5), Some(50.0));
        assert_eq!(quantile(&hundred, 0.99), Some(99.0));
        assert_eq!(quantile(&hundred, 1.0), Some(100.0));
        assert_eq!(quantile(&[7.0], 0.5), Some(7.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn figures_are_told_in_few_digits() {
        assert_eq!(
            [0.42, 48.3, 999.7, 1250.0, 31_000.0].map(millis),
            ["0.4 ms", "48 ms", "1.00 s", "1.25 s", "31.0 s"]
        );
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(many(1, "fault", "faults"), "1 fault");
    }
}
