//! The page's charts, drawn from its tables: multiples, grouped by call, the crate in a colour of its own.

use anyhow::{Context, Result, ensure};

use super::chart::{Bar, chart};
use crate::document::Document;

/// The crate's side of a table, and which others are shown beside it.
const OURS: &str = "the crate, built to deploy";
const SHOWN: [&str; 5] = [
    OURS,
    "SDK by hand, built to deploy",
    "Powertools for Python",
    "Powertools for TypeScript",
    "Powertools for Java",
];

/// Draws all of them; the page is saved by whoever has called.
pub(super) fn draw(document: &mut Document) -> Result<()> {
    let sockets = document.table("sockets")?;
    let cpu = sockets.iter().filter(|row| row[1] == "1" && row[0] != "cached");
    let cpu: Vec<_> = cpu.map(|row| [&row[0], &row[2], &row[4]]).collect();
    let title = "CPU of the calling process for a call";
    let unit = "multiple of the crate";
    document.picture("cpu", chart(title, unit, Some(1.0), &sides(&cpu)?)?)?;

    let cold = document.table("cold")?;
    let call = "start".to_owned();
    let cold: Vec<_> = cold.iter().map(|row| [&call, &row[0], &row[4]]).collect();
    let title = "A process that starts and makes one call by HTTPS: time";
    document.picture("cold-start", chart(title, unit, Some(1.0), &sides(&cold)?)?)?;

    let counted = document.table("instructions")?;
    let bars = counted.iter().map(|row| bar(row[0].clone(), &row[3], true));
    let bars = bars.collect::<Result<Vec<_>>>()?;
    let unit = "multiple of the same SDK calls by hand";
    document.picture("instructions", chart("Instructions of a call", unit, Some(1.0), &bars)?)
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

/// A multiple stands before its least and most: `5.09 (4.94 – 5.87)`.
fn bar(name: String, multiple: &str, is_ours: bool) -> Result<Bar> {
    let value = multiple.split(' ').next().unwrap_or_default();
    let value = value.parse().with_context(|| format!("`{multiple}` is no multiple"))?;
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
}
