use std::collections::BTreeSet;
use std::path::Path;

use super::rows::pack;
use super::words::width;
use super::*;
use crate::record::{Fault, Lane, Role, Span, Tick};

/// Set, this is the folder where the pages are left, to be looked at.
const FOLDER: &str = "BATON_REPORT_DIR";

fn keep(name: &str, page: &str) {
    if let Some(folder) = std::env::var_os(FOLDER) {
        std::fs::write(Path::new(&folder).join(name), page).unwrap();
    }
}

fn page_of(record: &Record) -> String {
    page(std::slice::from_ref(record))
}

/// A run that went wrong in every way.
fn bad_run() -> Record {
    let mut record = fake::run(3, 45.0, 16);
    record.verdict.lost = 2;
    record.verdict.done -= 2;
    record.verdict.duplicated = 1;
    record.verdict.findings = vec![
        "message 4711 was accepted and never ended\n  12.310 s node 3 published 4702..4711, \
         epoch 4\n  12.322 s fault 5: Redis kill -9 and restart\n  14.020 s node 7 claimed \
         4702..4710"
            .to_owned(),
        "message 4712 was accepted and never ended".to_owned(),
        "message 17 ended twice: by node 2 at 0.90 s and by node 5 at 3.10 s".to_owned(),
    ];
    record.faults[5].settled_ms = None;
    record.faults[5].note = "did not settle within 30 s: pending 12, claimed 0".to_owned();
    record
}

/// A run with markup and worse wherever a text comes from elsewhere, and times that cannot be.
fn hostile_run() -> Record {
    let evil = "</title><script>alert('1')</script>\"><img src=x onerror=y>&\u{202e}\u{0}";
    let mut record = fake::run(5, 31.0, 4);
    record.command = evil.to_owned();
    record.server = evil.to_owned();
    record.durability = evil.to_owned();
    record.verdict.findings = vec![evil.to_owned()];
    for lane in &mut record.lanes {
        lane.label.push_str(evil);
        if !lane.node.is_empty() {
            lane.node.push_str(evil);
        }
    }
    for fault in &mut record.faults {
        fault.name.push_str(evil);
        fault.note.push_str(evil);
        fault.targets = vec![evil.to_owned()];
    }
    record.lanes.push(Lane {
        label: evil.to_owned(),
        node: evil.repeat(20),
        from_s: -5.0,
        to_s: 900.0,
        end: End::Killed,
        spans: vec![Span {
            from_s: 40.0,
            to_s: 3.0,
            role: Role::Generator { epoch: u64::MAX },
        }],
        ticks: vec![Tick {
            at_s: 1e6,
            count: u64::from(u32::MAX),
            failed: 7,
        }],
    });
    record.faults.push(Fault {
        name: evil.repeat(9),
        targets: vec![evil.to_owned(), "nobody".to_owned()],
        from_s: 899.9,
        to_s: 901.0,
        settled_ms: Some(1e9),
        note: String::new(),
    });
    record
}

/// A crowd that dies around the end of the first strip, and one node that is left. Perhaps it
/// takes the baton over from one of them.
fn shrinking_run(takes_over: bool) -> Record {
    let mut record = fake::run(9, 60.0, 2);
    record.faults.truncate(0);
    record.lanes.truncate(1);
    let span = |from_s, to_s, role| Span { from_s, to_s, role };
    for index in 1..=12 {
        let mut lane = record.lanes[0].clone();
        let to_s = [60.1, 60.0, 59.9][(index - 1) / 4];
        lane.label = format!("crowd {index}");
        (lane.from_s, lane.to_s, lane.end) = (1.0, to_s, End::Killed);
        lane.spans = vec![span(1.0, to_s, Role::Worker)];
        record.faults.push(Fault {
            name: "kill -9 a worker".to_owned(),
            targets: vec![lane.label.clone()],
            from_s: to_s - 0.2,
            to_s: to_s + 1.0,
            settled_ms: None,
            note: String::new(),
        });
        record.lanes.push(lane);
    }
    if takes_over {
        record.lanes[10].spans = vec![span(1.0, 59.9, Role::Generator { epoch: 1 })];
        record.lanes[0].spans = vec![span(60.5, 120.0, Role::Generator { epoch: 2 })];
    } else {
        record.lanes[0].spans = Vec::new();
    }
    (record.lanes[0].from_s, record.lanes[0].to_s) = (0.0, 120.0);
    record.seconds = 120.0;
    record
}

