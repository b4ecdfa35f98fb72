//! The terminal: raw mode and the other screen, given back on every way out; keys, read on a
//! thread of their own.

use std::io::{self, Stdout, stdout};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use tokio::sync::mpsc;

use crate::app::App;
use crate::draw;

/// How long the thread may take to notice that nobody wants keys any more.
const POLL: Duration = Duration::from_millis(100);

/// Whether the terminal is ours.
static TAKEN: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// The terminal, ours until this is dropped.
pub(crate) struct Screen {
    /// Never dropped: that would complain about a terminal that was closed, on that terminal,
    /// and panic.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
}

impl Screen {
    pub(crate) fn take() -> io::Result<Self> {
        // A panic would otherwise be told on the other screen, which vanishes.
        HOOK.call_once(|| {
            let tell = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                tell(panic);
            }));
        });
        TAKEN.store(true, Ordering::SeqCst);
        let taken = enable_raw_mode()
            .and_then(|()| execute!(stdout(), EnterAlternateScreen))
            .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        match taken {
            Ok(terminal) => Ok(Self {
                terminal: ManuallyDrop::new(terminal),
            }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    /// Draws one frame.
    pub(crate) fn draw(&mut self, app: &mut App) -> io::Result<()> {
        if !TAKEN.load(Ordering::SeqCst) {
            return Err(io::Error::other("another part of the program panicked"));
        }
        self.terminal.draw(|frame| draw::draw(frame, app))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back, once. There is nobody left to tell if that fails.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

/// The keys that are pressed, until this is dropped.
pub(crate) struct Input {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Input {
    /// Starts to read them.
    pub(crate) fn start() -> (Self, mpsc::UnboundedReceiver<io::Result<Event>>) {
        let (sender, events) = mpsc::unbounded_channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let event = match event::poll(POLL) {
                    Ok(false) => continue,
                    Ok(true) => event::read(),
                    Err(error) => Err(error),
                };
                let failed = event.is_err();
                if sender.send(event).is_err() || failed {
                    return;
                }
            }
        });
        (Self { stop, thread }, events)
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Whoever reads the terminal next must not share its keys with the thread. If the
        // terminal was closed there is nobody, and the thread finds its end again and again.
        let deadline = Instant::now() + 3 * POLL;
        while !self.thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(POLL / 20);
        }
    }
}
