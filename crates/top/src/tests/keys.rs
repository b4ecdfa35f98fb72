//! What each key does to the state.

use std::sync::Mutex;

use ratatui::crossterm::event::KeyEventKind;

use super::*;
use crate::app::{List, Sort};

fn names(app: &App) -> Vec<&str> {
    let rows = 0..app.nodes.len();
    rows.filter_map(|row| Some(app.node_at(row)?.node.as_str()))
        .collect()
}

fn selected(app: &App) -> Option<&str> {
    app.node.key().map(String::as_str)
}

#[test]
fn nodes_are_sorted_by_what_was_asked_for_and_the_selection_stays() {
    let mut app = app_of(view(snapshot()));
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Char('j'));
    assert_eq!(selected(&app), Some("n2"));
    for (sort, order, reversed) in [
        (
            Sort::Role,
            ["n1", "n2", "n3", "n0"],
            ["n0", "n2", "n3", "n1"],
        ),
        (
            Sort::Rate,
            ["n2", "n1", "n3", "n0"],
            ["n0", "n3", "n1", "n2"],
        ),
        (
            Sort::InHand,
            ["n2", "n3", "n0", "n1"],
            ["n0", "n1", "n3", "n2"],
        ),
        (
            Sort::LastSeen,
            ["n3", "n1", "n2", "n0"],
            ["n0", "n2", "n1", "n3"],
        ),
        (
            Sort::Name,
            ["n0", "n1", "n2", "n3"],
            ["n3", "n2", "n1", "n0"],
        ),
    ] {
        press(&mut app, KeyCode::Char('s'));
        assert_eq!((app.sort, names(&app)), (sort, order.to_vec()));
        press(&mut app, KeyCode::Char('S'));
        assert_eq!(names(&app), reversed);
        press(&mut app, KeyCode::Char('S'));
        assert_eq!(selected(&app), Some("n2"));
    }
}

#[test]
fn the_selection_stays_on_its_node_when_others_come_and_go() {
    let mut app = app_of(view(snapshot()));
    press(&mut app, KeyCode::End);
    assert_eq!(selected(&app), Some("n3"));
    let mut next = snapshot();
    next.nodes.remove(0);
    next.nodes.insert(1, node("n11", NodeRole::Worker, 0, 0));
    next.nodes.push(node("n9", NodeRole::Worker, 0, 0));
    let now = app.now;
    app.update(Arc::new(view(next)), now);
    assert_eq!(names(&app), ["n1", "n11", "n2", "n3", "n9"]);
    assert_eq!(selected(&app), Some("n3"));
    let mut next = snapshot();
    next.nodes.truncate(3);
    app.update(Arc::new(view(next)), now);
    assert_eq!(selected(&app), Some("n2"));
}

#[test]
fn a_filter_is_typed_kept_and_cleared() {
    let mut app = app_of(view(snapshot()));
    // While the user types a filter, no letter is a command.
    type_in(&mut app, "/RiVerbankq");
    assert_eq!((app.filter.as_str(), app.typing), ("RiVerbankq", true));
    assert!(names(&app).is_empty());
    assert_eq!(selected(&app), None);
    press(&mut app, KeyCode::Backspace);
    assert_eq!(names(&app).len(), 4);
    press(&mut app, KeyCode::Enter);
    assert_eq!((app.filter.as_str(), app.typing), ("RiVerbank", false));
    press(&mut app, KeyCode::Esc);
    assert_eq!(app.filter, "");
    type_in(&mut app, "/worker");
    assert_eq!(names(&app), ["n2", "n3"]);
    press(&mut app, KeyCode::Esc);
    assert_eq!((names(&app).len(), app.typing), (4, false));
    type_in(&mut app, "/12001");
    assert_eq!(app.failed, [0]);
    for _ in 0..100 {
        press(&mut app, KeyCode::Char('x'));
    }
    assert_eq!(app.filter.chars().count(), 40);
}

#[test]
fn the_newest_failed_message_is_selected_until_the_user_selects_another() {
    let mut app = app_of(view(snapshot()));
    let now = app.now;
    let seq = |app: &App| app.message.key().map(|preview| preview.seq);
    let mut next = snapshot();
    next.newest.insert(0, preview(12_100, "late", "order 18"));
    app.update(Arc::new(view(next.clone())), now);
    assert_eq!(seq(&app), Some(12_100));
    press(&mut app, KeyCode::Tab);
    assert_eq!(app.focus, List::Failed);
    next.newest.insert(0, preview(12_200, "late", "order 19"));
    app.update(Arc::new(view(next)), now);
    assert_eq!((seq(&app), app.message.at()), (Some(12_100), 1));
}

#[test]
fn q_and_control_c_quit_and_windows_close_first() {
    let mut app = app_of(view(snapshot()));
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    press(&mut app, KeyCode::Char('?'));
    assert_eq!(app.press(control_c), Some(Action::Quit));
    assert_eq!(press(&mut app, KeyCode::Char('q')), None);
    assert!(app.open.is_none());
    let mut released = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
    released.kind = KeyEventKind::Release;
    assert_eq!(app.press(released), None);
    let with_control = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::CONTROL);
    assert_eq!(app.press(with_control), None);
    assert_eq!(press(&mut app, KeyCode::Char('q')), Some(Action::Quit));
    app.typing = true;
    assert_eq!(app.press(control_c), Some(Action::Quit));
}

/// Shares the pressed keys with the test.
struct Shared(Arc<Mutex<CustomKeys>>);

impl Keys for Shared {
    fn help(&self) -> Vec<(char, &'static str)> {
        let mut help = self.0.lock().unwrap().help();
        help.extend([('q', "cannot be taken"), ('?', "neither")]);
        help
    }

    fn press(&mut self, key: char, selected: Option<&str>) {
        self.0.lock().unwrap().press(key, selected);
    }

    fn notice(&self) -> Option<String> {
        None
    }

    fn window(&mut self) -> Option<(String, Vec<String>)> {
        None
    }
}

#[test]
fn custom_keys_come_first_unless_a_window_or_the_filter_is_open() {
    let keys = Arc::new(Mutex::new(CustomKeys::default()));
    let mut app = app_of(view(snapshot()));
    app.keys = Some(Box::new(Shared(Arc::clone(&keys))));
    press(&mut app, KeyCode::Char('j'));
    assert_eq!(selected(&app), Some("n1"));
    press(&mut app, KeyCode::Char('k'));
    assert_eq!(selected(&app), Some("n1"));
    press(&mut app, KeyCode::Char('?'));
    press(&mut app, KeyCode::Char('w'));
    press(&mut app, KeyCode::Esc);
    type_in(&mut app, "/w");
    press(&mut app, KeyCode::Esc);
    assert_eq!(keys.lock().unwrap().pressed, ["k n1"]);
    assert_eq!(press(&mut app, KeyCode::Char('q')), Some(Action::Quit));
}