#[test]
fn a_good_run_says_so_in_its_title() {
    let record = fake::run(7, 60.0, 25);
    let page = page_of(&record);
    keep("short.html", &page);
    let title = format!(
        "<h1>25 faults, {} messages: every one ended exactly once</h1>",
        thousands(record.verdict.published)
    );
    assert!(page.contains(&title));
    assert!(!page.contains("Findings"));
    assert!(page.contains(&record.command));
}

#[test]
fn a_bad_run_says_so_in_red_and_tells_every_finding_in_full() {
    let record = bad_run();
    let page = page_of(&record);
    keep("bad.html", &page);
    assert!(
        page.contains("<h1 class=\"bad\">2 messages lost, 1 duplicated after 16 faults and 8,")
    );
    for finding in &record.verdict.findings {
        assert!(page.contains(&escape(finding)), "{finding}");
    }
    assert!(page.contains("<em class=\"bad\">did not settle</em>"));
}

#[test]
fn a_finding_alone_is_enough_for_a_red_title() {
    let mut record = fake::run(7, 30.0, 3);
    record.verdict.findings = vec!["two generators at once".to_owned()];
    assert!(page_of(&record).contains("<h1 class=\"bad\">1 finding after 3 faults"));
}

#[test]
fn a_run_without_findings_whose_books_do_not_balance_is_not_called_good() {
    let mut record = fake::run(7, 30.0, 3);
    record.verdict.done -= 1;
    let page = page_of(&record);
    assert!(page.contains("<h1 class=\"bad\">"));
    assert!(!page.contains("exactly once</h1>"));
}

#[test]
fn every_fault_is_once_in_the_picture_and_once_in_the_table() {
    let records = [fake::run(1, 60.0, 25), fake::run(11, 600.0, 250)];
    keep("long.html", &page_of(&records[1]));
    let page = page(&records);
    keep("two.html", &page);
    let ids = page.split(" id=\"").skip(1);
    let mut ids: Vec<&str> = ids.filter_map(|rest| rest.split('"').next()).collect();
    ids.sort_unstable();
    let mut wanted: Vec<String> = (1..=275)
        .flat_map(|number| [format!("f{number}"), format!("p{number}")])
        .chain(["hatch".to_owned()])
        .collect();
    wanted.sort_unstable();
    assert_eq!(ids, wanted);
    let table = page.split("<table class=\"faults\">").nth(1).unwrap();
    let mut rows = table.split("<tr id=").skip(1);
    for fault in records.iter().flat_map(|record| &record.faults) {
        let row = rows.next().unwrap();
        let targets = escape(&fault.targets.join(", "));
        for text in [escape(&fault.name), escape(&fault.note), targets] {
            assert!(row.contains(&text), "{text} is not in {row}");
        }
    }
}

