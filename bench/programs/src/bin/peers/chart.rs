//! docs/peers.svg: a bar for every peer and one for ours, on a logarithmic scale.

use std::fmt::Write as _;

use crate::report::{number, our_rate, thousands};
use crate::result::Row;

const WIDTH: f64 = 760.0;
/// Where the bars begin and end; to the left are the names, to the right the numbers.
const LEFT: f64 = 190.0;
const RIGHT: f64 = 670.0;
const TOP: f64 = 80.0;
const STEP: f64 = 26.0;
const BAR: f64 = 17.0;

/// Colours that are readable on white and on black, and better ones where the viewer tells.
const STYLE: &str = "\
text { font: 13px system-ui, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #57606a }
.title { font-size: 15px; font-weight: 600; fill: #24292f }
.small { font-size: 11px }
.ours { font-weight: 600; fill: #24292f }
.grid { stroke: #d0d7de; stroke-width: 1 }
.bar { fill: #8c959f }
.our-bar { fill: #1f883d }
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
    let scale = Scale::of(&bars);
    let height = TOP + STEP * bars.len() as f64 + 14.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
         aria-label=\"Messages per second of Baton and its peers\">\n<style>\n{STYLE}\n</style>\n\
         <text class=\"title\" x=\"14\" y=\"24\">Messages per second, one producer and two \
         workers (logarithmic scale)</text>\n\
         <text class=\"small\" x=\"14\" y=\"43\">{}</text>\n",
        counts(&bars)
    );
    for power in scale.first..=scale.last {
        let x = scale.x(10f64.powi(power));
        let label = number(10f64.powi(power));
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{}\"/>\n\
             <text class=\"small\" text-anchor=\"middle\" x=\"{x:.1}\" y=\"{}\">{label}</text>",
            height - 12.0,
            TOP - 7.0
        );
    }
    for (index, bar) in bars.iter().enumerate() {
        draw_bar(&mut svg, &scale, TOP + 6.0 + STEP * index as f64, bar);
    }
    svg.push_str("</svg>\n");
    svg
}

/// How many messages a run had, which is not the same for all.
fn counts(bars: &[Bar]) -> String {
    let most = bars
        .iter()
        .map(|bar| bar.messages)
        .max()
        .unwrap_or_default();
    let least = bars
        .iter()
        .map(|bar| bar.messages)
        .min()
        .unwrap_or_default();
    if most == least {
        return format!("{} messages a run", thousands(most));
    }
    let long = bars.iter().filter(|bar| bar.messages == most);
    let names: Vec<&str> = long.map(|bar| bar.name.as_str()).collect();
    format!(
        "{} messages a run: {}; {} the others",
        thousands(most),
        names.join(", "),
        thousands(least)
    )
}

fn draw_bar(svg: &mut String, scale: &Scale, y: f64, bar: &Bar) {
    let (class, text) = if bar.ours {
        ("our-bar", "ours")
    } else {
        ("bar", "peer")
    };
    // Even the slowest is to be seen.
    let (end, base) = (scale.x(bar.rate).max(LEFT + 2.0), y + BAR - 4.0);
    let _ = writeln!(
        svg,
        "<text class=\"{text}\" text-anchor=\"end\" x=\"{}\" y=\"{base}\">{}</text>\n\
         <rect class=\"{class}\" x=\"{LEFT}\" y=\"{y}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"2\"/>\n\
         <text class=\"{text}\" x=\"{:.1}\" y=\"{base}\">{}</text>",
        LEFT - 9.0,
        bar.name,
        end - LEFT,
        end + 7.0,
        number(bar.rate),
    );
}

/// Ours, at the largest number of messages, and every peer that ran; the fastest first.
fn bars(rows: &[Row]) -> Vec<Bar> {
    let peer = |row: &Row| {
        Some(Bar {
            name: format!("{} ({})", row.peer.name, row.peer.language()),
            rate: row.rate()?.0.value,
            messages: row.messages,
            ours: false,
        })
    };
    let mut bars: Vec<Bar> = rows.iter().filter_map(peer).collect();
    let most = rows.iter().filter(|row| row.rate().is_some());
    let most = most.map(|row| row.messages).max().unwrap_or_default();
    bars.extend(our_rate(rows, most).map(|rate| Bar {
        name: "Baton".to_owned(),
        rate: rate.value,
        messages: most,
        ours: true,
    }));
    bars.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    bars
}

/// From rates to places, with whole powers of ten at both ends.
struct Scale {
    first: i32,
    last: i32,
}

impl Scale {
    fn of(bars: &[Bar]) -> Self {
        let least = bars.last().map_or(100.0, |bar| bar.rate.max(1.0));
        let most = bars.first().map_or(1000.0, |bar| bar.rate.max(1.0));
        let first = least.log10().floor() as i32;
        let last = (most.log10().ceil() as i32).max(first + 1);
        Self { first, last }
    }

    fn x(&self, rate: f64) -> f64 {
        let part =
            (rate.max(1.0).log10() - f64::from(self.first)) / f64::from(self.last - self.first);
        LEFT + part * (RIGHT - LEFT)
    }
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
