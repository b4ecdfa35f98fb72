use std::path::Path;

use baton_report::check;

use super::*;
use crate::history::{Fault, Life, Role, Span, Tick};

/// The page of a run. A folder in the variable BATON_REPORT_DIR keeps it for a person.
fn page_of(name: &str, run: &History) -> String {
    let page = page(run);
    if let Some(folder) = std::env::var_os("BATON_REPORT_DIR") {
        std::fs::write(Path::new(&folder).join(name), &page).unwrap();
    }
    page
}

/// A run that went wrong in every way.
fn bad_run() -> History {
    let mut run = fake::run(3, 45.0, 16);
    run.verdict.lost = 2;
    run.verdict.done -= 2;
    run.verdict.duplicated = 1;
    run.verdict.findings = vec![
        "#4711 was accepted and never ended\n  12.310 s node 3 published <4702..4711>".to_owned(),
        "#17 ended twice: by node 2 at 0.90 s and by node 5 at 3.10 s".to_owned(),
    ];
    run.faults[5].recovered_ms = None;
    run.faults[5].note = "did not settle within 30 s: pending 12, claimed 0".to_owned();
    run
}

/// A run with markup and worse in every text, and times that cannot be.
fn hostile_run() -> History {
    let evil = "</title><script>alert('1')</script>\"><img src=x onerror=y>&\u{202e}\u{0}";
    let mut run = fake::run(5, 31.0, 4);
    run.command = evil.to_owned();
    run.server = evil.to_owned();
    run.durability = evil.to_owned();
    run.verdict.findings = vec![evil.to_owned()];
    run.lives.push(Life {
        node: evil.repeat(20),
        from_s: -5.0,
        to_s: 900.0,
        end: End::Killed,
        spans: vec![span(40.0, 3.0, Role::Generator { epoch: u64::MAX })],
        ticks: vec![Tick {
            at_s: 1e6,
            count: u64::from(u32::MAX),
            failed: 7,
        }],
        ..Life::default()
    });
    run.faults.push(fault("nobody", 899.9, 901.0));
    run.faults[4].recovered_ms = Some(1e9);
    for life in &mut run.lives {
        life.label.push_str(evil);
        life.node.push_str(evil);
    }
    for fault in &mut run.faults {
        fault.name.push_str(&evil.repeat(9));
        fault.note.push_str(evil);
        fault.targets.push(evil.to_owned());
    }
    run
}

/// A crowd that dies around the end of the first strip, and one node that is left. Perhaps it
/// takes the baton over from one of them.
fn shrinking_run(takes_over: bool) -> History {
    let generator = |epoch| Role::Generator { epoch };
    let mut run = History {
        seconds: 120.0,
        ..History::default()
    };
    for index in 0..13_usize {
        let to_s = [120.0, 60.1, 60.0, 59.9][index.div_ceil(4)];
        let mut life = Life {
            label: format!("node {index}"),
            to_s,
            spans: vec![span(1.0, to_s, Role::Worker)],
            ..Life::default()
        };
        match index {
            0 if takes_over => life.spans = vec![span(60.5, 120.0, generator(2))],
            0 => life.spans.clear(),
            10 if takes_over => life.spans = vec![span(1.0, 59.9, generator(1))],
            _ => {}
        }
        if index > 0 {
            life.end = End::Killed;
            run.faults.push(fault(&life.label, to_s - 0.2, to_s + 1.0));
        }
        run.lives.push(life);
    }
    run
}

fn span(from_s: f64, to_s: f64, role: Role) -> Span {
    Span { from_s, to_s, role }
}

fn fault(target: &str, from_s: f64, to_s: f64) -> Fault {
    Fault {
        name: "kill -9 a worker".to_owned(),
        targets: vec![target.to_owned()],
        from_s,
        to_s,
        ..Fault::default()
    }
}

