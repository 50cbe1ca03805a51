//! A page of measured figures: its prose is written by hand, its tables stand between marks, its charts
//! beside it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

pub(crate) struct Document {
    path: PathBuf,
    text: String,
}

impl Document {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
        Ok(Self { path: path.to_owned(), text })
    }

    /// Puts a table between `<!-- NAME -->` and `<!-- /NAME -->`, and shows it.
    pub(crate) fn replace(&mut self, name: &str, table: &str) -> Result<()> {
        print!("{table}");
        let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
        let (before, rest) =
            self.text.split_once(&begin).with_context(|| format!("no mark `{name}`"))?;
        let (_, after) = rest.split_once(&end).with_context(|| format!("no end of `{name}`"))?;
        self.text = format!("{before}{begin}{table}{end}{after}");
        Ok(())
    }

    /// Writes a picture beside the page, as `PAGE-NAME.svg`. The page shows it by hand.
    pub(crate) fn picture(&self, name: &str, svg: &str) -> Result<()> {
        let page = self.path.file_stem().context("a page has a name")?.to_string_lossy();
        let file = format!("{page}-{name}.svg");
        fs::write(self.path.with_file_name(&file), svg).context(file)
    }

    pub(crate) fn save(&self) -> Result<()> {
        fs::write(&self.path, &self.text).with_context(|| format!("{}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Document {
        Document { path: PathBuf::new(), text: text.into() }
    }

    #[test]
    fn a_table_takes_the_place_of_the_last_one_and_of_nothing_else() {
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
