//! Horizontal bars, as SVG.

use anyhow::{Context, Result};
use plotters::prelude::*;

pub(super) struct Bar {
    pub(super) name: String,
    /// A multiple of what the chart compares with.
    pub(super) value: f64,
    /// Whether the bar shows this crate; it has a different color.
    pub(super) is_ours: bool,
}

const OURS: RGBColor = RGBColor(0x40, 0x78, 0xc0);
const OTHERS: RGBColor = RGBColor(0xb4, 0xb9, 0xbe);

const WIDTH: u32 = 820;
const NAMES: u32 = 310;
const ROW: u32 = 22;
/// The title, the axis and what the axis shows.
const REST: u32 = 88;

/// Bars from zero, the first at the top, with a line at what they are multiples of.
pub(super) fn chart(title: &str, unit: &str, bars: &[Bar]) -> Result<String> {
    let rows = u32::try_from(bars.len())?;
    let last = rows.checked_sub(1).context("there is nothing to draw")?;
    let most = bars.iter().map(|bar| bar.value).fold(1.0, f64::max);
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (WIDTH, REST + ROW * rows)).into_drawing_area();
    area.fill(&WHITE)?;
    // Room for the last bar's value.
    let values = 0.0..most * 1.12;
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
    // Not a `Histogram`: that one draws its bars in another order each time.
    chart.draw_series(placed.clone().map(|(place, bar)| {
        let color = if bar.is_ours { OURS } else { OTHERS };
        let top = if place == last { SegmentValue::Last } else { SegmentValue::Exact(place + 1) };
        let corners = [(0.0, SegmentValue::Exact(place)), (bar.value, top)];
        let mut bar = Rectangle::new(corners, color.filled());
        bar.set_margin(4, 4, 0, 0);
        bar
    }))?;
    let values = placed.map(|(place, bar)| (place, bar.value));
    chart.draw_series(values.map(|(place, value)| {
        let text = Text::new(format!("{value:.1} ×"), (4, -6), ("sans-serif", 13));
        EmptyElement::at((value, SegmentValue::CenterOf(place))) + text
    }))?;
    let ends = [SegmentValue::Exact(0), SegmentValue::Last];
    chart.draw_series(LineSeries::new(ends.map(|end| (1.0, end)), RED))?;
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
    fn bars_of(svg: &str) -> Vec<(f64, f64)> {
        let rects = svg.split("<rect ").filter(|rect| rect.contains("#4078C0"));
        let number = |rect: &str, name: &str| {
            let (_, value) = rect.split_once(&format!(" {name}=\"")).unwrap();
            value.split('"').next().unwrap().parse::<f64>().unwrap()
        };
        rects.map(|rect| (number(rect, "width"), number(rect, "y"))).collect()
    }

    #[test]
    fn bars_are_in_proportion_and_in_their_order() {
        let svg = chart("title", "unit", &bars(&[1.0, 2.0])).unwrap();
        let mut found = bars_of(&svg);
        found.sort_by(|a, b| a.1.total_cmp(&b.1));
        let [(first, _), (second, _)] = found[..] else { panic!("{svg}") };
        assert!((second / first - 2.0).abs() < 0.02, "{svg}");
        let rows = found[1].1 - found[0].1;
        assert!((f64::from(ROW) - rows).abs() < 2.0, "{rows}: unexpected distance of rows");
        assert!(svg.contains("&lt;2&gt;") && svg.contains("2.0 ×"), "{svg}");
    }

    #[test]
    fn the_crate_has_its_own_color() {
        let mut bars = bars(&[1.0, 2.0, 3.0]);
        bars[1].is_ours = false;
        bars[2].is_ours = false;
        let svg = chart("title", "unit", &bars).unwrap();
        assert_eq!((bars_of(&svg).len(), svg.matches("#B4B9BE").count()), (1, 2), "{svg}");
    }

    #[test]
    fn one_line_shows_what_the_bars_are_multiples_of() {
        let svg = chart("title", "unit", &bars(&[0.5, 2.0])).unwrap();
        assert_eq!(svg.matches("#FF0000").count(), 1, "{svg}");
    }

    #[test]
    fn nothing_to_draw_is_an_error_and_one_bar_is_a_chart() {
        assert!(chart("title", "unit", &[]).is_err());
        assert_eq!(bars_of(&chart("title", "unit", &bars(&[1.0])).unwrap()).len(), 1);
    }
}
