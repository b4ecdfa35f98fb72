//! The last lines: the keys, and what the last key led to.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::line;
use crate::app::App;
use crate::palette::Palette;
use crate::text::{cut, escape, fit, width};

/// The keys of the last line, the most important first, because the line may be short.
const OWN: [(&str, &str); 7] = [
    ("q", "quit"),
    ("?", "help"),
    ("↑↓", "select"),
    ("Tab", "other list"),
    ("Enter", "details"),
    ("s", "sort"),
    ("/", "filter"),
];

pub(super) fn draw(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let last = usize::from(area.height.saturating_sub(1));
    let cells = usize::from(area.width);
    let notice = app.keys.as_ref().and_then(|keys| keys.notice());
    if let Some(keys) = &app.keys {
        let custom: Vec<(String, &str)> = keys
            .help()
            .into_iter()
            .map(|(key, does)| (key.to_string(), does.split(':').next().unwrap_or(does)))
            .collect();
        let custom = custom.iter().map(|(key, does)| (key.as_str(), *does));
        frame.render_widget(list(app.palette, custom, cells), line(area, 0));
    }
    let place = line(area, last);
    let words = if app.typing {
        let typed = format!("/{}", fit(&app.filter, cells.saturating_sub(32)));
        let cursor = Span::styled(" ", app.palette.selected());
        let rest = Span::styled("  Enter keeps it, Esc clears it", app.palette.faint());
        Line::from(vec![Span::raw(typed), cursor, rest])
    } else if let Some(notice) = notice {
        let own = list(app.palette, OWN[..2].iter().copied(), cells);
        let notice = cut(&escape(&notice), cells.saturating_sub(own.width() + 2));
        frame.render_widget(own.right_aligned(), place);
        Line::styled(notice, app.palette.title())
    } else {
        list(app.palette, OWN.into_iter(), cells)
    };
    frame.render_widget(words, place);
}

/// A line with as many keys as fit.
fn list<'a>(
    palette: Palette,
    keys: impl Iterator<Item = (&'a str, &'a str)>,
    cells: usize,
) -> Line<'static> {
    let mut spans = Vec::new();
    let mut used = 0;
    for (key, does) in keys {
        let gap = if used == 0 { "" } else { "  " };
        used += gap.len() + width(key) + 1 + width(does);
        if used > cells {
            break;
        }
        spans.extend([
            Span::raw(gap),
            Span::styled(key.to_owned(), palette.title()),
            Span::styled(format!(" {does}"), palette.faint()),
        ]);
    }
    Line::from(spans)
}
