//! The shapes of an SVG picture. Colours and fonts come from the page's style sheet.

use std::fmt::Write as _;

use crate::text::escape;

/// Which point of a text its place names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture under construction. A shape's title is its tooltip; an empty one means none. Texts
/// and titles may come from anywhere: they are escaped here.
#[derive(Debug, Clone, Default)]
pub struct Svg(String);

impl Svg {
    /// Any shape. `attributes` go into the picture as they are.
    pub fn shape(&mut self, tag: &str, class: &str, attributes: &str, title: &str) {
        match title {
            "" => self.add(format_args!("<{tag} class=\"{class}\" {attributes}/>\n")),
            title => self.add(format_args!(
                "<{tag} class=\"{class}\" {attributes}><title>{}</title></{tag}>\n",
                escape(title)
            )),
        }
    }

    /// A rectangle: left, top, width, height.
    pub fn rect(&mut self, class: &str, [x, y, width, height]: [f64; 4], title: &str) {
        let (x, y, width, height) = (short(x), short(y), short(width), short(height));
        let attributes = format!("x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"");
        self.shape("rect", class, &attributes, title);
    }

    /// A line between two points.
    pub fn line(&mut self, class: &str, [x1, y1, x2, y2]: [f64; 4], title: &str) {
        let (x1, y1, x2, y2) = (short(x1), short(y1), short(x2), short(y2));
        let attributes = format!("x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"");
        self.shape("line", class, &attributes, title);
    }

    /// A circle: its middle and its radius.
    pub fn circle(&mut self, class: &str, [x, y, r]: [f64; 3], title: &str) {
        let attributes = format!("cx=\"{}\" cy=\"{}\" r=\"{r}\"", short(x), short(y));
        self.shape("circle", class, &attributes, title);
    }

    /// A line through points.
    pub fn path(&mut self, class: &str, points: impl IntoIterator<Item = (f64, f64)>, title: &str) {
        let mut path = String::new();
        for (x, y) in points {
            let verb = if path.is_empty() { 'M' } else { 'L' };
            // Writing to a string cannot fail.
            let _ = write!(path, "{verb}{} {}", short(x), short(y));
        }
        self.shape("path", class, &format!("d=\"{path}\""), title);
    }

    /// A text on its baseline.
    pub fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let (x, y, text) = (short(x), short(y), escape(text));
        self.add(format_args!(
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\"{anchor}>{text}</text>\n"
        ));
    }

    /// Shapes that share a tooltip, within a tag such as `g class="hit"` or `a href="#f1"`.
    pub fn group(&mut self, tag: &str, title: &str, draw: impl FnOnce(&mut Self)) {
        self.add(format_args!("<{tag}><title>{}</title>", escape(title)));
        draw(self);
        let name = tag.split(' ').next().unwrap_or_default();
        self.add(format_args!("</{name}>\n"));
    }

    /// The finished picture: its size, the tag's further attributes, and its name for screen readers.
    pub fn picture(self, (width, height): (f64, f64), attributes: &str, label: &str) -> String {
        let (body, label) = (self.0, escape(label));
        format!(
            "<svg {attributes}viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-label=\"{label}\">\n{body}</svg>\n"
        )
    }

    fn add(&mut self, part: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.0.write_fmt(part);
    }
}

/// A tenth of a unit is finer than any screen.
fn short(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_titles_are_escaped() {
        let mut svg = Svg::default();
        svg.text("name", (1.0, 2.04), Anchor::End, "<script>");
        svg.group("a href=\"#f1\"", "<b>", |svg| {
            svg.circle("dot", [1.0, 2.0, 3.5], "");
        });
        svg.rect("bar", [0.0, 0.0, 9.99, 1.0], "a & b");
        assert_eq!(
            svg.picture((10.0, 20.0), "", "\"x\""),
            "<svg viewBox=\"0 0 10 20\" role=\"img\" aria-label=\"&quot;x&quot;\">\n\
             <text class=\"name\" x=\"1\" y=\"2\" text-anchor=\"end\">&lt;script&gt;</text>\n\
             <a href=\"#f1\"><title>&lt;b&gt;</title>\
             <circle class=\"dot\" cx=\"1\" cy=\"2\" r=\"3.5\"/>\n</a>\n\
             <rect class=\"bar\" x=\"0\" y=\"0\" width=\"10\" height=\"1\">\
             <title>a &amp; b</title></rect>\n</svg>\n"
        );
    }
}
