//! The page on a phone, by night, and without a mouse.

use serde_json::json;

use crate::devtools::Browser;
use crate::support::{Page, failure, fleet_of, hostile_node, push, server, wait_status};
use crate::tab::Tab;

/// The smallest contrast of text and what is behind it that people with weak sight can read.
const CONTRAST: f64 = 4.5;

/// The contrast of an element's text. The canvas turns any way of writing a colour into numbers.
const CONTRAST_OF: &str = "(name) => {
    const pen = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const numbers = (colour) => {
        pen.clearRect(0, 0, 1, 1);
        pen.fillStyle = colour;
        pen.fillRect(0, 0, 1, 1);
        return [...pen.getImageData(0, 0, 1, 1).data];
    };
    const luminance = (colour) => numbers(colour).slice(0, 3)
        .map((part) => part / 255)
        .map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
    const element = document.querySelector(name);
    let behind = element;
    while (behind && numbers(getComputedStyle(behind).backgroundColor)[3] < 255)
        behind = behind.parentElement;
    const back = behind ? getComputedStyle(behind).backgroundColor : 'white';
    const two = [getComputedStyle(element).color, back].map(luminance).sort((a, b) => b - a);
    return (two[0] + 0.05) / (two[1] + 0.05);
}";

#[test]
fn on_a_phone_nothing_is_wider_than_the_screen() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let server = server();
    let long = "w".repeat(10_000);
    push(&server, &[failure(1, &long[..300], &long)]);
    hostile_node(&server, &long[..200]);
    let program = format!("/missing/{}", &long[..200]);
    let _broken = fleet_of(2, &server, &format!("--interval 20ms -- {program}"));
    let _fleet = fleet_of(1, &server, "--backoff 40m..50m -- false");
    wait_status(&server, "a message to wait", |status| status.delayed > 0);
    let page = Page::start(&server, &["--allow-actions"]);
    let tab = Tab::open(&browser, &page.url);
    tab.wait_until(
        "all there is to show",
        "document.querySelectorAll('#nodes tr[data-node]').length === 4
            && document.querySelectorAll('#troubles li').length > 0
            && !document.querySelector('#next-due').hidden
            && document.querySelectorAll('#failed [data-id]').length > 0
            && document.querySelectorAll('#timeline [data-epoch]').length > 0
            && document.querySelectorAll('.charts canvas').length === 3",
    );
    assert_fits(&tab);
    assert_eq!(tab.errors(), Vec::<String>::new());
}

/// Makes sure that no size of a phone or a tablet has to be scrolled sideways. A phone would make
/// its window larger to hold what is too wide: the size that was asked for is what counts.
#[track_caller]
fn assert_fits(tab: &Tab) {
    for width in [320, 390, 820] {
        tab.resize(width, 844, width < 800);
        tab.wait_until(
            &format!("a page of {width}"),
            &format!("document.documentElement.scrollWidth <= {width} && innerWidth === {width}"),
        );
    }
}

#[test]
fn text_can_be_read_by_day_and_by_night() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let server = server();
    push(&server, &[failure(1, "too long", "some text")]);
    let _fleet = fleet_of(2, &server, "--interval 20ms --error-rate 0");
    let page = Page::start(&server, &[]);
    let tab = Tab::open(&browser, &page.url);
    tab.wait_until(
        "a failed message and good books",
        "document.querySelectorAll('#failed [data-id]').length === 1
            && document.querySelector('#books').dataset.state === 'balanced'",
    );
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        tab.prefer(scheme);
        for part in [
            "body",
            "#generator",
            "#books-text",
            "#failed [data-id]",
            "#nodes td",
            "footer",
        ] {
            let contrast = tab.eval(&format!("({CONTRAST_OF})({})", json!(part)));
            assert!(
                contrast.as_f64().unwrap() >= CONTRAST,
                "{scheme} {part}: {contrast}"
            );
        }
        grounds.push(tab.eval(
            "[document.body, document.documentElement]
                .map((part) => getComputedStyle(part).backgroundColor).join()",
        ));
    }
    assert_ne!(grounds[0], grounds[1]);
}

#[test]
fn a_failed_message_can_be_read_without_a_mouse() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let server = server();
    push(&server, &[failure(1, "too long", "some text")]);
    let page = Page::start(&server, &[]);
    let tab = Tab::open(&browser, &page.url);
    tab.wait_until(
        "the failed message",
        "document.querySelectorAll('#failed [data-id]').length === 1",
    );
    tab_to(&tab, "document.activeElement.id === 'search'");
    tab_to(
        &tab,
        "document.activeElement.closest('#failed [data-id]') !== null",
    );
    tab.press("Enter");
    tab.wait_until(
        "its text",
        "document.querySelector('#message').open
            && document.querySelector('#message-text').textContent.includes('some text')",
    );
    tab.press("Escape");
    tab.wait_until(
        "the list again, at the same place",
        "!document.querySelector('#message').open
            && document.activeElement.closest('#failed [data-id]') !== null",
    );
    assert_eq!(tab.errors(), Vec::<String>::new());
}

/// Presses Tab until something has the focus.
#[track_caller]
fn tab_to(tab: &Tab, there: &str) {
    for _ in 0..60 {
        tab.press("Tab");
        if tab.eval(there) == json!(true) {
            return;
        }
    }
    panic!("Tab does not lead there: {there}");
}
