//! The faults as tables: kind by kind, then one by one.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::words::{at, escape, many, millis, quantile, sorted};
use crate::record::{Fault, Record};

/// What became of each kind of fault.
pub(super) fn kinds(records: &[Record]) -> String {
    let mut kinds: BTreeMap<&str, Vec<&Fault>> = BTreeMap::new();
    for fault in records.iter().flat_map(|record| &record.faults) {
        kinds.entry(&fault.name).or_default().push(fault);
    }
    let mut kinds: Vec<(&str, Vec<&Fault>)> = kinds.into_iter().collect();
    // The most frequent first; those alike by name.
    kinds.sort_by_key(|(_, faults)| std::cmp::Reverse(faults.len()));
    let most = kinds.iter().flat_map(|(_, faults)| faults);
    let most = most
        .filter_map(|fault| fault.settled_ms)
        .fold(0.0, f64::max);
    let mut html = "<div class=\"wide\"><table>\n<thead><tr><th>kind</th><th>times</th>\
                    <th>settled p50</th><th>max</th><th class=\"room\">p50 and max</th>\
                    </tr></thead>\n<tbody>\n"
        .to_owned();
    for (name, faults) in kinds {
        let settled = sorted(faults.iter().filter_map(|fault| fault.settled_ms));
        let (p50, max) = (quantile(&settled, 0.5), quantile(&settled, 1.0));
        let open = faults.len() - settled.len();
        let open = match open {
            0 => String::new(),
            open => format!(" <em class=\"bad\">{open} did not settle</em>"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}{open}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(name),
            faults.len(),
            p50.map(millis).unwrap_or_default(),
            max.map(millis).unwrap_or_default(),
            meter(p50.unwrap_or(0.0), max.unwrap_or(0.0), most),
        );
    }
    html + "</tbody>\n</table></div>\n"
}

/// A small bar: solid up to the median, pale up to the maximum.
fn meter(p50: f64, max: f64, most: f64) -> String {
    let share = |ms: f64| 100.0 * ms / most.max(f64::MIN_POSITIVE);
    format!(
        "<span class=\"meter\"><i style=\"width:{:.1}%\"></i><b style=\"width:{:.1}%\"></b></span>",
        share(max),
        share(p50)
    )
}

/// Every fault. Those of a record are numbered on from those of the one before.
pub(super) fn table(records: &[Record]) -> String {
    let mut html = "<div class=\"wide\"><table class=\"faults\">\n<thead><tr><th>#</th>\
                    <th>fault</th><th>hit</th><th>at</th><th>lasted</th><th>settled after</th>\
                    <th>note</th></tr></thead>\n"
        .to_owned();
    let mut number = 0;
    for record in records {
        html.push_str("<tbody>\n");
        if records.len() > 1 {
            let count = many(record.faults.len() as u64, "fault", "faults");
            let _ = writeln!(
                html,
                "<tr><th class=\"part\" colspan=\"7\">seed {}: {count}</th></tr>",
                record.seed
            );
        }
        for fault in &record.faults {
            number += 1;
            row(&mut html, number, fault);
        }
        html.push_str("</tbody>\n");
    }
    html + "</table></div>\n"
}

fn row(html: &mut String, number: usize, fault: &Fault) {
    let hit = match fault.targets.as_slice() {
        [] => "the server".to_owned(),
        targets => escape(&targets.join(", ")),
    };
    let lasted = match (fault.to_s - fault.from_s) * 1000.0 {
        ms if ms >= 0.1 => millis(ms),
        _ => "a moment".to_owned(),
    };
    let settled = match fault.settled_ms {
        Some(ms) => millis(ms),
        None => "<em class=\"bad\">did not settle</em>".to_owned(),
    };
    let _ = writeln!(
        html,
        "<tr id=\"f{number}\"><td><a href=\"#p{number}\">{number}</a></td>\
         <th scope=\"row\">{}</th><td class=\"hit\">{hit}</td><td>{}</td><td>{lasted}</td>\
         <td>{settled}</td><td class=\"note\">{}</td></tr>",
        escape(&fault.name),
        at(fault.from_s),
        escape(&fault.note),
    );
}
