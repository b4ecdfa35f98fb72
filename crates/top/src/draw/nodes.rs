//! The list of nodes. It formats only the visible rows, because there may be a thousand.

use baton::inspect::{NodeRole, NodeStatus};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

use super::{line, section};
use crate::app::{App, List, Sort};
use crate::format::{age, latency, rate, thousands};
use crate::text::{Column, escape, fit, row};

/// A list of this width has room for more columns.
const WIDE: u16 = 116;
/// The width of all columns but the names of node and host, with the mark and the spaces; and the
/// width of the additional columns.
const FIXED: usize = 40;
const ADDITIONAL: usize = 52;

/// A column: its title, its sort order, its shape, its text.
type Field = (
    &'static str,
    Option<Sort>,
    Column,
    fn(&App, &NodeStatus) -> String,
);

fn fields(width: u16) -> Vec<Field> {
    let wide = width >= WIDE;
    let fixed = if wide { FIXED + ADDITIONAL } else { FIXED };
    let names = usize::from(width).saturating_sub(fixed);
    let host = names * 2 / 5;
    let mut fields: Vec<Field> = vec![
        (
            "NODE",
            Some(Sort::Name),
            Column::left(names - host),
            |_, node| escape(&node.node),
        ),
        ("ROLE", Some(Sort::Role), Column::left(9), |_, node| {
            node.role.to_string()
        }),
        ("HOST", None, Column::left(host), |_, node| {
            escape(&node.host)
        }),
        ("MSG/S", Some(Sort::Rate), Column::right(7), |app, node| {
            rate(app.view.trend.per_s(&node.node))
        }),
        (
            "IN HAND",
            Some(Sort::InHand),
            Column::right(8),
            |_, node| thousands(node.claimed),
        ),
        (
            "SEEN",
            Some(Sort::LastSeen),
            Column::right(9),
            |app, node| age(app.clock_ms().saturating_sub(node.seen_ms)),
        ),
    ];
    if wide {
        fields.extend([
            (
                "PID",
                None,
                Column::right(8),
                (|_, node| node.pid.to_string()) as fn(&App, &NodeStatus) -> String,
            ),
            ("PUBLISHED", None, Column::right(11), |_, node| {
                thousands(node.published)
            }),
            ("PROCESSED", None, Column::right(11), |_, node| {
                thousands(node.processed)
            }),
            ("FAILED", None, Column::right(9), |_, node| {
                thousands(node.failed)
            }),
            ("P99", None, Column::right(8), |_, node| {
                latency(node.latency.quantile(0.99))
            }),
        ]);
    }
    fields
}

pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let lines = usize::from(area.height.saturating_sub(2));
    let rows = app.node.visible(app.nodes.len(), lines);
    let area = section(frame, app, area, &title(app, &rows), Some(List::Nodes));
    let fields = fields(area.width);
    let arrow = if app.reversed { "▼" } else { "▲" };
    let titles: Vec<String> = fields
        .iter()
        .map(|(title, sort, ..)| match *sort == Some(app.sort) {
            true => format!("{title}{arrow}"),
            false => (*title).to_owned(),
        })
        .collect();
    let header = fields.iter().zip(&titles);
    let header = row(header.map(|((_, _, column, _), title)| (*column, title.as_str())));
    let header = Line::styled(format!("  {header}"), app.palette.faint());
    frame.render_widget(header, line(area, 0));
    if rows.is_empty() && app.nodes.is_empty() {
        let words = match app.filter.is_empty() {
            true => "  no nodes",
            false => "  no node matches the filter",
        };
        frame.render_widget(Line::styled(words, app.palette.faint()), line(area, 1));
    }
    for (below, at) in rows.enumerate() {
        let Some(node) = app.node_at(at) else {
            continue;
        };
        let texts: Vec<String> = fields.iter().map(|(.., text)| text(app, node)).collect();
        let cells = fields.iter().zip(&texts);
        let text = row(cells.map(|((_, _, column, _), text)| (*column, text.as_str())));
        let selected = at == app.node.at();
        let mark = if selected { "▸ " } else { "  " };
        let style = style(app, node, selected);
        frame.render_widget(
            Line::styled(format!("{mark}{text}"), style),
            line(area, below + 1),
        );
    }
}

fn style(app: &App, node: &NodeStatus, selected: bool) -> Style {
    let style = match node.role {
        NodeRole::Generator if app.is_news() => return app.palette.news(),
        NodeRole::Generator => app.palette.generator(),
        NodeRole::Dead => app.palette.faint(),
        _ => Style::new(),
    };
    match selected && app.focus == List::Nodes {
        true => style.patch(app.palette.selected()),
        false => style,
    }
}

fn title(app: &App, rows: &std::ops::Range<usize>) -> String {
    let nodes = app.snapshot().map_or(&[][..], |snapshot| &snapshot.nodes);
    let mut title = format!("Nodes {}", thousands(nodes.len() as u64));
    let dead = nodes
        .iter()
        .filter(|node| node.role == NodeRole::Dead)
        .count();
    if dead > 0 {
        title.push_str(&format!(", {} dead", thousands(dead as u64)));
    }
    if !app.filter.is_empty() {
        let listed = thousands(app.nodes.len() as u64);
        title.push_str(&format!(" · {listed} match /{}", fit(&app.filter, 20)));
    }
    if rows.len() < app.nodes.len() {
        title.push_str(&format!(" · {}–{}", rows.start + 1, rows.end));
    }
    title.push_str(&format!(" · by {}", app.sort.name()));
    title
}
