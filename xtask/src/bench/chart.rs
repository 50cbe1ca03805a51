//! Horizontal bars as SVG: all that these figures need.

use std::fmt::Write as _;

pub(super) struct Bar {
    pub(super) name: String,
    pub(super) value: f64,
}

const WIDTH: f64 = 820.0;
const NAMES: f64 = 300.0;
const ROW: usize = 22;

/// Bars from zero, with a line at `mark` where that is not zero.
pub(super) fn chart(title: &str, mark: f64, bars: &[Bar]) -> String {
    let most = bars.iter().map(|bar| bar.value).fold(mark, f64::max).max(f64::MIN_POSITIVE);
    let scale = (WIDTH - NAMES - 80.0) / most;
    let height = 40 + ROW * bars.len();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"10\" y=\"20\" font-weight=\"bold\">{}</text>\n",
        escaped(title)
    );
    for (row, bar) in bars.iter().enumerate() {
        let y = 34 + ROW * row;
        let width = bar.value * scale;
        // Writing to a string does not fail.
        let _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{NAMES}\" y=\"{y}\" width=\"{width:.1}\" height=\"16\" fill=\"#4078c0\"/>\
             <text x=\"{:.1}\" y=\"{}\">{:.2}</text>",
            NAMES - 8.0,
            y + 13,
            escaped(&bar.name),
            NAMES + width + 6.0,
            y + 13,
            bar.value
        );
    }
    if mark > 0.0 {
        let x = NAMES + mark * scale;
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"30\" y2=\"{height}\" stroke=\"#c33\"/>"
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_fills_its_room_and_others_are_in_proportion() {
        let bar = |name: &str, value| Bar { name: name.into(), value };
        let svg = chart("a < b", 0.0, &[bar("one", 1.0), bar("two", 2.0)]);
        assert!(svg.contains("a &lt; b"), "{svg}");
        assert!(svg.contains("width=\"440.0\"") && svg.contains("width=\"220.0\""), "{svg}");
        assert!(!svg.contains("<line"), "{svg}");
    }

    #[test]
    fn nothing_to_show_is_no_division_by_zero() {
        assert!(!chart("t", 0.0, &[]).contains("NaN"));
    }
}
