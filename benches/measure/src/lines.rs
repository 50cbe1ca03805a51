//! Lines on logarithmic scales, as SVG.

use std::ops::Range;

use anyhow::Result;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

pub(crate) const RED: RGBColor = RGBColor(0xb3, 0x26, 0x1e);
pub(crate) const BLUE: RGBColor = RGBColor(0x1f, 0x5f, 0xa8);
pub(crate) const GREEN: RGBColor = RGBColor(0x2e, 0x7d, 0x32);
pub(crate) const ORANGE: RGBColor = RGBColor(0xc7, 0x6a, 0x00);

/// Of the dashed lines, and how long each line's sample is, in pixels.
const DASH: i32 = 6;
const GAP: i32 = 4;
const LEGEND: i32 = 28;

pub(crate) struct Axis<'a> {
    pub(crate) range: Range<f64>,
    /// The values that have a label.
    pub(crate) labels: Vec<f64>,
    pub(crate) format: &'a dyn Fn(f64) -> String,
}

pub(crate) struct Line<'a> {
    pub(crate) label: &'a str,
    pub(crate) color: RGBColor,
    pub(crate) is_dashed: bool,
    /// From left to right.
    pub(crate) points: Vec<(f64, f64)>,
}

pub(crate) fn draw(title: &str, x: Axis<'_>, y: Axis<'_>, lines: &[Line<'_>]) -> Result<String> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (760, 460)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 16))
        .margin(10)
        .margin_right(30)
        .x_label_area_size(30)
        .y_label_area_size(50)
        .build_cartesian_2d(
            x.range.log_scale().with_key_points(x.labels),
            y.range.log_scale().with_key_points(y.labels),
        )?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", 13))
        .x_label_formatter(&|value| (x.format)(*value))
        .y_label_formatter(&|value| (y.format)(*value))
        .draw()?;
    for Line { label, color, is_dashed, points } in lines {
        let style = color.stroke_width(2);
        chart.draw_series(points.iter().map(|point| Circle::new(*point, 3, color.filled())))?;
        let points = points.iter().copied();
        let (line, dash, gap) = if *is_dashed {
            (chart.draw_series(DashedLineSeries::new(points, DASH, GAP, style))?, DASH, GAP)
        } else {
            (chart.draw_series(LineSeries::new(points, style))?, LEGEND, 0)
        };
        line.label(*label).legend(move |(x, y)| {
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
