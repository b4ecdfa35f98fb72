//! Draws the state: this file has the layout, the others have one section each.

mod failed;
mod footer;
mod head;
mod messages;
mod nodes;
mod takeovers;
mod window;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Paragraph, Wrap};

use crate::app::{App, List};
use crate::text::escape;

/// The smallest terminal with room for all sections.
const MIN_SIZE: (u16, u16) = (60, 20);
/// A terminal with this many lines has room for more metrics.
const TALL: u16 = 32;

/// Draws one frame.
pub(crate) fn draw(frame: &mut Frame<'_>, app: &mut App) {
    let area = frame.area();
    if area.width < MIN_SIZE.0 || area.height < MIN_SIZE.1 {
        let words = format!(
            "Make the window larger: {} × {} at least, this is {} × {}. q quits.",
            MIN_SIZE.0, MIN_SIZE.1, area.width, area.height
        );
        return frame.render_widget(Paragraph::new(words).wrap(Wrap { trim: true }), area);
    }
    let footer = if app.keys.is_some() { 2 } else { 1 };
    let metrics = messages::lines(area.height >= TALL);
    let lists = area.height - 4 - (metrics + 1) - 3 - footer;
    // The failed messages get the lines that the nodes do not need.
    let nodes = app.snapshot().map_or(0, |snapshot| snapshot.nodes.len());
    let nodes = u16::try_from(nodes).unwrap_or(u16::MAX);
    let failed = lists.saturating_sub(nodes).clamp(lists / 3, lists / 2);
    let failed = failed.clamp(2, 20);
    let [head, middle, nodes, below, foot] = Layout::vertical([
        Constraint::Length(4),
        Constraint::Length(metrics + 1),
        Constraint::Min(0),
        Constraint::Length(failed + 1),
        Constraint::Length(footer),
    ])
    .areas(area);
    footer::draw(frame, app, foot);
    match app.snapshot() {
        None => {
            let height = area.height - footer;
            connecting(frame, app, Rect { height, ..area });
        }
        Some(_) => {
            let left = (middle.width * 11 / 20).max(40);
            let columns = [Constraint::Length(left), Constraint::Min(0)];
            let [left, right] = Layout::horizontal(columns).spacing(1).areas(middle);
            messages::draw(frame, app, left);
            takeovers::draw(frame, app, right);
            nodes::draw(frame, app, nodes);
            failed::draw(frame, app, below);
            head::draw(frame, app, head);
        }
    }
    if app.open.is_some() {
        window::draw(frame, app, area);
    }
}

/// Draws the screen before the first snapshot.
fn connecting(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let mut lines = vec![
        Line::styled(
            format!("connecting to {} …", escape(&app.place)),
            app.palette.title(),
        ),
        Line::default(),
    ];
    if let Some(trouble) = &app.view.trouble {
        lines.push(Line::styled(escape(trouble), app.palette.bad()));
    }
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }), area);
}

/// Draws the edge of a section, with its title. Returns the area below.
fn section(frame: &mut Frame<'_>, app: &App, area: Rect, title: &str, list: Option<List>) -> Rect {
    let palette = app.palette;
    let style = match list {
        Some(list) if list == app.focus => palette.generator(),
        Some(_) => Style::new(),
        None => palette.title(),
    };
    let block = Block::new()
        .borders(Borders::TOP)
        .border_style(palette.faint())
        .title(Line::styled(format!(" {title} "), style));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    inner
}

/// One line of an area.
fn line(area: Rect, at: usize) -> Rect {
    let at = u16::try_from(at).unwrap_or(u16::MAX).min(area.height);
    Rect {
        y: area.y + at,
        height: 1.min(area.height - at),
        ..area
    }
}
