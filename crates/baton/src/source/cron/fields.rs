//! Checks the fields of a cron expression one by one, so that a complaint names the field and its bounds.

/// A field of an expression, and what it counts.
struct Field {
    name: &'static str,
    min: u16,
    max: u16,
    /// Names of its values, the first of them for `min`.
    names: &'static [&'static str],
}

/// The fields of an expression; one with five fields begins with the second.
const FIELDS: [Field; 6] = [
    Field::new("second", 0, 59, &[]),
    Field::new("minute", 0, 59, &[]),
    Field::new("hour", 0, 23, &[]),
    Field::new("day", 1, 31, &[]),
    Field::new(
        "month",
        1,
        12,
        &[
            "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
        ],
    ),
    // Sunday is 0 and 7.
    Field::new(
        "weekday",
        0,
        7,
        &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"],
    ),
];

/// What is wrong with a number, a range or a step of an expression with five or six fields; none if
/// nothing is, and if only the parser can tell.
pub(super) fn complaint(spec: &str) -> Option<String> {
    let words: Vec<&str> = spec.split_whitespace().collect();
    let fields = FIELDS.iter().skip(FIELDS.len().checked_sub(words.len())?);
    let mut fields = fields.zip(&words);
    fields.find_map(|(field, word)| {
        let (part, why) = match word.split(',').any(str::is_empty) {
            true => (*word, "a comma stands between two values".to_owned()),
            false => word
                .split(',')
                .find_map(|part| Some((part, field.complaint(part)?)))?,
        };
        let name = field.name;
        Some(format!("'{part}' in the field of the {name}: {why}"))
    })
}

impl Field {
    const fn new(name: &'static str, min: u16, max: u16, names: &'static [&'static str]) -> Self {
        Self {
            name,
            min,
            max,
            names,
        }
    }

    /// What is wrong with one part of a list.
    fn complaint(&self, part: &str) -> Option<String> {
        let part = part.trim_start_matches('+').to_ascii_uppercase();
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (part.as_str(), None),
        };
        if step.is_some_and(|step| digits(step).is_none_or(|step| step == 0)) {
            return Some("a step is a whole number from 1 on".to_owned());
        }
        let ends = range.split('-');
        if range.contains('-') && (ends.clone().count() > 2 || ends.clone().any(str::is_empty)) {
            return Some("a range has one first and one last value, such as 1-3".to_owned());
        }
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (self.number(first, false)?, self.number(last, true)?),
            None if range == "*" => (self.min, self.max),
            None => {
                let number = self.number(range, false)?;
                (number, number)
            }
        };
        let Self { min, max, .. } = *self;
        if first < min || last < min || first > max || last > max {
            return Some(format!("it goes from {min} to {max}"));
        }
        if first > last {
            let around = match (first == max, last == min) {
                (true, true) => format!("{max},{min}"),
                (true, false) => format!("{max},{min}-{last}"),
                (false, true) => format!("{first}-{max},{min}"),
                (false, false) => format!("{first}-{max},{min}-{last}"),
            };
            return Some(format!(
                "a range goes from the smaller number to the larger one; write {around}"
            ));
        }
        let step = step?;
        let span = last - first;
        (digits(step)? > span && span > 0).then(|| {
            format!("a step of {step} leaves only {first} of {first} to {last}; write {first}")
        })
    }

    /// A number, or the name of one. The parser knows what else there is, such as `L`.
    fn number(&self, text: &str, is_last: bool) -> Option<u16> {
        let is_it = |name: &&str| *name == text;
        let named = match is_last {
            true => self.names.iter().rposition(is_it),
            false => self.names.iter().position(is_it),
        };
        match named {
            Some(at) => u16::try_from(at).ok().map(|at| at + self.min),
            None => digits(text),
        }
    }
}

/// A number in digits. One that is too large for the type is too large for each field.
fn digits(text: &str) -> Option<u16> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::complaint;

    #[test]
    fn a_complaint_names_the_field_and_what_to_write() {
        for (spec, expected) in [
            (
                "*/70 * * * *",
                "'*/70' in the field of the minute: a step of 70 leaves only 0 of 0 to 59; write 0",
            ),
            (
                "0 22-2 * * *",
                "'22-2' in the field of the hour: a range goes from the smaller number to the \
                 larger one; write 22-23,0-2",
            ),
            ("0 23-0 * * *", "; write 23,0"),
            ("0 0 * * fri-mon", "; write 5-7,0-1"),
            (
                "0 0 * * sun-sat,sat-mon",
                "'sat-mon' in the field of the weekday",
            ),
            ("0 0 * NOV-FEB *", "; write 11-12,1-2"),
            (
                "60 * * * *",
                "'60' in the field of the minute: it goes from 0 to 59",
            ),
            (
                "60 * * * * *",
                "'60' in the field of the second: it goes from 0 to 59",
            ),
            ("1,99999 * * * *", "'99999' in the field of the minute"),
            (
                "0 0 0 * *",
                "'0' in the field of the day: it goes from 1 to 31",
            ),
            (
                "*/0 * * * *",
                "'*/0' in the field of the minute: a step is a whole number from 1 on",
            ),
            ("0 0-8/ * * *", "'0-8/' in the field of the hour: a step is"),
            (
                "*/99999 * * * *",
                "a step of 99999 leaves only 0 of 0 to 59; write 0",
            ),
            ("5- * * * *", "'5-' in the field of the minute: a range has"),
            ("0 -5 * * *", "'-5' in the field of the hour: a range has"),
            ("0 0 */-1 * *", "'*/-1' in the field of the day: a step is"),
            (
                "0 1/2/3 * * *",
                "'1/2/3' in the field of the hour: a step is",
            ),
            (
                "1-2-3 * * * *",
                "'1-2-3' in the field of the minute: a range has one first and one last value, \
                 such as 1-3",
            ),
            (
                "1,,2 * * * *",
                "'1,,2' in the field of the minute: a comma stands between two values",
            ),
            ("0 ,1 * * *", "',1' in the field of the hour: a comma"),
            (
                "0 0 * * mon,",
                "'mon,' in the field of the weekday: a comma",
            ),
            (
                "0 8-10/5 * * *",
                "a step of 5 leaves only 8 of 8 to 10; write 8",
            ),
        ] {
            let found = complaint(spec).unwrap_or_default();
            assert!(
                found.ends_with(expected) || found.starts_with(expected),
                "{spec}: {found}"
            );
        }
    }

    #[test]
    fn what_the_parser_knows_is_its_own() {
        for spec in [
            "* * * * *",
            "*/59 */23 */30 */11 */7",
            "0,30 8-18/2 L,15W JAN-DEC MON-SUN",
            "0 0 ? * FRI#2",
            "0 0 13 * +FRI",
            "0 0 * * 5L",
            "x-y 1/2 5 a/2 **",
            "",
            "@daily",
        ] {
            assert_eq!(complaint(spec), None, "{spec}");
        }
    }
}