#[test]
fn hostile_texts_stay_texts() {
    let page = page_of(&hostile_run());
    keep("hostile.html", &page);
    let known = "!doctype a b body circle code defs div em g h1 h2 head html i line main meta p path \
                 pattern pre rect section span strong style svg table tbody td text th thead \
                 title tr";
    let known: BTreeSet<&str> = known.split_whitespace().collect();
    let parts = page.split('<').skip(1);
    let found: BTreeSet<&str> = parts
        .map(|part| part.trim_start_matches('/'))
        .map(|part| part.split([' ', '>', '/']).next().unwrap_or_default())
        .collect();
    let strange: Vec<&&str> = found.difference(&known).collect();
    assert_eq!(strange, Vec::<&&str>::new());
    assert!(tags(&page).all(|tag| !tag.contains("alert") && !tag.contains("onerror")));
    assert!(!page.contains(['\u{202e}', '\u{0}']));
    assert!(page.contains("&lt;script&gt;alert(&#39;1&#39;)"));
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let page = page_of(&fake::run(7, 60.0, 25));
    for foreign in ["http:", "https:", "src=", "@import", "<script", "<link"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert_eq!(
        page.matches("url(").count(),
        page.matches("url(#hatch)").count()
    );
}

#[test]
fn a_run_in_which_nothing_happened_has_a_page_that_does_not_praise_it() {
    for records in [vec![], vec![Record::default()]] {
        let page = page(&records);
        assert!(page.contains("nothing was tried"));
        assert!(page.ends_with("</html>\n"));
    }
}

#[test]
fn five_nodes_at_a_time_fit_into_six_rows() {
    let record = fake::run(11, 600.0, 250);
    let nodes: Vec<Lane> = record
        .lanes
        .into_iter()
        .filter(|lane| lane.label.starts_with("node"))
        .collect();
    assert!(nodes.len() > 100);
    assert_eq!(pack(&nodes, 0.5).count, 6);
}

#[test]
fn nothing_lies_outside_of_its_picture() {
    let long = fake::run(11, 600.0, 250);
    let odd = [
        bad_run(),
        hostile_run(),
        shrinking_run(true),
        shrinking_run(false),
    ];
    for record in odd.into_iter().chain([fake::run(7, 60.0, 25), long]) {
        let page = page_of(&record);
        let pictures: Vec<&str> = page.split("<svg ").skip(1).collect();
        assert!(pictures.len() > 10);
        for picture in pictures {
            let picture = picture.split("</svg>").next().unwrap();
            if let Some(view) = attribute(picture, "viewBox") {
                let view = numbers(view);
                tags(picture).for_each(|tag| lies_within(tag, view[2], view[3]));
                words_lie_within(picture, view[2]);
            }
        }
    }
}

/// What stands between `<` and `>`, for each tag.
fn tags(html: &str) -> impl Iterator<Item = &str> {
    let parts = html.split('<').skip(1);
    parts.map(|part| part.split('>').next().unwrap_or_default())
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = tag.split_once(&format!(" {name}=\"")).or_else(|| {
        let rest = tag.strip_prefix(name)?.strip_prefix("=\"")?;
        Some(("", rest))
    })?;
    rest.split('"').next()
}

fn numbers(text: &str) -> Vec<f64> {
    let parts = text.split(|letter: char| letter == ' ' || letter.is_ascii_uppercase());
    let parts = parts.filter(|part| !part.is_empty());
    parts.map(|part| part.parse().unwrap()).collect()
}

/// Every corner of a shape. Paths are only of the commands M, L, C, V and Z.
fn lies_within(tag: &str, width: f64, height: f64) {
    let number = |name: &str| attribute(tag, name).map_or(0.0, |text| numbers(text)[0]);
    let (r, wide) = (number("r"), number("stroke-width") / 2.0);
    let (x, y) = (number("x"), number("y"));
    let (cx, cy) = (number("cx"), number("cy"));
    let mut corners = vec![(x, y), (x + number("width"), y + number("height"))];
    corners.extend([(number("x1"), number("y1")), (number("x2"), number("y2"))]);
    if tag.starts_with("circle") {
        corners.extend([(cx - r, cy - r), (cx + r, cy + r)]);
    }
    let path = attribute(tag, "d").unwrap_or_default();
    assert!(!path.contains(['m', 'l', 'c', 'h', 'v']), "{tag}");
    for part in path.split('M').skip(1) {
        let (points, depth) = part.split_once('V').unwrap_or((part, "0"));
        corners.push((0.0, numbers(depth)[0]));
        for point in numbers(points).chunks(2) {
            corners.extend([(point[0] - wide, point[1]), (point[0] + wide, point[1])]);
        }
    }
    for (x, y) in corners {
        let inside = (0.0..=width).contains(&x) && (0.0..=height).contains(&y);
        assert!(inside, "({x}, {y}) is not within {width} x {height}: {tag}");
    }
}

/// The texts, as wide as they are thought to be.
fn words_lie_within(picture: &str, most: f64) {
    for part in picture.split("<text ").skip(1) {
        let (tag, rest) = part.split_once('>').unwrap();
        let x: f64 = attribute(tag, "x").unwrap().parse().unwrap();
        let wide = width(rest.split('<').next().unwrap(), 11.0);
        let (from, to) = match attribute(tag, "text-anchor") {
            Some("end") => (x - wide, x),
            Some("middle") => (x - wide / 2.0, x + wide / 2.0),
            _ => (x, x + wide),
        };
        assert!(from >= 0.0 && to <= most, "{from} to {to}: {part}");
    }
}
