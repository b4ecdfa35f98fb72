//! A live screen of a fleet in the terminal.
//!
//! The tour: `app` is the state, `input` has what each key does to it, `draw` draws it; `window` has
//! the windows that open over it, `full_text` reads a failed message in full, `terminal` owns the
//! terminal. `text` and `format` escape and format what is drawn. [`run`] puts them together.

mod app;
mod draw;
mod format;
mod full_text;
mod input;
mod palette;
mod selection;
mod terminal;
#[cfg(test)]
mod tests;
mod text;
mod window;

use std::io;
use std::time::{Duration, Instant};

use baton::inspect::{FailedPreview, Watch};
use ratatui::crossterm::event::Event;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use app::App;
use full_text::FullText;
use input::Action;
use palette::Palette;
use terminal::{Keyboard, Screen};

/// How often the screen updates without news.
const TICK: Duration = Duration::from_millis(250);

/// Keys beside the screen's own, for a program that also runs the fleet.
pub trait Keys: Send {
    /// Each key, and what it does in a few words. The footer has only the words before a colon; the
    /// help has all of them.
    fn help(&self) -> Vec<(char, &'static str)>;
    /// Handles a key; `selected` is the selected node. It must not block.
    fn press(&mut self, key: char, selected: Option<&str>);
    /// What the last key led to, in one line.
    fn notice(&self) -> Option<String>;
    /// The title and the lines of a text to open in a window. Returns each text once.
    fn window(&mut self) -> Option<(String, Vec<String>)>;
}

/// Draws the fleet until the user presses `q`. `place` names it, such as
/// `fleet default on redis://localhost:6379`.
pub async fn run(watch: Watch, place: &str, keys: Option<Box<dyn Keys>>) -> io::Result<()> {
    let mut screen = Screen::take()?;
    let (_keyboard, events) = Keyboard::start();
    let palette = Palette::from_environment();
    let app = App::new(place, palette, keys, watch.view(), Instant::now());
    event_loop(|app| screen.draw(app), events, &watch, app).await
}

/// Draws after every view, key and tick, until a key quits.
async fn event_loop(
    mut draw: impl FnMut(&mut App) -> io::Result<()>,
    mut events: mpsc::UnboundedReceiver<io::Result<Event>>,
    watch: &Watch,
    mut app: App,
) -> io::Result<()> {
    let mut views = watch.views();
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut reads: JoinSet<(FailedPreview, FullText)> = JoinSet::new();
    loop {
        draw(&mut app)?;
        tokio::select! {
            Some(view) = views.next() => app.update(view, Instant::now()),
            now = ticks.tick() => app.tick(now.into_std()),
            Some(Ok((preview, text))) = reads.join_next() => {
                if let Some(open) = &mut app.open {
                    open.set_full_text(&preview, text);
                }
            }
            event = events.recv() => match event {
                Some(Ok(Event::Key(key))) => match app.press(key) {
                    Some(Action::Quit) => return Ok(()),
                    Some(Action::Read(preview)) => {
                        let inspector = watch.inspector();
                        reads.spawn(async move {
                            let text = full_text::read(inspector, &preview).await;
                            (preview, text)
                        });
                    }
                    None => {}
                },
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                // The thread has ended without an error: no key would ever arrive.
                None => return Err(io::Error::other("the keyboard cannot be read")),
            },
        }
    }
}
