//! The takeovers, newest first.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

use super::{line, section};
use crate::app::App;
use crate::format::{age, cause, thousands};
use crate::text::{Column, escape, row};

/// The width of the columns without the two names, if there is room for all, some or few of them.
const ALL: usize = 36;
const SOME: usize = 23;
const FEW: usize = 14;
/// The least width of a name.
const MIN_NAME: usize = 10;

pub(super) fn draw(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let Some(snapshot) = app.snapshot() else {
        return;
    };
    let area = section(frame, app, area, "Takeovers", None);
    if snapshot.takeovers.is_empty() {
        return frame.render_widget(Line::styled("none so far", app.palette.faint()), area);
    }
    let width = usize::from(area.width);
    let (name, hidden): (usize, &[usize]) = match width {
        _ if width >= ALL + 2 * MIN_NAME => ((width - ALL) / 2, &[]),
        _ if width >= SOME + MIN_NAME => (width - SOME, &[2, 5]),
        _ => (width.saturating_sub(FEW), &[2, 4, 5]),
    };
    let visible = snapshot.takeovers.iter().take(area.height.into());
    for (at, takeover) in visible.enumerate() {
        let from = takeover
            .from
            .as_deref()
            .map(|from| format!("← {}", escape(from)));
        let cells = [
            (Column::right(4), thousands(takeover.epoch)),
            (Column::left(name), escape(&takeover.node)),
            (Column::left(name + 2), from.unwrap_or_default()),
            (
                Column::right(8),
                format!("{} ms", thousands(takeover.gap_ms)),
            ),
            (Column::left(8), cause(takeover.how).to_owned()),
            (
                Column::right(9),
                age(app.clock_ms().saturating_sub(takeover.at_ms)),
            ),
        ];
        let cells = cells
            .iter()
            .enumerate()
            .filter(|(at, _)| !hidden.contains(at));
        let text = row(cells.map(|(_, (column, text))| (*column, text.as_str())));
        let style = match at {
            0 if app.is_news() => app.palette.news(),
            _ => Style::new(),
        };
        frame.render_widget(Line::styled(text, style), line(area, at));
    }
}
