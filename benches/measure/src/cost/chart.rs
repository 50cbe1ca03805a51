//! The chart of `tests/cost/figures.md`: what a replay costs by the answer's size, both on logarithmic scales.

use anyhow::Result;
use plotters::style::RGBColor;

use super::{Row, size, sizes};
use crate::lines::{self, Axis, BLUE, GREEN, Line, RED};

/// Of the axes: bytes, and dollars a million replays.
const BYTES: std::ops::Range<f64> = 150.0..7e6;
const DOLLARS: std::ops::Range<f64> = 0.05..400.0;

/// The lines of the chart: kind, strategy, color, whether it is dashed, and label.
const LINES: [(&str, &str, RGBColor, bool, &str); 5] = [
    ("Json", "obvious", RED, false, "obvious"),
    ("Random", "write first", BLUE, true, "write first, random bytes"),
    ("Json", "write first", BLUE, false, "write first, JSON"),
    ("Random", "read first", GREEN, true, "read first, random bytes"),
    ("Json", "read first", GREEN, false, "read first, JSON"),
];

pub(super) fn draw(rows: &[Row]) -> Result<String> {
    let lines = LINES.map(|(kind, way, color, is_dashed, label)| {
        let points = rows.iter().filter(|row| row.kind == kind && row.way == way);
        let mut points: Vec<(f64, f64)> =
            points.filter_map(|row| Some((to_f64(row.bytes), row.replay?))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Line { label, color, is_dashed, points }
    });
    let bytes = Axis {
        range: BYTES,
        labels: sizes(rows).into_iter().map(to_f64).collect(),
        format: &|bytes| size(from_f64(bytes)),
    };
    let dollars = Axis {
        range: DOLLARS,
        labels: vec![0.1, 1.0, 10.0, 100.0],
        format: &|dollars| format!("${dollars}"),
    };
    lines::draw("A million replays, in dollars, by the size of the answer", bytes, dollars, &lines)
}

/// Exact up to 2^53, which no answer reaches.
#[expect(clippy::cast_precision_loss, reason = "see above")]
pub(crate) fn to_f64(number: u64) -> f64 {
    number as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size, as above")]
pub(crate) fn from_f64(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: &str, way: &str) -> Row {
        Row {
            kind: kind.to_owned(),
            bytes: 1024,
            way: way.to_owned(),
            first: 1.0,
            replay: Some(1.0),
            in_progress: 1.0,
            mismatch: 1.0,
        }
    }

    #[test]
    fn every_line_has_its_points_and_its_name() {
        let rows: Vec<Row> = LINES.iter().map(|(kind, way, ..)| row(kind, way)).collect();
        let svg = draw(&rows).unwrap();
        assert_eq!(svg.matches("<circle").count(), LINES.len());
        for (.., label) in LINES {
            assert!(svg.contains(label), "{label}");
        }
    }

    #[test]
    fn sizes_and_dollars_are_on_the_axes() {
        let svg = draw(&[row("Json", "obvious")]).unwrap();
        for label in ["1 KB", "$0.1", "$1", "$10", "$100"] {
            assert!(svg.contains(&format!("\n{label}\n")), "{label}: {svg}");
        }
    }
}
