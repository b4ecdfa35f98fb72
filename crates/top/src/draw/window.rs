//! The open window.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph};

use crate::app::App;

/// The widest window: long lines are hard to read.
const MAX_WIDTH: u16 = 100;

pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, screen: Rect) {
    let width = (screen.width - 4).min(MAX_WIDTH);
    // An edge and a space on either side.
    let lines = app.window_lines(usize::from(width - 4));
    let max = screen.height - 4;
    let height = u16::try_from(lines.len() + 2).unwrap_or(max).min(max);
    let palette = app.palette;
    let Some(open) = &mut app.open else {
        return;
    };
    open.height = usize::from(height - 2);
    open.scroll = open.scroll.min(lines.len().saturating_sub(open.height));
    let end = lines.len().min(open.scroll + open.height);
    let below = match lines.len() > open.height {
        true => format!(
            " {}–{end} of {} · ↑↓ scroll · Esc closes ",
            open.scroll + 1,
            lines.len()
        ),
        false => " Esc closes ".to_owned(),
    };
    let area = Rect {
        x: screen.x + (screen.width - width) / 2,
        y: screen.y + (screen.height - height) / 2,
        width,
        height,
    };
    let block = Block::bordered()
        .border_style(palette.generator())
        .title(Line::styled(format!(" {} ", open.title()), palette.title()))
        .title_bottom(Line::styled(below, palette.faint()).right_aligned())
        .padding(ratatui::widgets::Padding::horizontal(1));
    let visible: Vec<Line<'_>> = lines[open.scroll..end]
        .iter()
        .map(|line| Line::raw(line.as_str()))
        .collect();
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(visible).block(block), area);
}
