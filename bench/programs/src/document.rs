//! The parts of docs/performance.md that programs write.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

/// The folder of the documents: this one's or that of a folder above.
fn folder() -> Result<PathBuf> {
    let here = std::env::current_dir()?;
    here.ancestors()
        .map(|folder| folder.join("docs"))
        .find(|docs| docs.join("performance.md").is_file())
        .context("there is no docs/performance.md here: run this from the project's folder")
}

/// What a program writes between two markers of docs/performance.md.
#[derive(Debug, Clone, Copy)]
pub struct Section(pub &'static str);

impl Section {
    /// Fails unless the document has the markers: better now than after an hour.
    pub fn check(self) -> Result<()> {
        self.replace(&read()?, "").map(drop)
    }

    /// Replaces what is between the markers.
    pub fn write(self, body: &str) -> Result<()> {
        let text = self.replace(&read()?, &format!("\n{body}\n\n"))?;
        write("performance.md", &text)
    }

    /// Writes a picture beside the document. It is named after the section.
    pub fn write_picture(self, svg: &str) -> Result<()> {
        write(&format!("{}.svg", self.0), svg)
    }

    fn replace(self, page: &str, body: &str) -> Result<String> {
        let [begin, end] = ["begin", "end"].map(|end| format!("<!-- {}:{end} -->", self.0));
        let parts = page
            .split_once(&begin)
            .and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
        let Some((before, after)) = parts else {
            bail!("docs/performance.md needs a line {begin} and after it a line {end}");
        };
        Ok(format!("{before}{begin}\n{body}{end}{after}"))
    }
}

fn read() -> Result<String> {
    let page = folder()?.join("performance.md");
    std::fs::read_to_string(page).context("cannot read docs/performance.md")
}

fn write(name: &str, text: &str) -> Result<()> {
    let file = folder()?.join(name);
    std::fs::write(file, text).with_context(|| format!("cannot write docs/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_keeps_what_is_outside_of_its_markers() {
        let page = |body| format!("a\n<!-- x:begin -->\n{body}\n<!-- x:end -->\nb\n");
        let section = Section("x");
        assert_eq!(section.replace(&page("old"), "new\n").unwrap(), page("new"));
        assert!(section.replace("no markers", "new").is_err());
        assert!(Section("y").replace(&page("old"), "new").is_err());
    }
}
