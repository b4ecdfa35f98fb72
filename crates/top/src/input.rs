//! What each key does.

use baton::inspect::FailedPreview;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::app::{App, List};
use crate::window::Window;

/// The longest filter, in characters.
const MAX_FILTER_CHARS: usize = 40;
/// A page key moves the selection by this many rows.
const PAGE: isize = 10;

/// The screen's own keys.
pub(crate) const HELP: [(&str, &str); 11] = [
    ("↑ ↓", "select; PgUp PgDn Home End go further"),
    ("j k", "down and up, too"),
    ("Tab", "the other list: nodes, failed messages"),
    ("Enter", "the node's details, the failed message in full"),
    ("s", "sort the nodes: name, role, rate, in hand, last seen"),
    ("S", "the other way round"),
    (
        "/",
        "filter both lists; Enter keeps the filter, Esc clears it",
    ),
    ("!", "what is wrong, in full"),
    ("?", "this help"),
    ("Esc", "close the window, clear the filter"),
    ("q", "quit; so does Ctrl-C"),
];

/// What a key asks for that is more than a change of the state.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Quit,
    /// Read the whole text of this failed message.
    Read(FailedPreview),
}

impl App {
    /// Handles a key.
    pub(crate) fn press(&mut self, key: KeyEvent) -> Option<Action> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => Some(Action::Quit),
            _ if control || key.modifiers.contains(KeyModifiers::ALT) => None,
            code if self.typing => {
                self.type_filter(code);
                None
            }
            code if self.open.is_some() => self.press_in_window(code),
            code => self.press_in_lists(code),
        }
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Esc => {
                self.filter.clear();
                self.typing = false;
            }
            KeyCode::Enter => self.typing = false,
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) if self.filter.chars().count() < MAX_FILTER_CHARS => {
                self.filter.push(c)
            }
            _ => {}
        }
        self.list();
    }

    fn press_in_window(&mut self, code: KeyCode) -> Option<Action> {
        let open = self.open.as_mut()?;
        let page = open.height.saturating_sub(1).max(1);
        match code {
            KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q' | '?' | '!') => self.open = None,
            KeyCode::Up | KeyCode::Char('k') => open.scroll = open.scroll.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => open.scroll = open.scroll.saturating_add(1),
            KeyCode::PageUp => open.scroll = open.scroll.saturating_sub(page),
            KeyCode::PageDown | KeyCode::Char(' ') => {
                open.scroll = open.scroll.saturating_add(page);
            }
            KeyCode::Home => open.scroll = 0,
            // Drawing limits this to the end of the text.
            KeyCode::End => open.scroll = usize::MAX,
            _ => {}
        }
        None
    }

    fn press_in_lists(&mut self, code: KeyCode) -> Option<Action> {
        if let KeyCode::Char(c) = code
            && self.is_custom(c)
        {
            let selected = self.node.key().map(String::as_str);
            if let Some(keys) = &mut self.keys {
                keys.press(c, selected);
            }
            return None;
        }
        match code {
            KeyCode::Char('q') => return Some(Action::Quit),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::PageUp => self.step(-PAGE),
            KeyCode::PageDown => self.step(PAGE),
            KeyCode::Home => self.step(isize::MIN),
            KeyCode::End => self.step(isize::MAX),
            KeyCode::Tab | KeyCode::BackTab => {
                self.focus = match self.focus {
                    List::Nodes => List::Failed,
                    List::Failed => List::Nodes,
                };
            }
            KeyCode::Enter => return self.open_details(),
            KeyCode::Esc => {
                self.filter.clear();
                self.list();
            }
            KeyCode::Char('s') => {
                self.sort = self.sort.next();
                self.list();
            }
            KeyCode::Char('S') => {
                self.reversed = !self.reversed;
                self.list();
            }
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('?') => self.open_window(Window::Help),
            KeyCode::Char('!') => self.open_window(Window::Troubles),
            _ => {}
        }
        None
    }

    /// Whether a key belongs to the program that runs the fleet. Quit and help stay our own.
    pub(crate) fn is_custom(&self, key: char) -> bool {
        let custom = self.keys.as_ref().map(|keys| keys.help());
        !matches!(key, 'q' | '?')
            && custom
                .into_iter()
                .flatten()
                .any(|(listed, _)| listed == key)
    }

    fn open_details(&mut self) -> Option<Action> {
        match self.focus {
            List::Nodes => {
                let node = self.node.key()?.clone();
                self.open_window(Window::Node(node));
                None
            }
            List::Failed => {
                let preview = self.message.key()?.clone();
                self.open_window(Window::Failed(preview.clone(), None));
                Some(Action::Read(preview))
            }
        }
    }
}