#[test]
fn a_good_run_says_so_in_its_title() {
    let run = fake::run(7, 60.0, 25);
    let page = page_of("short.html", &run);
    let messages = thousands(run.verdict.published);
    let title = format!("<h1>25 faults, {messages} messages: every one ended exactly once</h1>");
    assert!(page.contains(&title));
    assert!(!page.contains("Findings"));
    assert!(page.contains(&run.command));
}

#[test]
fn a_bad_run_says_so_in_red_and_has_every_finding_in_full() {
    let run = bad_run();
    let page = page_of("bad.html", &run);
    let messages = thousands(run.verdict.published);
    let title = format!("2 messages lost, 1 duplicated after 16 faults and {messages} messages");
    assert!(page.contains(&format!("<h1 class=\"bad\">{title}</h1>")));
    for finding in &run.verdict.findings {
        assert!(page.contains(&escape(finding)), "{finding}");
    }
    assert!(page.contains("<em class=\"bad\">did not settle</em>"));
}

#[test]
fn a_finding_alone_is_enough_for_a_red_title() {
    let mut run = fake::run(7, 30.0, 3);
    run.verdict.findings = vec!["two generators at once".to_owned()];
    assert!(page(&run).contains("<h1 class=\"bad\">1 finding after 3 faults"));
}

#[test]
fn a_run_without_findings_whose_books_do_not_balance_is_not_called_good() {
    let mut run = fake::run(7, 30.0, 3);
    run.verdict.done -= 1;
    let page = page(&run);
    assert!(page.contains("<h1 class=\"bad\">"));
    assert!(!page.contains("exactly once</h1>"));
}

#[test]
fn every_fault_is_once_in_the_picture_and_once_in_the_table() {
    let run = fake::run(11, 600.0, 250);
    let page = page_of("long.html", &run);
    let ids = page.split(" id=\"").skip(1);
    let mut ids: Vec<&str> = ids.filter_map(|rest| rest.split('"').next()).collect();
    ids.sort_unstable();
    let numbered = (1..=250).flat_map(|number| [format!("f{number}"), format!("p{number}")]);
    let mut wanted: Vec<String> = numbered.chain(["hatch".to_owned()]).collect();
    wanted.sort_unstable();
    assert_eq!(ids, wanted);
    let table = page.split("<table class=\"faults\">").nth(1).unwrap();
    let mut rows = table.split("<tr id=").skip(1);
    for fault in &run.faults {
        let row = rows.next().unwrap();
        for text in [&fault.name, &fault.note, &fault.targets.join(", ")] {
            assert!(row.contains(&escape(text)), "{text} is not in {row}");
        }
    }
}

#[test]
fn hostile_texts_stay_texts() {
    let page = page_of("hostile.html", &hostile_run());
    assert_eq!(check::troubles(&page), Vec::<String>::new());
    assert!(page.contains("&lt;script&gt;alert(&#39;1&#39;)"));
}

#[test]
fn a_run_in_which_nothing_happened_has_a_page_that_does_not_praise_it() {
    let page = page(&History::default());
    assert!(page.contains("nothing was tried") && page.contains("Nothing happened"));
    assert!(page.ends_with("</html>\n"));
}

#[test]
fn five_nodes_at_a_time_fit_into_six_rows() {
    let mut lives = fake::run(11, 600.0, 250).lives;
    lives.retain(|life| life.label.starts_with("node"));
    assert!(lives.len() > 100);
    assert_eq!(timeline::pack(&lives, 0.5).1, 6);
}

#[test]
fn no_page_has_foreign_parts_or_shapes_outside_of_their_picture() {
    let (bad, hostile) = (bad_run(), hostile_run());
    let (short, long) = (fake::run(7, 60.0, 25), fake::run(11, 600.0, 250));
    for run in [
        bad,
        hostile,
        short,
        long,
        shrinking_run(true),
        shrinking_run(false),
    ] {
        let page = page(&run);
        assert!(page.matches("<svg ").count() > 10);
        assert_eq!(check::troubles(&page), Vec::<String>::new());
    }
}
