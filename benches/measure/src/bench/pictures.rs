//! The charts of the page, generated from its tables: ratios, grouped by call. The crate has a
//! separate color.

use anyhow::{Context, Result, ensure};

use super::{
    chart::{Bar, chart},
    curves,
};
use crate::document::Document;

/// The sides of a table that the charts show: the crate and the sides it is compared with.
const OURS: &str = "the crate, built to deploy";
const SHOWN: [&str; 5] = [
    OURS,
    "SDK by hand, built to deploy",
    "Powertools for Python",
    "Powertools for TypeScript",
    "Powertools for Java",
];

/// Draws all charts. The caller saves the page.
pub(super) fn draw(document: &mut Document) -> Result<()> {
    let sockets = document.table("sockets")?;
    let cpu = sockets.iter().filter(|row| row[1] == "1" && row[0] != "cached");
    let cpu: Vec<_> = cpu.map(|row| [&row[0], &row[2], &row[4]]).collect();
    let title = "CPU of the calling process for a call";
    let unit = "multiple of the crate";
    document.picture("cpu", chart(title, unit, &sides(&cpu)?)?)?;

    let cold = document.table("cold")?;
    let call = "start".to_owned();
    let cold: Vec<_> = cold.iter().map(|row| [&call, &row[0], &row[4]]).collect();
    let title = "A process that starts and makes one call by HTTPS: time";
    document.picture("cold-start", chart(title, unit, &sides(&cold)?)?)?;

    let counted = document.table("instructions")?;
    let bars = counted.iter().map(|row| bar(row[0].clone(), &row[3], true));
    let bars = bars.collect::<Result<Vec<_>>>()?;
    let by_hand = "multiple of the same SDK calls by hand";
    let svg = chart("Instructions of a call", by_hand, &bars)?;
    document.picture("instructions", svg)?;

    let title = "A small function's process that starts and makes one call by HTTPS: time";
    let memory = multiples(&document.table("memory")?)?;
    document.picture("memory", chart(title, unit, &memory)?)?;
    curves::draw(document)
}

/// Of rows of side and time, as multiples of the crate's, which comes first. A side that has not answered
/// has no time.
fn multiples(rows: &[Vec<String>]) -> Result<Vec<Bar>> {
    let answered = rows.iter().filter(|row| row[1].starts_with(|c: char| c.is_ascii_digit()));
    // Names of code are marked in the page alone.
    let bars = answered.map(|row| bar(row[0].replace('`', ""), &row[1], row[0] == OURS));
    let mut bars = bars.collect::<Result<Vec<_>>>()?;
    let ours = bars.first().filter(|bar| bar.is_ours).map(|bar| bar.value);
    let ours = ours.context("the crate's own side is not the first of the table")?;
    for bar in &mut bars {
        bar.value /= ours;
    }
    Ok(bars)
}

/// The sides that are shown, of rows of call, side and multiple.
fn sides(rows: &[[&String; 3]]) -> Result<Vec<Bar>> {
    let shown = rows.iter().filter(|[_, side, _]| SHOWN.contains(&side.as_str()));
    let bars =
        shown.map(|[call, side, multiple]| bar(format!("{call}: {side}"), multiple, *side == OURS));
    let bars = bars.collect::<Result<Vec<_>>>()?;
    ensure!(bars.iter().any(|bar| bar.is_ours), "the crate's own side is not in the table");
    Ok(bars)
}

/// A figure stands before its least and most: `5.09 (4.94 – 5.87)`.
fn bar(name: String, figure: &str, is_ours: bool) -> Result<Bar> {
    let value = figure.split(' ').next().unwrap_or_default();
    let value = value.parse().with_context(|| format!("`{figure}` is no figure"))?;
    Ok(Bar { name, value, is_ours })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_compared_is_shown_and_the_crate_stands_out() {
        let text = |text: &str| text.to_owned();
        let rows = [
            [text("first"), text(OURS), text("1.00 (1.00 – 1.00)")],
            [text("first"), text("the crate, built plainly"), text("1.13 (0.92 – 1.14)")],
            [text("first"), text("Powertools for Java"), text("2.20 (1.73 – 7.79)")],
        ];
        let rows: Vec<_> =
            rows.iter().map(|[call, side, multiple]| [call, side, multiple]).collect();
        let bars = sides(&rows).unwrap();
        let seen: Vec<_> =
            bars.iter().map(|bar| (bar.name.as_str(), bar.value, bar.is_ours)).collect();
        let ours = format!("first: {OURS}");
        assert_eq!(seen, [(ours.as_str(), 1.0, true), ("first: Powertools for Java", 2.2, false)]);
        assert!(sides(&rows[1..]).is_err());
    }

    #[test]
    fn a_small_function_is_compared_with_the_crate_and_who_has_not_answered_is_left_out() {
        let row = |side: &str, took: &str| vec![side.to_owned(), took.to_owned()];
        let rows = [
            row(OURS, "162 ms (155.2 – 173.9)"),
            row("SDK by hand, built to deploy", "324 ms (144.1 – 184.7)"),
            row("Powertools for Java", "no end within a minute"),
        ];
        let bars = multiples(&rows).unwrap();
        let seen: Vec<_> = bars.iter().map(|bar| (bar.value, bar.is_ours)).collect();
        assert_eq!(seen, [(1.0, true), (2.0, false)]);
        assert!(multiples(&rows[1..]).is_err());
    }

    /// After a change of a figure, draw the charts again with `cargo xtask bench --charts`.
    #[test]
    fn every_picture_shows_the_figures_of_its_page() {
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../figures.md");
        let mut document = Document::open(&page).unwrap();
        draw(&mut document).unwrap();
        let curves = ["curve-steps", "curve-answers", "curve-answers-cpu", "curve-cpu"];
        for name in ["cpu", "cold-start", "instructions", "memory"].into_iter().chain(curves) {
            let path = page.with_file_name(format!("figures-{name}.svg"));
            let svg = std::fs::read_to_string(&path).unwrap();
            assert!(document.has_picture(&path, &svg), "{name}: `cargo xtask bench --charts`");
        }
    }
}
