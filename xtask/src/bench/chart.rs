//! Horizontal bars, as SVG.

use anyhow::{Context, Result};
use plotters::prelude::*;

pub(super) struct Bar {
    pub(super) name: String,
    /// A multiple of what the chart compares with.
    pub(super) value: f64,
    /// The crate's own, in a colour of its own.
    pub(super) is_ours: bool,
}

const OURS: RGBColor = RGBColor(0x40, 0x78, 0xc0);
const OTHERS: RGBColor = RGBColor(0xb4, 0xb9, 0xbe);

const WIDTH: u32 = 820;
const NAMES: u32 = 310;
const ROW: u32 = 22;
/// The title, the axis and what the axis shows.
const REST: u32 = 88;

/// Bars from zero, the first at the top, with a line at `mark` where there is one.
pub(super) fn chart(title: &str, unit: &str, mark: Option<f64>, bars: &[Bar]) -> Result<String> {
    let rows = u32::try_from(bars.len())?;
    let last = rows.checked_sub(1).context("there is nothing to draw")?;
    let most = bars.iter().map(|bar| bar.value).fold(mark.unwrap_or_default(), f64::max);
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (WIDTH, REST + ROW * rows)).into_drawing_area();
    area.fill(&WHITE)?;
    // Room for the last bar's value.
    let values = 0.0..most.max(f64::MIN_POSITIVE) * 1.12;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 16))
        .margin(10)
        .margin_right(30)
        .x_label_area_size(45)
        .y_label_area_size(NAMES)
        .build_cartesian_2d(values, (0..last).into_segmented())?;
    // Places are counted from below.
    let bar_at = |place: u32| bars.iter().rev().nth(usize::try_from(place).unwrap_or(usize::MAX));
    let name = |segment: &SegmentValue<u32>| match segment {
        SegmentValue::Exact(place) | SegmentValue::CenterOf(place) => {
            bar_at(*place).map(|bar| bar.name.clone()).unwrap_or_default()
        }
        SegmentValue::Last => String::new(),
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", 13))
        .x_desc(unit)
        .y_labels(bars.len())
        .y_label_formatter(&name)
        .draw()?;
    let placed = (0..rows).filter_map(|place| Some((place, bar_at(place)?)));
    for (colour, is_ours) in [(OURS, true), (OTHERS, false)] {
        let bars = placed.clone().filter(|(_, bar)| bar.is_ours == is_ours);
        chart.draw_series(
            Histogram::horizontal(&chart)
                .style(colour.filled())
                .margin(4)
                .data(bars.map(|(place, bar)| (place, bar.value))),
        )?;
    }
    let values = placed.map(|(place, bar)| (place, bar.value));
    chart.draw_series(values.map(|(place, value)| {
        let text = Text::new(format!("{value:.1} ×"), (4, -6), ("sans-serif", 13));
        EmptyElement::at((value, SegmentValue::CenterOf(place))) + text
    }))?;
    if let Some(mark) = mark {
        let ends = [SegmentValue::Exact(0), SegmentValue::Last];
        chart.draw_series(LineSeries::new(ends.map(|end| (mark, end)), RED))?;
    }
    area.present()?;
    drop(chart);
    drop(area);
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(values: &[f64]) -> Vec<Bar> {
        values
            .iter()
            .map(|&value| Bar { name: format!("<{value}>"), value, is_ours: true })
            .collect()
    }

    /// The widths of the bars, and the heights at which they begin.
    fn drawn(svg: &str) -> Vec<(f64, f64)> {
        let rects = svg.split("<rect ").filter(|rect| rect.contains("#4078C0"));
        let number = |rect: &str, name: &str| {
            let (_, value) = rect.split_once(&format!(" {name}=\"")).unwrap();
            value.split('"').next().unwrap().parse::<f64>().unwrap()
        };
        rects.map(|rect| (number(rect, "width"), number(rect, "y"))).collect()
    }

    #[test]
    fn bars_are_in_proportion_and_in_their_order() {
        let svg = chart("title", "unit", None, &bars(&[1.0, 2.0])).unwrap();
        let mut drawn = drawn(&svg);
        drawn.sort_by(|a, b| a.1.total_cmp(&b.1));
        let [(first, _), (second, _)] = drawn[..] else { panic!("{svg}") };
        assert!((second / first - 2.0).abs() < 0.02, "{svg}");
        let rows = drawn[1].1 - drawn[0].1;
        assert!((f64::from(ROW) - rows).abs() < 2.0, "{rows}: a row that nobody asked for");
        assert!(svg.contains("&lt;2&gt;") && svg.contains("2.0 ×"), "{svg}");
    }

    #[test]
    fn the_crate_has_a_colour_of_its_own() {
        let mut bars = bars(&[1.0, 2.0, 3.0]);
        bars[1].is_ours = false;
        bars[2].is_ours = false;
        let svg = chart("title", "unit", None, &bars).unwrap();
        assert_eq!((drawn(&svg).len(), svg.matches("#B4B9BE").count()), (1, 2), "{svg}");
    }

    #[test]
    fn a_mark_is_a_line_and_nothing_else_is() {
        let lines = |mark| {
            let svg = chart("title", "unit", mark, &bars(&[1.0])).unwrap();
            svg.matches("#FF0000").count()
        };
        assert_eq!((lines(None), lines(Some(1.0))), (0, 1));
    }

    #[test]
    fn nothing_to_draw_is_an_error_and_one_bar_is_a_chart() {
        assert!(chart("title", "unit", None, &[]).is_err());
        assert_eq!(drawn(&chart("title", "unit", None, &bars(&[1.0])).unwrap()).len(), 1);
    }
}
