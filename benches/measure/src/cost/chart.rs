//! The chart of `tests/cost/figures.md`: what a replay costs by the answer's size, both on logarithmic scales.

use anyhow::Result;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::{Row, size, sizes};

/// Of the axes: bytes, and dollars a million replays.
const BYTES: std::ops::Range<f64> = 150.0..7e6;
const DOLLARS: std::ops::Range<f64> = 0.05..400.0;

const RED: RGBColor = RGBColor(0xb3, 0x26, 0x1e);
const BLUE: RGBColor = RGBColor(0x1f, 0x5f, 0xa8);
const GREEN: RGBColor = RGBColor(0x2e, 0x7d, 0x32);

/// Of the dashed lines, and how long each line's sample is, in pixels.
const DASH: i32 = 6;
const GAP: i32 = 4;
const LEGEND: i32 = 28;

/// The lines of the chart: kind, strategy, color, whether it is dashed, and label.
const LINES: [(&str, &str, RGBColor, bool, &str); 5] = [
    ("Json", "obvious", RED, false, "obvious"),
    ("Random", "write first", BLUE, true, "write first, random bytes"),
    ("Json", "write first", BLUE, false, "write first, JSON"),
    ("Random", "read first", GREEN, true, "read first, random bytes"),
    ("Json", "read first", GREEN, false, "read first, JSON"),
];

pub(super) fn draw(rows: &[Row]) -> Result<String> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (760, 460)).into_drawing_area();
    area.fill(&WHITE)?;
    let bytes = BYTES.log_scale().with_key_points(sizes(rows).into_iter().map(to_f64).collect());
    let dollars = DOLLARS.log_scale().with_key_points(vec![0.1, 1.0, 10.0, 100.0]);
    let mut chart = ChartBuilder::on(&area)
        .caption("A million replays, in dollars, by the size of the answer", ("sans-serif", 16))
        .margin(10)
        .margin_right(30)
        .x_label_area_size(30)
        .y_label_area_size(50)
        .build_cartesian_2d(bytes, dollars)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", 13))
        .x_label_formatter(&|bytes| size(from_f64(*bytes)))
        .y_label_formatter(&|dollars| format!("${dollars}"))
        .draw()?;
    for (kind, way, color, is_dashed, label) in LINES {
        let is_of_it = |row: &&Row| row.kind == kind && row.way == way;
        let points = rows.iter().filter(is_of_it);
        let mut points: Vec<(f64, f64)> =
            points.filter_map(|row| Some((to_f64(row.bytes), row.replay?))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let style = color.stroke_width(2);
        let dots = points.clone().into_iter().map(|point| Circle::new(point, 3, color.filled()));
        chart.draw_series(dots)?;
        let (line, dash, gap) = if is_dashed {
            (chart.draw_series(DashedLineSeries::new(points, DASH, GAP, style))?, DASH, GAP)
        } else {
            (chart.draw_series(LineSeries::new(points, style))?, LEGEND, 0)
        };
        line.label(label).legend(move |(x, y)| {
            DashedPathElement::new([(x, y), (x + LEGEND, y)], dash, gap, style)
        });
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .margin(14)
        .legend_area_size(LEGEND + 6)
        .label_font(("sans-serif", 13))
        .background_style(WHITE)
        .border_style(BLACK.mix(0.2))
        .draw()?;
    area.present()?;
    drop(chart);
    drop(area);
    Ok(svg)
}

/// Exact up to 2^53, which no answer reaches.
#[expect(clippy::cast_precision_loss, reason = "see above")]
fn to_f64(number: u64) -> f64 {
    number as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size, as above")]
fn from_f64(number: f64) -> u64 {
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
