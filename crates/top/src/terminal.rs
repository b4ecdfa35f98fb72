//! The terminal: raw mode and the alternate screen, which are left on every way out; a thread that
//! reads the keys.

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

/// How often the thread checks whether it should stop.
const POLL: Duration = Duration::from_millis(100);

/// Whether the terminal is in raw mode on the alternate screen.
static TAKEN: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// The terminal in raw mode on the alternate screen; dropping it restores the terminal.
pub(crate) struct Screen {
    /// Never dropped: on a closed terminal, its destructor would print an error there and panic.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
}

impl Screen {
    pub(crate) fn take() -> io::Result<Self> {
        // Without this hook a panic message would be lost with the alternate screen.
        HOOK.call_once(|| {
            let print_panic = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                print_panic(panic);
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
                restore();
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
        restore();
    }
}

/// Restores the terminal, once. If that fails, there is no way to report it.
fn restore() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

/// A thread that reads keys until this is dropped.
pub(crate) struct Keyboard {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Keyboard {
    /// Starts to read keys.
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

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The next reader of the terminal must not lose keys to the thread, so this waits for it. The
        // deadline is for a closed terminal, where the thread may not end.
        let deadline = Instant::now() + 3 * POLL;
        while !self.thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(POLL / 20);
        }
    }
}
