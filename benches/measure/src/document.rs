//! A page of measured figures: prose written by hand, tables between markers, and charts in files
//! next to the page.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

pub(crate) struct Document {
    path: PathBuf,
    text: String,
    /// Path and content of each chart.
    pictures: Vec<(PathBuf, String)>,
}

impl Document {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
        Ok(Self { path: path.to_owned(), text, pictures: Vec::new() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// From now on it is written to another folder.
    pub(crate) fn move_to(&mut self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        self.path = folder.join(self.path.file_name().context("a page has a name")?);
        Ok(())
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

    /// The cells of the first table between its marks, without its head.
    pub(crate) fn table(&self, name: &str) -> Result<Vec<Vec<String>>> {
        let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
        let (_, rest) =
            self.text.split_once(&begin).with_context(|| format!("no mark `{name}`"))?;
        let (table, _) = rest.split_once(&end).with_context(|| format!("no end of `{name}`"))?;
        let cells = |row: &str| {
            let row = row.trim().trim_start_matches('|').trim_end_matches('|');
            row.split('|').map(|cell| cell.trim().to_owned()).collect()
        };
        let rows = table.lines().skip_while(|line| !line.starts_with('|'));
        let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
        Ok(rows.map(cells).collect())
    }

    /// Adds a chart, stored next to the page as `PAGE-NAME.svg`. The page links it by hand.
    pub(crate) fn picture(&mut self, name: &str, svg: String) -> Result<()> {
        let page = self.path.file_stem().context("a page has a name")?.to_string_lossy();
        let path = self.path.with_file_name(format!("{page}-{name}.svg"));
        self.pictures.push((path, svg));
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn has_picture(&self, path: &Path, svg: &str) -> bool {
        self.pictures.iter().any(|(place, content)| place == path && content == svg)
    }

    /// Writes the page and its charts. Nothing is written before.
    pub(crate) fn save(&self) -> Result<()> {
        let pictures = self.pictures.iter().map(|(path, svg)| (path, svg));
        for (path, text) in std::iter::once((&self.path, &self.text)).chain(pictures) {
            fs::write(path, text).with_context(|| format!("{}", path.display()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_table_is_read_without_its_head() {
        let page = document("<!-- a -->\n| x | y |\n|---|--:|\n| 1 | 2 (3) |\n<!-- /a -->\n");
        assert_eq!(page.table("a").unwrap(), [["1", "2 (3)"]]);
        assert!(page.table("b").is_err());
        let page = document(
            "<!-- a -->\nOf 3 rounds.\n\n| x |\n|---|\n| 1 |\n\n| y |\n|---|\n| 2 |\n<!-- /a -->\n",
        );
        assert_eq!(page.table("a").unwrap(), [["1"]]);
    }

    fn document(text: &str) -> Document {
        Document { path: PathBuf::new(), text: text.into(), pictures: Vec::new() }
    }

    #[test]
    fn a_table_takes_the_place_of_the_last_one_and_of_nothing_else() {
        let mut document = document("a\n<!-- t -->\nold\n<!-- /t -->\nb");
        document.replace("t", "new\n").unwrap();
        assert_eq!(document.text, "a\n<!-- t -->\nnew\n<!-- /t -->\nb");
    }

    #[test]
    fn a_page_and_its_pictures_are_written_together() {
        let folder = std::env::temp_dir().join(format!("measure-document-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let page = folder.join("page.md");
        fs::write(&page, "<!-- t -->\n<!-- /t -->").unwrap();
        let mut document = Document::open(&page).unwrap();
        document.replace("t", "new\n").unwrap();
        document.picture("bars", "<svg/>".to_owned()).unwrap();
        let written = || fs::read_to_string(folder.join("page-bars.svg")).ok();
        assert_eq!(written(), None);
        document.save().unwrap();
        assert_eq!(written().as_deref(), Some("<svg/>"));
        assert_eq!(fs::read_to_string(&page).unwrap(), "<!-- t -->\nnew\n<!-- /t -->");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_page_without_the_mark_is_an_error() {
        assert!(document("a").replace("t", "new\n").is_err());
        assert!(document("<!-- t -->\n").replace("t", "new\n").is_err());
    }
}
