//! The first four lines: the fleet, its generator, the last takeover, its health.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::line;
use crate::app::{App, warnings};
use crate::format::{age, rate, sentence, thousands};
use crate::text::{cut, escape, fit, width};

/// The width of the track, and the distance of its dots.
const TRACK: usize = 12;
const APART: usize = 4;
/// The widest version of a server, and the widest level of durability.
const MAX_VERSION: usize = 20;
const MAX_LEVEL: usize = 12;

pub(super) fn draw(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let Some(snapshot) = app.snapshot() else {
        return;
    };
    let cells = usize::from(area.width);
    let mut version = fit(&snapshot.server.version, MAX_VERSION);
    if let Some(level) = &snapshot.durability.level {
        version = format!("{version} · {}", fit(level, MAX_LEVEL));
    }
    let place = cut(
        &format!("baton · {}", escape(&app.place)),
        cells.saturating_sub(width(&version) + 1),
    );
    frame.render_widget(Line::styled(place, app.palette.title()), line(area, 0));
    let version = Line::styled(version, app.palette.faint()).right_aligned();
    frame.render_widget(version, line(area, 0));
    frame.render_widget(generator(app), line(area, 1));
    let (words, style) = last_takeover(app);
    frame.render_widget(Line::styled(cut(&words, cells), style), line(area, 2));
    frame.render_widget(health(app, cells), line(area, 3));
    if app.view.trouble.is_some() {
        redis_away(frame, app, area);
    }
}

fn generator(app: &App) -> Line<'static> {
    let palette = app.palette;
    let Some(snapshot) = app.snapshot() else {
        return Line::default();
    };
    let style = match app.is_news() {
        true => palette.news(),
        false => palette.generator(),
    };
    let heart = match (app.beating, app.beat % 2) {
        (true, 0) => Span::styled("♥ ", palette.bad()),
        (true, _) => Span::styled("♡ ", palette.bad()),
        (false, _) => Span::styled("♡ ", palette.faint()),
    };
    let generator = &snapshot.generator;
    let mut spans = vec![heart];
    match (&generator.node, generator.since_ms) {
        (Some(node), since) => {
            let since_ms = app.clock_ms().saturating_sub(since.unwrap_or_default());
            spans.push(Span::styled(format!("generator {}", escape(node)), style));
            spans.push(Span::raw(format!(
                "   epoch {}   for {}   ",
                thousands(generator.epoch),
                age(since_ms)
            )));
        }
        (None, _) => {
            spans.push(Span::styled("no generator", palette.bad()));
            spans.push(Span::raw(format!("   last epoch {}   ", generator.epoch)));
        }
    }
    let per_s = app.view.trend.points().last();
    let per_s = rate(per_s.map_or(0.0, |point| point.published_per_s));
    let style = match app.beating {
        true => Style::new(),
        false => palette.faint(),
    };
    spans.push(match snapshot.paused.generator_since_ms {
        Some(_) => Span::styled("paused ", palette.warning()),
        None => Span::raw(format!("{per_s} msg/s ")),
    });
    spans.push(Span::styled(track(app), style));
    Line::from(spans)
}

/// Dots that move from left to right while the generator publishes.
fn track(app: &App) -> String {
    let dot = |at: usize| app.beating && (at + APART - app.beat % APART).is_multiple_of(APART);
    (0..TRACK)
        .map(|at| if dot(at) { '•' } else { '─' })
        .collect()
}

/// The last takeover, and its style.
fn last_takeover(app: &App) -> (String, Style) {
    match app
        .snapshot()
        .and_then(|snapshot| snapshot.takeovers.first())
    {
        None => ("no takeover so far".to_owned(), app.palette.faint()),
        Some(takeover) if app.is_news() => {
            (format!("» {}", sentence(takeover)), app.palette.news())
        }
        Some(takeover) => {
            let ago = age(app.clock_ms().saturating_sub(takeover.at_ms));
            (format!("» {}, {ago} ago", sentence(takeover)), Style::new())
        }
    }
}

/// The first trouble, or the first warning, or that the fleet is well. A pause is a warning, and so is a
/// handler that cannot work: the fleet may go on without it. Lost messages are a red warning: the fleet is
/// well and goes on.
fn health(app: &App, cells: usize) -> Line<'static> {
    let troubles = &app.view.health.troubles;
    let warnings = app.snapshot().map_or(vec![], |snapshot| warnings(snapshot));
    let (sign, first, style) = match (troubles.first(), warnings.first()) {
        (Some(trouble), _) => ("✗", trouble, app.palette.bad()),
        (None, Some(warning)) if warning.is_loss => ("!", &warning.words, app.palette.bad()),
        (None, Some(warning)) => ("!", &warning.words, app.palette.warning()),
        (None, None) => return Line::styled("✓ the fleet is well", app.palette.good()),
    };
    let others = troubles.len() + warnings.len() - 1;
    let more = match others {
        0 => " (! in full)".to_owned(),
        others => format!(" (+{others}, ! in full)"),
    };
    let words = format!("{sign} {}", escape(first));
    let words = cut(&words, cells.saturating_sub(width(&more)));
    Line::from(vec![
        Span::styled(words, style),
        Span::styled(more, app.palette.faint()),
    ])
}

/// Says that Redis is away, and marks the screen as the last known state.
fn redis_away(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let screen = frame.area();
    frame.buffer_mut().set_style(screen, app.palette.stale());
    let silent = app.view.at.map(|at| app.now.saturating_duration_since(at));
    let silent = age(silent.map_or(0, |silent| silent.as_millis() as u64));
    let trouble = escape(app.view.trouble.as_deref().unwrap_or_default());
    // Every other trouble is an answer, such as a refusal.
    let words = match trouble.strip_prefix("Redis is not available: ") {
        Some(why) => format!(" Redis has not answered for {silent}: last known state — {why}"),
        None => format!(" Nothing new for {silent}: last known state — {trouble}"),
    };
    let cells = usize::from(area.width);
    let words = format!("{:<cells$}", cut(&words, cells));
    let top = line(area, 0);
    frame.buffer_mut().set_style(top, Style::reset());
    frame.render_widget(Line::styled(words, app.palette.banner()), top);
}
