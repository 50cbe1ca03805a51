//! Tables of text, for people.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr;

/// Lines of aligned columns under their names.
pub(crate) fn render(header: &[&str], rows: &[Vec<String>]) -> String {
    let header: Vec<String> = header.iter().map(|name| (*name).to_owned()).collect();
    let lines = || std::iter::once(&header).chain(rows);
    let widths: Vec<usize> = (0..header.len())
        .map(|column| lines().map(|row| row[column].width()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in lines() {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.push_str(&" ".repeat(width - cell.width() + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// One line per name and value. The lines of a multi-line value are indented.
pub(crate) fn fields(fields: &[(&str, String)]) -> String {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0) + 2;
    let mut text = String::new();
    for (name, value) in fields {
        let mut lines = value.lines();
        let _ = writeln!(text, "{name:width$}{}", lines.next().unwrap_or_default());
        for line in lines {
            let _ = writeln!(text, "{:width$}{line}", "");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_show() {
        let rows = [vec!["a".to_owned(), "x".to_owned()], vec!["日本".to_owned(), "y".to_owned()]];
        assert_eq!(render(&["k", "v"], &rows), "k     v\na     x\n日本  y\n");
    }

    #[test]
    fn lines_of_a_value_stay_in_their_column() {
        let text = fields(&[("a", "1".into()), ("long", "2\n3".into())]);
        assert_eq!(text, "a     1\nlong  2\n      3\n");
    }
}
