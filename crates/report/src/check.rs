//! Checks of a finished page, for the tests of every report.

use crate::text::{is_invisible, width};

/// The tags that reports use.
const TAGS: &str = "!doctype a b body circle defs div em g h1 h2 head html i li line main meta p path \
    pattern pre rect section span strong style svg table tbody td text th thead title tr ul";
/// Parts of a tag or a style sheet that load something or run something.
const FOREIGN: [&str; 7] = [
    "http", "src=", "href=\"/", " on", "@import", "url(\"", "url(/",
];

/// Everything that is wrong with a page: foreign parts, tags that no report uses, invisible
/// letters, and shapes and texts that do not lie within their picture.
///
/// Knows what [`Svg`](crate::Svg) draws; paths have the commands M, L, C and V only.
pub fn troubles(page: &str) -> Vec<String> {
    let style = page.split("<style>").skip(1);
    let style = style.filter_map(|rest| rest.split("</style>").next());
    let is_foreign = |part: &&str| FOREIGN.iter().any(|foreign| part.contains(foreign));
    let foreign = tags(page).chain(style).filter(is_foreign);
    let foreign = foreign.map(|part| format!("foreign: {part}"));
    let is_known = |tag: &str| {
        let name = tag.trim_start_matches('/').split([' ', '/']).next();
        TAGS.split(' ').any(|known| Some(known) == name)
    };
    let tags = tags(page).filter(|tag| !is_known(tag));
    let tags = tags.map(|tag| format!("unknown tag: {tag}"));
    let letters = page
        .chars()
        .filter(|letter| *letter != '\n' && is_invisible(*letter));
    let letters = letters.map(|letter| format!("invisible: {letter:?}"));
    let pictures = page.split("<svg ").skip(1);
    let pictures = pictures.filter_map(|rest| rest.split("</svg>").next());
    let outside = pictures.flat_map(outside);
    foreign.chain(tags).chain(letters).chain(outside).collect()
}

/// The inside of each tag of a page, its name first.
fn tags(page: &str) -> impl Iterator<Item = &str> {
    let parts = page.split('<').skip(1);
    parts.map(|part| part.split('>').next().unwrap_or_default())
}

/// Every shape and text that does not lie within its picture.
fn outside(picture: &str) -> Vec<String> {
    let view = numbers(attribute(picture, "viewBox").unwrap_or_default());
    let [_, _, width, height] = view[..] else {
        return vec![format!("no viewBox: {picture}")];
    };
    let is_inside = |(x, y): &(f64, f64)| (0.0..=width).contains(x) && (0.0..=height).contains(y);
    let shapes = tags(picture).map(|tag| (tag, corners(tag)));
    let texts = picture
        .split("<text ")
        .skip(1)
        .map(|text| (text, ends(text)));
    let all = shapes.chain(texts);
    let outside = all.filter(|(_, points)| !points.iter().all(is_inside));
    outside
        .map(|(what, points)| format!("{points:?} is not within {width} x {height}: {what}"))
        .collect()
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let start = format!("{name}=\"");
    let within = || tag.split_once(&format!(" {start}")).map(|(_, rest)| rest);
    tag.strip_prefix(&start).or_else(within)?.split('"').next()
}

/// The numbers of a text; one that cannot be read is outside of every picture.
fn numbers(text: &str) -> Vec<f64> {
    let parts = text.split(|letter: char| letter == ' ' || letter.is_ascii_uppercase());
    let parts = parts.filter(|part| !part.is_empty());
    parts.map(|part| part.parse().unwrap_or(f64::NAN)).collect()
}

