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

/// One figure of a report in a box.
#[derive(Debug, Clone)]
pub struct Tile<'a> {
    /// The figure.
    pub figure: String,
    /// What the figure counts.
    pub caption: &'a str,
    /// CSS classes: `good`, `bad`, or those of the report's own style sheet.
    pub class: &'a str,
}

/// Tiles side by side.
pub fn tiles(tiles: &[Tile<'_>]) -> String {
    let tile = |tile: &Tile<'_>| {
        let (figure, caption) = (escape(&tile.figure), escape(tile.caption));
        let class = tile.class;
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
        let tile = Tile {
            figure: "1 < 2".to_owned(),
            caption: "lost",
            class: "good",
        };
        assert_eq!(
            tiles(&[tile]),
            "<section class=\"tiles\">\n<div class=\"tile good\"><strong>1 &lt; 2</strong>\
             <span>lost</span></div>\n</section>\n"
        );
    }
}
