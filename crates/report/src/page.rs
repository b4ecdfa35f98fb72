//! The page around a report, and its tiles.

use crate::text::escape;

/// Colours, headings, tiles and tables, for every report.
const STYLE: &str = include_str!("page.css");

/// A whole HTML file. `style` is added to the common style sheet; `body` is HTML.
pub fn page(title: &str, style: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}{style}</style>\n</head>\n<body>\n<main>\n{body}\
         </main>\n</body>\n</html>\n"
    )
}

/// Boxes side by side, each with a figure, what it counts, and its CSS classes: `good`, `bad`, or
/// those of the report's own style sheet.
pub fn tiles(tiles: &[(String, &str, &str)]) -> String {
    let tile = |(figure, caption, class): &(String, &str, &str)| {
        let (figure, caption) = (escape(figure), escape(caption));
        format!(
            "<div class=\"tile {class}\"><strong>{figure}</strong><span>{caption}</span></div>\n"
        )
    };
    let tiles: String = tiles.iter().map(tile).collect();
    format!("<section class=\"tiles\">\n{tiles}</section>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_one_file_with_both_style_sheets() {
        let page = page("a < b", ".own { fill: none; }", "<p>text</p>\n");
        assert!(page.starts_with("<!doctype html>\n"));
        assert!(page.contains("<title>a &lt; b</title>"));
        assert!(page.contains(".own {") && page.contains("--paper:"));
        assert!(page.ends_with("<main>\n<p>text</p>\n</main>\n</body>\n</html>\n"));
        assert!(!page.contains("http"));
    }

    #[test]
    fn a_tile_has_its_figure_and_its_caption_as_texts() {
        assert_eq!(
            tiles(&[("1 < 2".to_owned(), "lost", "good")]),
            "<section class=\"tiles\">\n<div class=\"tile good\"><strong>1 &lt; 2</strong>\
             <span>lost</span></div>\n</section>\n"
        );
    }
}