/// The outermost points of a shape.
fn corners(tag: &str) -> Vec<(f64, f64)> {
    let number = |name| {
        attribute(tag, name)
            .and_then(|text| numbers(text).first().copied())
            .unwrap_or(0.0)
    };
    let (x, y, r, wide) = (
        number("x"),
        number("y"),
        number("r"),
        number("stroke-width") / 2.0,
    );
    let (cx, cy) = (number("cx"), number("cy"));
    let mut corners = vec![(x, y), (x + number("width"), y + number("height"))];
    corners.extend([(number("x1"), number("y1")), (number("x2"), number("y2"))]);
    if tag.starts_with("circle") {
        corners.extend([(cx - r, cy - r), (cx + r, cy + r)]);
    }
    let path = attribute(tag, "d").unwrap_or_default();
    if path.contains(|letter: char| letter.is_ascii_lowercase()) {
        corners.push((f64::NAN, f64::NAN));
    }
    for part in path.split('M').skip(1) {
        let (points, depth) = part.split_once('V').unwrap_or((part, "0"));
        corners.extend(numbers(depth).iter().map(|depth| (0.0, *depth)));
        for point in numbers(points).chunks(2) {
            let (x, y) = (point[0], point.get(1).copied().unwrap_or(f64::NAN));
            corners.extend([(x - wide, y), (x + wide, y)]);
        }
    }
    corners
}

/// Both ends of a text, by its estimated width.
fn ends(text: &str) -> Vec<(f64, f64)> {
    let (tag, rest) = text.split_once('>').unwrap_or_default();
    let x = attribute(tag, "x").map_or(f64::NAN, |x| x.parse().unwrap_or(f64::NAN));
    let wide = width(rest.split('<').next().unwrap_or_default(), 11.0);
    let from = match attribute(tag, "text-anchor") {
        Some("end") => x - wide,
        Some("middle") => x - wide / 2.0,
        _ => x,
    };
    vec![(from, 0.0), (from + wide, 0.0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Anchor, Svg};

    fn count(draw: impl FnOnce(&mut Svg)) -> usize {
        let mut svg = Svg::default();
        draw(&mut svg);
        troubles(&svg.picture((100.0, 50.0), "", "")).len()
    }

    #[test]
    fn a_shape_inside_is_fine_and_one_outside_is_named() {
        assert_eq!(count(|svg| svg.rect("", [0.0, 0.0, 100.0, 50.0], "")), 0);
        assert_eq!(count(|svg| svg.rect("", [0.0, 1.0, 100.0, 50.0], "")), 1);
        assert_eq!(count(|svg| svg.circle("", [3.0, 9.0, 3.5], "")), 1);
        assert_eq!(count(|svg| svg.line("", [0.0, 0.0, 100.1, 9.0], "")), 1);
        assert_eq!(count(|svg| svg.path("", [(0.0, 1.0), (-0.1, 9.0)], "")), 1);
        assert_eq!(count(|svg| svg.shape("path", "", "d=\"M9 9V51\"", "")), 1);
        assert_eq!(
            count(|svg| svg.shape("path", "", "stroke-width=\"4\" d=\"M1 9V9\"", "")),
            1
        );
        assert_eq!(count(|svg| svg.shape("path", "", "d=\"m1 9\"", "")), 1);
        assert_eq!(
            count(|svg| svg.text("", (9.0, 9.0), Anchor::Start, "short")),
            0
        );
        assert_eq!(
            count(|svg| svg.text("", (9.0, 9.0), Anchor::Middle, "short")),
            1
        );
        assert_eq!(
            count(|svg| svg.text("", (99.0, 9.0), Anchor::Start, "short")),
            1
        );
    }

    #[test]
    fn foreign_parts_unknown_tags_and_invisible_letters_are_named() {
        assert_eq!(
            troubles("<p>src=x http: &amp;</p><style>url(#hatch)</style>\n"),
            Vec::<String>::new()
        );
        for bad in [
            "<style>@import 'x'</style>",
            "<style>.a { fill: url(/x) }</style>",
            "<span src=x>",
            "<blink>",
            "<p onclick=x>",
            "<p>\u{202e}</p>",
        ] {
            assert_eq!(troubles(bad).len(), 1, "{bad}");
        }
    }
}
