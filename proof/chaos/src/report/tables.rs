//! The faults as tables: kind by kind, then one by one.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use baton_report::stats::{quantile, sorted};
use baton_report::text::{escape, millis};

use super::moment;
use crate::history::{Fault, History};

/// The times until the fleet recovered from each kind of fault. The most frequent kind comes first.
pub(super) fn kinds(run: &History) -> String {
    let mut kinds: BTreeMap<&str, Vec<Option<f64>>> = BTreeMap::new();
    for fault in &run.faults {
        kinds
            .entry(&fault.name)
            .or_default()
            .push(fault.recovered_ms);
    }
    let mut kinds: Vec<(&str, Vec<Option<f64>>)> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, faults)| std::cmp::Reverse(faults.len()));
    let all = kinds.iter().flat_map(|(_, faults)| faults.iter().flatten());
    let longest = all.copied().fold(f64::MIN_POSITIVE, f64::max);
    let mut html = "<div class=\"wide\"><table>\n<thead><tr><th>kind</th><th>times</th>\
                    <th>settled p50</th><th>max</th><th class=\"room\">p50 and max</th>\
                    </tr></thead>\n<tbody>\n"
        .to_owned();
    for (name, faults) in kinds {
        let recovered = sorted(faults.iter().copied().flatten());
        let open = match faults.len() - recovered.len() {
            0 => String::new(),
            open => format!(" <em class=\"bad\">{open} did not settle</em>"),
        };
        let [p50, max] = [0.5, 1.0].map(|share| quantile(&recovered, share));
        // A small bar: solid up to the median, pale up to the maximum.
        let [p50_share, max_share] = [p50, max].map(|ms| 100.0 * ms.unwrap_or(0.0) / longest);
        // Writing to a string cannot fail.
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}{open}</th><td>{}</td><td>{}</td><td>{}</td><td>\
             <span class=\"meter\"><i style=\"width:{max_share:.1}%\"></i>\
             <b style=\"width:{p50_share:.1}%\"></b></span></td></tr>",
            escape(name),
            faults.len(),
            p50.map(millis).unwrap_or_default(),
            max.map(millis).unwrap_or_default(),
        );
    }
    html + "</tbody>\n</table></div>\n"
}

/// Every fault; nothing without any.
pub(super) fn faults(run: &History) -> String {
    if run.faults.is_empty() {
        return String::new();
    }
    let rows: String = (1..).zip(&run.faults).map(row).collect();
    format!(
        "<div class=\"wide\"><table class=\"faults\">\n<thead><tr><th>#</th><th>fault</th>\
         <th>hit</th><th>at</th><th>lasted</th><th>settled after</th><th>note</th></tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}

fn row((number, fault): (usize, &Fault)) -> String {
    let hit = match fault.targets.as_slice() {
        [] => "the server".to_owned(),
        targets => escape(&targets.join(", ")),
    };
    let lasted = match (fault.to_s - fault.from_s) * 1000.0 {
        ms if ms >= 0.1 => millis(ms),
        _ => "a moment".to_owned(),
    };
    let recovered = match fault.recovered_ms {
        Some(ms) => millis(ms),
        None => "<em class=\"bad\">did not settle</em>".to_owned(),
    };
    format!(
        "<tr id=\"f{number}\"><td><a href=\"#p{number}\">{number}</a></td>\
         <th scope=\"row\">{}</th><td class=\"hit\">{hit}</td><td>{}</td><td>{lasted}</td>\
         <td>{recovered}</td><td class=\"note\">{}</td></tr>\n",
        escape(&fault.name),
        moment(fault.from_s),
        escape(&fault.note),
    )
}
