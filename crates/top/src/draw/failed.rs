//! The list of the newest failed messages.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

use super::{line, section};
use crate::app::{App, List};
use crate::format::{age, number, thousands};
use crate::text::{Column, fit, row};

pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let lines = usize::from(area.height.saturating_sub(1));
    let rows = app.message.visible(app.failed.len(), lines);
    let area = section(frame, app, area, &title(app), Some(List::Failed));
    if app.failed.is_empty() {
        let words = match app.filter.is_empty() {
            true => "  none waits in the errors store",
            false => "  no failed message matches the filter",
        };
        return frame.render_widget(Line::styled(words, app.palette.faint()), area);
    }
    let words = usize::from(area.width).saturating_sub(2 + 11 + 9 + 10 + 4);
    let reason = words / 2;
    for (below, at) in rows.enumerate() {
        let Some(failed) = app.message_at(at) else {
            continue;
        };
        let seq = match failed.seq {
            0 => "foreign".to_owned(),
            seq => number(failed.partition, seq),
        };
        let ago = match failed.at_ms {
            0 => "–".to_owned(),
            at_ms => age(app.clock_ms().saturating_sub(at_ms)),
        };
        let text = row([
            (Column::right(11), seq.as_str()),
            (Column::right(9), &ago),
            (Column::left(10), &fit(&failed.node, 10)),
            (Column::left(reason), &fit(&failed.reason, reason)),
            (
                Column::left(words - reason),
                &fit(&failed.text, words - reason),
            ),
        ]);
        let selected = at == app.message.at();
        let mark = if selected { "▸ " } else { "  " };
        let style = match selected && app.focus == List::Failed {
            true => app.palette.selected(),
            false => Style::new(),
        };
        frame.render_widget(
            Line::styled(format!("{mark}{text}"), style),
            line(area, below),
        );
    }
}

fn title(app: &App) -> String {
    let Some(snapshot) = app.snapshot() else {
        return String::new();
    };
    let mut title = format!("Failed messages {}", thousands(snapshot.errors));
    if snapshot.errors > snapshot.newest.len() as u64 {
        title.push_str(&format!(", the newest {}", snapshot.newest.len()));
    }
    if snapshot.dropped > 0 {
        title.push_str(&format!(" · {} dropped", thousands(snapshot.dropped)));
    }
    if !app.filter.is_empty() {
        title.push_str(&format!(" · {} match", app.failed.len()));
    }
    title
}
