//! docs/sizes.svg: Redis CPU per message over the size of texts, a panel for each server.

use baton_report::scale::{LogScale, Scale};
use baton_report::{Anchor, Svg};

use super::cell::{Cell, Persistence};
use super::table::{servers, text};

/// Room around and between the panels, and their size.
const LEFT: f64 = 62.0;
const TOP: f64 = 92.0;
const PANEL: (f64, f64) = (262.0, 260.0);
const GAP: f64 = 22.0;
const BELOW: f64 = 52.0;
const TITLE: &str = "Redis CPU per message, µs (both scales logarithmic)";
/// The class and the name of each line, in the order of [`Cell::redis_us`].
const LINES: [(&str, &str); 3] = [
    ("ours", "Baton"),
    ("floor", "unsafe queue (RPUSH, LPOP)"),
    ("bare", "bare SET + GET of the packs"),
];

/// Colours that are readable on white and on black, and better ones where the viewer tells.
const STYLE: &str = "\
text { font: 12px system-ui, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #57606a }
.title { font-size: 15px; font-weight: 600; fill: #24292f }
.name { font-size: 13px; font-weight: 600; fill: #24292f }
.grid { stroke: #d0d7de; stroke-width: 1 }
path { fill: none; stroke-width: 2.5; stroke-linejoin: round }
path.ours { stroke: #1f883d }
path.floor { stroke: #bc4c00; stroke-dasharray: 7 4 }
path.bare { stroke: #8c959f; stroke-dasharray: 2 3 }
circle.ours { fill: #1f883d }
circle.floor { fill: #bc4c00 }
circle.bare { fill: #8c959f }
@media (prefers-color-scheme: dark) {
  text { fill: #9198a1 }
  .title, .name { fill: #f0f6fc }
  .grid { stroke: #3d444d }
  path.ours { stroke: #3fb950 }
  path.floor { stroke: #f0883e }
  circle.ours { fill: #3fb950 }
  circle.floor { fill: #f0883e }
}";

/// The whole file. It has the cells with two workers and without persistence.
pub(super) fn draw(cells: &[Cell]) -> String {
    let usual = |cell: &&Cell| cell.persistence == Persistence::None && cell.workers == 2;
    let mut cells: Vec<Cell> = cells.iter().filter(usual).cloned().collect();
    cells.sort_by_key(|cell| cell.text_bytes);
    let servers = servers(&cells);
    let figures = || cells.iter().flat_map(Cell::redis_us).filter(|us| *us > 0.0);
    let (min, max) = (figures().fold(1.0, f64::min), figures().fold(1.0, f64::max));
    let y = LogScale::new(min, max, (TOP + PANEL.1, TOP));
    let sizes = || cells.iter().map(|cell| (cell.text_bytes as f64).log2());
    let x_range = (
        sizes().fold(f64::MAX, f64::min),
        sizes().fold(0.0, f64::max),
    );

    let mut svg = Svg::default();
    svg.text("title", (14.0, 24.0), Anchor::Start, TITLE);
    legend(&mut svg);
    for mark in y.marks(&[1.0]) {
        let place = (LEFT - 9.0, y.at(mark) + 4.0);
        svg.text("axis", place, Anchor::End, &mark_text(mark));
    }
    for (index, server) in servers.iter().enumerate() {
        let left = LEFT + index as f64 * (PANEL.0 + GAP);
        let x = Scale::new(x_range, (left + 14.0, left + PANEL.0 - 14.0));
        let cells: Vec<&Cell> = cells.iter().filter(|cell| cell.server == *server).collect();
        panel(&mut svg, left, (&x, &y), server, &cells);
    }
    let count = servers.len().max(1) as f64;
    let width = LEFT + count * (PANEL.0 + GAP);
    let height = TOP + PANEL.1 + BELOW;
    // A file of its own needs the name space, a size and its style.
    let attributes =
        format!("xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" ");
    let label = "Redis CPU per message over the size of texts";
    let picture = svg.picture((width, height), &attributes, label);
    let (head, body) = picture.split_once('\n').unwrap_or_default();
    format!("{head}\n<style>\n{STYLE}\n</style>\n{body}")
}

fn legend(svg: &mut Svg) {
    let mut x = 14.0;
    for (class, name) in LINES {
        svg.path(class, [(x, 46.0), (x + 34.0, 46.0)], "");
        svg.text("axis", (x + 42.0, 50.0), Anchor::Start, name);
        x += 76.0 + baton_report::text::width(name, 12.0);
    }
}

fn panel(svg: &mut Svg, left: f64, (x, y): (&Scale, &LogScale), server: &str, cells: &[&Cell]) {
    let bottom = TOP + PANEL.1;
    svg.text("name", (left, TOP - 10.0), Anchor::Start, server);
    for mark in y.marks(&[1.0]) {
        svg.line("grid", [left, y.at(mark), left + PANEL.0, y.at(mark)], "");
    }
    for cell in cells {
        let at = x.at((cell.text_bytes as f64).log2());
        svg.line("grid", [at, bottom, at, bottom + 4.0], "");
        let label = text(cell.text_bytes);
        let label = label.strip_suffix("iB").unwrap_or(&label).replace(' ', "");
        svg.text("axis", (at, bottom + 18.0), Anchor::Middle, &label);
    }
    let middle = (left + PANEL.0 / 2.0, bottom + 38.0);
    svg.text("axis", middle, Anchor::Middle, "size of a text");
    // Ours on top of the others.
    for (index, (class, name)) in LINES.iter().enumerate().rev() {
        let point = |cell: &&Cell| {
            let us = cell.redis_us()[index];
            (x.at((cell.text_bytes as f64).log2()), y.at(us), us)
        };
        let points = cells.iter().map(point);
        svg.path(class, points.clone().map(|(x, y, _)| (x, y)), "");
        for (x, y, us) in points {
            svg.circle(class, [x, y, 3.2], &format!("{name}: {us:.2} µs"));
        }
    }
}

/// A power of ten without needless digits.
fn mark_text(mark: f64) -> String {
    format!("{}", (mark * 1e6).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::cell;
    use super::*;

    #[test]
    fn every_server_has_a_panel_with_three_lines() {
        let cells = [
            cell("Valkey 9.1.2", 64, 2),
            cell("Valkey 9.1.2", 4096, 2),
            cell("Redis 7.0.15", 64, 2),
            cell("Redis 7.0.15", 256, 1),
        ];
        let svg = draw(&cells);
        assert_eq!(svg.matches("class=\"name\"").count(), 2);
        // A line of each panel and of the legend, and a point of each cell with two workers.
        assert_eq!(svg.matches("<path class=\"ours\"").count(), 3);
        assert_eq!(svg.matches("<circle class=\"bare\"").count(), 3);
        // The name space is an address that no viewer loads.
        let shapes = svg.replace("http://www.w3.org/2000/svg", "");
        assert_eq!(baton_report::check::troubles(&shapes), Vec::<String>::new());
    }
}
