//! docs/peers.svg: a bar for every peer and one for ours, on a logarithmic scale.

use baton_print::thousands;
use baton_report::scale::LogScale;
use baton_report::{Anchor, Svg};

use crate::report::{number, our_rate};
use crate::result::Row;

const WIDTH: f64 = 760.0;
/// Where the bars begin and end; to the left are the names, to the right the numbers.
const LEFT: f64 = 190.0;
const RIGHT: f64 = 670.0;
const TOP: f64 = 80.0;
const STEP: f64 = 26.0;
const BAR: f64 = 17.0;
const TITLE: &str = "Messages per second, one producer and two workers (logarithmic scale)";

/// Colours that are readable on white and on black, and better ones where the viewer tells.
const STYLE: &str = "\
text { font: 13px system-ui, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #57606a }
.title { font-size: 15px; font-weight: 600; fill: #24292f }
.small { font-size: 11px }
.ours { font-weight: 600; fill: #24292f }
.grid { stroke: #d0d7de; stroke-width: 1 }
.bar { fill: #8c959f; rx: 2px }
.our-bar { fill: #1f883d; rx: 2px }
@media (prefers-color-scheme: dark) {
  text { fill: #9198a1 }
  .title, .ours { fill: #f0f6fc }
  .grid { stroke: #3d444d }
  .bar { fill: #656c76 }
  .our-bar { fill: #3fb950 }
}";

struct Bar {
    name: String,
    rate: f64,
    /// Messages of each run.
    messages: u64,
    ours: bool,
}

/// The whole file.
pub(crate) fn draw(rows: &[Row]) -> String {
    let bars = bars(rows);
    let slowest = bars.last().map_or(100.0, |bar| bar.rate.max(1.0));
    let fastest = bars.first().map_or(1000.0, |bar| bar.rate.max(1.0));
    let scale = LogScale::new(slowest, fastest, (LEFT, RIGHT));
    let height = TOP + STEP * bars.len() as f64 + 14.0;
    let mut svg = Svg::default();
    svg.text("title", (14.0, 24.0), Anchor::Start, TITLE);
    svg.text("small", (14.0, 43.0), Anchor::Start, &counts(&bars));
    for power in scale.marks(&[1.0]) {
        let x = scale.at(power);
        svg.line("grid", [x, TOP, x, height - 12.0], "");
        let place = (x, TOP - 7.0);
        svg.text("small", place, Anchor::Middle, &number(power));
    }
    for (index, bar) in bars.iter().enumerate() {
        draw_bar(&mut svg, &scale, TOP + 6.0 + STEP * index as f64, bar);
    }
    // A file of its own needs the name space, a size and its style.
    let attributes =
        format!("xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" ");
    let label = "Messages per second of Baton and its peers";
    let picture = svg.picture((WIDTH, height), &attributes, label);
    let (head, body) = picture.split_once('\n').unwrap_or_default();
    format!("{head}\n<style>\n{STYLE}\n</style>\n{body}")
}

/// How many messages a run had, which is not the same for all.
fn counts(bars: &[Bar]) -> String {
    let counts = || bars.iter().map(|bar| bar.messages);
    let max = counts().max().unwrap_or_default();
    let min = counts().min().unwrap_or_default();
    if max == min {
        return format!("{} messages a run", thousands(max));
    }
    let long = bars.iter().filter(|bar| bar.messages == max);
    let names: Vec<&str> = long.map(|bar| bar.name.as_str()).collect();
    format!(
        "{} messages a run: {}; {} the others",
        thousands(max),
        names.join(", "),
        thousands(min)
    )
}

fn draw_bar(svg: &mut Svg, scale: &LogScale, y: f64, bar: &Bar) {
    let (class, text) = if bar.ours {
        ("our-bar", "ours")
    } else {
        ("bar", "peer")
    };
    // The slowest has a visible bar, too.
    let (end, base) = (scale.at(bar.rate).max(LEFT + 2.0), y + BAR - 4.0);
    svg.text(text, (LEFT - 9.0, base), Anchor::End, &bar.name);
    svg.rect(class, [LEFT, y, end - LEFT, BAR], "");
    svg.text(text, (end + 7.0, base), Anchor::Start, &number(bar.rate));
}

/// Ours, at the largest number of messages, and every peer that ran; the fastest first.
fn bars(rows: &[Row]) -> Vec<Bar> {
    let peer = |row: &Row| {
        Some(Bar {
            name: format!("{} ({})", row.peer.name, row.peer.language()),
            rate: row.rate()?.0.median,
            messages: row.messages,
            ours: false,
        })
    };
    let mut bars: Vec<Bar> = rows.iter().filter_map(peer).collect();
    let measured = rows.iter().filter(|row| row.rate().is_some());
    let messages = measured.map(|row| row.messages).max().unwrap_or_default();
    bars.extend(our_rate(rows, messages).map(|rate| Bar {
        name: "Baton".to_owned(),
        rate: rate.median,
        messages,
        ours: true,
    }));
    bars.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    bars
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::PEERS;
    use crate::speed::Speed;

    fn row(index: usize, messages: u64, theirs: f64, ours: f64) -> Row {
        let speed = |rate| Speed {
            rate,
            redis_us: 1.0,
            rss_mb: None,
            extra: 0,
        };
        Row {
            peer: &PEERS[index],
            version: Some("1".to_owned()),
            obstacle: None,
            messages,
            theirs: vec![speed(theirs)],
            ours: vec![speed(ours)],
            recovery: None,
            failure: None,
        }
    }

    #[test]
    fn every_peer_has_a_bar_and_ours_is_the_one_of_the_longest_runs() {
        let rows = [
            row(6, 20_000, 100.0, 150_000.0),
            row(0, 200_000, 50_000.0, 1_000_000.0),
        ];
        let svg = draw(&rows);
        assert_eq!(svg.matches("class=\"bar\"").count(), 2);
        assert_eq!(svg.matches("class=\"our-bar\"").count(), 1);
        assert!(svg.contains(">1,000,000</text>"));
        assert!(svg.contains("200,000 messages a run: Baton, streams (Rust); 20,000 the others"));
    }
}
