//! Flags of `baton run` that generate by a crontab, and the words of `baton cron`.

use baton::{Cron, CronSpec, Missed};
use clap::Subcommand;

use crate::usage_error::UsageError;

/// The zone of an entry that names none.
const UTC: &str = "UTC";
/// Beginnings of what can stand in the field of weekdays, beside figures and signs.
const WEEKDAYS: [&str; 7] = ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"];

/// When messages are generated, if not every interval.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Cron")]
pub(crate) struct CronArgs {
    /// Generate a message at each tick of a cron expression, such as 'report=0 10 * * MON-FRI
    /// Europe/Vienna'; may be repeated, and the variable has one entry per line. Six fields begin with
    /// seconds. The zone is UTC unless named
    #[arg(long, value_name = "NAME=SPEC [ZONE]", env = "BATON_CRON", conflicts_with_all = ["interval", "source"],
          value_parser = entries)]
    cron: Vec<Entries>,
    /// Text of the messages of --cron; {name} is the entry's name, {time} the time of the tick
    /// [default: {name}@{time}]
    #[arg(long, value_name = "TEXT", env = "BATON_CRON_TEXT", requires = "cron")]
    cron_text: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum CronCommand {
    /// Print the next ticks of a cron expression, in UTC and in its zone
    #[command(after_help = super::help::CRON_NEXT)]
    Next {
        /// How many
        #[arg(value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
        count: u16,
        /// The expression, and a time zone if it is not UTC
        #[arg(value_name = "SPEC [ZONE]", value_parser = spec)]
        spec: Box<CronSpec>,
    },
}

/// One entry per line.
#[derive(Debug, Clone)]
struct Entries(Vec<Entry>);

#[derive(Debug, Clone)]
struct Entry {
    name: String,
    spec: String,
    zone: String,
}

impl CronArgs {
    /// The source that the flags ask for.
    pub(crate) fn source(&self, missed: Missed) -> Result<Option<Cron>, UsageError> {
        if self.cron.is_empty() {
            return Ok(None);
        }
        let entries = self.cron.iter().flat_map(|entries| &entries.0);
        let mut cron = Cron::new().missed(missed);
        for Entry { name, spec, zone } in entries {
            let added = cron.entry(name, spec, zone);
            cron = added.map_err(|error| UsageError(format!("--cron: {error}")))?;
        }
        Ok(Some(match &self.cron_text {
            Some(text) => cron.text(text),
            None => cron,
        }))
    }
}

fn entries(text: &str) -> Result<Entries, String> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let entries = lines.map(entry).collect::<Result<Vec<_>, _>>()?;
    match entries.is_empty() {
        true => Err("write NAME=SPEC, such as 'report=0 10 * * *'".to_owned()),
        false => Ok(Entries(entries)),
    }
}

fn entry(line: &str) -> Result<Entry, String> {
    let Some((name, spec)) = line.split_once('=') else {
        return Err("the name is missing: write NAME=SPEC, such as 'report=0 10 * * *'".to_owned());
    };
    let (spec, zone) = split_zone(spec);
    let entry = Entry {
        name: name.trim().to_owned(),
        spec,
        zone,
    };
    let checked = Cron::new().entry(&entry.name, &entry.spec, &entry.zone);
    checked.map_err(|error| error.to_string())?;
    Ok(entry)
}

fn spec(text: &str) -> Result<Box<CronSpec>, String> {
    let (spec, zone) = split_zone(text);
    let spec = CronSpec::new(&spec, &zone).map_err(|error| error.to_string())?;
    Ok(Box::new(spec))
}

/// An expression and its zone: a last word that begins with a letter and is no weekday.
fn split_zone(text: &str) -> (String, String) {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let is_zone = |word: &&str| {
        let word = word.to_ascii_uppercase();
        let is_weekday = word == "L" || WEEKDAYS.iter().any(|day| word.starts_with(day));
        word.starts_with(|c: char| c.is_ascii_alphabetic()) && !is_weekday
    };
    let zone = words.pop_if(|word| is_zone(word)).unwrap_or(UTC);
    (words.join(" "), zone.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_a_last_word_that_is_no_weekday() {
        for (text, spec, zone) in [
            ("0 10 * * *", "0 10 * * *", "UTC"),
            (
                " 0  10 * * *  Europe/Vienna ",
                "0 10 * * *",
                "Europe/Vienna",
            ),
            ("* 0 10 * * mon-fri", "* 0 10 * * mon-fri", "UTC"),
            ("0 10 * * SUN#1 EST5EDT", "0 10 * * SUN#1", "EST5EDT"),
            ("0 10 * * L", "0 10 * * L", "UTC"),
            ("@daily", "@daily", "UTC"),
            ("@daily Asia/Tokyo", "@daily", "Asia/Tokyo"),
            ("", "", "UTC"),
        ] {
            let expected = (spec.to_owned(), zone.to_owned());
            assert_eq!(split_zone(text), expected, "{text}");
        }
    }

    #[test]
    fn no_zone_looks_like_a_weekday() {
        for zone in ["WET", "MST", "MET", "Turkey", "Singapore", "GB", "Zulu"] {
            assert_eq!(split_zone(&format!("@daily {zone}")).1, zone);
            assert!(spec(&format!("@daily {zone}")).is_ok(), "{zone}");
        }
    }

    #[test]
    fn a_variable_has_an_entry_per_line() {
        let read = entries("a=@daily\n\n b = 0 10 * * * Asia/Tokyo\n").unwrap();
        let names: Vec<_> = read.0.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        for bad in ["", "\n", "@daily", "=@daily", "a=", "a=@daily\nb"] {
            assert!(entries(bad).is_err(), "{bad:?}");
        }
    }
}
