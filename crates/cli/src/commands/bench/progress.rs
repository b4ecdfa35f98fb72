//! The progress bar of a run, on a terminal.

use baton_bench::Progress;
use baton_print::thousands;
use indicatif::{ProgressBar, ProgressStyle};

use super::summary::whole;

const FORM: &str = "{prefix:>24} {bar:30} {percent:>3} %  {msg}  {eta} left";

/// A bar on stderr. Dropping it removes the bar. It draws nothing if stderr is no terminal.
pub(super) struct Bar(ProgressBar);

impl Bar {
    pub(super) fn new(name: &str, messages: u64) -> Self {
        let bar = ProgressBar::new(messages).with_prefix(name.to_owned());
        // The form is a constant; if it were wrong, the default would do.
        if let Ok(style) = ProgressStyle::with_template(FORM) {
            bar.set_style(style.progress_chars("━━╌"));
        }
        Self(bar)
    }

    pub(super) fn update(&self, now: Progress) {
        let rate = now.ended as f64 / self.0.elapsed().as_secs_f64().max(1e-3);
        let waiting = now.published.saturating_sub(now.ended);
        self.0
            .set_message(format!("{}/s, {} waiting", whole(rate), thousands(waiting)));
        self.0.set_position(now.ended);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
