//! A live view of a fleet in the terminal.
//!
//! The tour: `app` is the state, `input` changes it by keys, `draw` shows it, `window` is what
//! opens over it, `terminal` owns the terminal, `full` reads a failed message; [`run`] puts
//! them together.

mod app;
mod cursor;
mod draw;
mod full;
mod input;
mod palette;
mod terminal;
#[cfg(test)]
mod tests;
mod window;
mod words;

use std::io;
use std::time::{Duration, Instant};

use baton::inspect::{FailedGlance, Watch};
use ratatui::crossterm::event::Event;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use app::App;
use full::Full;
use input::Action;
use palette::Palette;
use terminal::{Input, Screen};

/// How often ages and the beat move on.
const TICK: Duration = Duration::from_millis(250);

/// Keys beside the view's own, for whoever runs the fleet that is watched.
pub trait Keys: Send {
    /// What each key does, in a few words. Of words before a colon and words behind it, the
    /// footer shows only the first; the help shows all.
    fn help(&self) -> Vec<(char, &'static str)>;
    /// A key was pressed while this node was selected. Returns at once, whatever it starts.
    fn press(&mut self, key: char, selected: Option<&str>);
    /// What came of it last, in one line.
    fn notice(&self) -> Option<String>;
    /// A text to show in a window, once: its title and its lines.
    fn window(&mut self) -> Option<(String, Vec<String>)>;
}

/// Shows the fleet until somebody presses `q`. `place` says where it is, such as
/// `fleet default on redis://localhost:6379`.
pub async fn run(watch: Watch, place: &str, keys: Option<Box<dyn Keys>>) -> io::Result<()> {
    let mut screen = Screen::take()?;
    let (_input, events) = Input::start();
    let palette = Palette::from_environment();
    let app = App::new(place, palette, keys, watch.view(), Instant::now());
    show(|app| screen.draw(app), events, &watch, app).await
}

/// Draws at every reading, key and tick, until a key asks for the end.
async fn show(
    mut draw: impl FnMut(&mut App) -> io::Result<()>,
    mut events: mpsc::UnboundedReceiver<io::Result<Event>>,
    watch: &Watch,
    mut app: App,
) -> io::Result<()> {
    let mut views = watch.views();
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut reads: JoinSet<(FailedGlance, Full)> = JoinSet::new();
    loop {
        draw(&mut app)?;
        tokio::select! {
            Some(view) = views.next() => app.read(view, Instant::now()),
            now = ticks.tick() => app.tick(now.into_std()),
            Some(Ok((glance, full))) = reads.join_next() => {
                if let Some(open) = &mut app.open {
                    open.is_read(&glance, full);
                }
            }
            event = events.recv() => match event {
                Some(Ok(Event::Key(key))) => match app.press(key) {
                    Some(Action::Quit) => return Ok(()),
                    Some(Action::Read(glance)) => {
                        let inspector = watch.inspector();
                        reads.spawn(async move {
                            let full = full::read(inspector, &glance).await;
                            (glance, full)
                        });
                    }
                    None => {}
                },
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                // The thread is gone without a word: nobody could ever press `q`.
                None => return Err(io::Error::other("the keyboard cannot be read")),
            },
        }
    }
}
