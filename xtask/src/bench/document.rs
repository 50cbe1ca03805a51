//! The page with the figures: its prose is written by hand, its tables stand between marks.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

pub(super) struct Document {
    path: PathBuf,
    text: String,
}

impl Document {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
        Ok(Self { path: path.to_owned(), text })
    }

    /// Puts a table between `<!-- NAME -->` and `<!-- /NAME -->`.
    pub(super) fn replace(&mut self, name: &str, table: &str) -> Result<()> {
        print!("{table}");
        let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
        let (before, rest) =
            self.text.split_once(&begin).with_context(|| format!("no mark `{name}`"))?;
        let (_, after) = rest.split_once(&end).with_context(|| format!("no end of `{name}`"))?;
        self.text = format!("{before}{begin}{table}{end}{after}");
        Ok(())
    }

    /// Writes a picture beside the page, and shows it where `<!-- NAME picture -->` marks the place.
    pub(super) fn picture(&mut self, name: &str, svg: &str) -> Result<()> {
        let file = format!("benchmarks-{name}.svg");
        fs::write(self.path.with_file_name(&file), svg)?;
        self.replace(&format!("{name} picture"), &format!("![{name}]({file})\n"))
    }

    pub(super) fn save(&self) -> Result<()> {
        Ok(fs::write(&self.path, &self.text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Document {
        Document { path: PathBuf::new(), text: text.into() }
    }

    #[test]
    fn a_table_takes_the_place_of_the_last_one() {
        let mut document = document("a\n<!-- t -->\nold\n<!-- /t -->\nb");
        document.replace("t", "new\n").unwrap();
        assert_eq!(document.text, "a\n<!-- t -->\nnew\n<!-- /t -->\nb");
    }

    #[test]
    fn a_page_without_the_mark_is_an_error() {
        assert!(document("a").replace("t", "new\n").is_err());
        assert!(document("<!-- t -->\n").replace("t", "new\n").is_err());
    }
}
