//! A live view of a fleet in the terminal.

use std::io;

use baton::Watch;

/// Keys beside the view's own, for whoever runs the fleet that is watched.
pub trait Keys: Send {
    /// What each key does, in a few words.
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
    let _ = (watch, place, keys);
    Ok(())
}
