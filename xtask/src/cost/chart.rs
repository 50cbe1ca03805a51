//! The chart of `docs/cost.md`: what a replay costs by the answer's size, both on logarithmic scales.

use std::fmt::Write as _;

use super::{Row, size};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 200.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;

/// Of the axes: bytes, and dollars a million replays.
const BYTES: (f64, f64) = (150.0, 7e6);
const DOLLARS: (f64, f64) = (0.05, 400.0);

/// What is drawn: kind, way, colour, whether the line is dashed, and what it is called.
const LINES: [(&str, &str, &str, bool, &str); 5] = [
    ("Json", "obvious", "#b3261e", false, "obvious"),
    ("Random", "write first", "#1f5fa8", true, "write first, random bytes"),
    ("Json", "write first", "#1f5fa8", false, "write first, JSON"),
    ("Random", "read first", "#2e7d32", true, "read first, random bytes"),
    ("Json", "read first", "#2e7d32", false, "read first, JSON"),
];

pub(super) fn draw(rows: &[Row]) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"14\" font-weight=\"bold\">\
         A million replays, in dollars, by the size of the answer</text>\n"
    );
    axes(&mut svg, rows);
    for (index, (kind, way, colour, is_dashed, label)) in LINES.into_iter().enumerate() {
        let mut points: Vec<(f64, f64)> = rows
            .iter()
            .filter(|row| row.kind == kind && row.way == way)
            .filter_map(|row| Some((x(to_f64(row.bytes)), y(row.replay?))))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let dashes = if is_dashed { " stroke-dasharray=\"6 4\"" } else { "" };
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>",
            path.join(" ")
        );
        for (x, y) in points {
            let _ =
                writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
        legend(&mut svg, index, colour, dashes, label);
    }
    svg.push_str("</svg>\n");
    svg
}

fn legend(svg: &mut String, index: usize, colour: &str, dashes: &str, label: &str) {
    let (x, y) = (WIDTH - RIGHT + 20.0, TOP + 20.0 + 22.0 * to_f64(index as u64));
    let _ = writeln!(
        svg,
        "<line x1=\"{x}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\" stroke=\"{colour}\" \
         stroke-width=\"2\"{dashes}/><text x=\"{}\" y=\"{}\">{label}</text>",
        x + 28.0,
        x + 34.0,
        y + 4.0
    );
}

fn axes(svg: &mut String, rows: &[Row]) {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for dollars in [0.1, 1.0, 10.0, 100.0] {
        let y = y(dollars);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">${dollars}</text>",
            LEFT - 8.0,
            y + 4.0
        );
    }
    for bytes in super::sizes(rows) {
        let x = x(to_f64(bytes));
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#eee\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            size(bytes)
        );
    }
    let _ = writeln!(
        svg,
        "<rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#888\"/>",
        right - LEFT,
        bottom - TOP
    );
}

/// Exact up to 2^53, which no answer reaches.
#[expect(clippy::cast_precision_loss, reason = "see above")]
fn to_f64(number: u64) -> f64 {
    number as f64
}

fn x(bytes: f64) -> f64 {
    LEFT + (WIDTH - RIGHT - LEFT) * share(bytes, BYTES)
}

fn y(dollars: f64) -> f64 {
    HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share(dollars, DOLLARS)
}

/// How far a value is along a logarithmic axis.
fn share(value: f64, (least, most): (f64, f64)) -> f64 {
    (value.clamp(least, most) / least).ln() / (most / least).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_goes_from_its_least_to_its_most() {
        assert!(share(1.0, (1.0, 100.0)).abs() < 1e-9);
        assert!((share(10.0, (1.0, 100.0)) - 0.5).abs() < 1e-9);
        assert!((share(1e9, (1.0, 100.0)) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn every_line_has_its_points() {
        let row = |kind: &str, way: &str| Row {
            kind: kind.to_owned(),
            bytes: 1024,
            way: way.to_owned(),
            first: 1.0,
            replay: Some(1.0),
            in_progress: 1.0,
            mismatch: 1.0,
        };
        let rows: Vec<Row> = LINES.iter().map(|(kind, way, ..)| row(kind, way)).collect();
        assert_eq!(draw(&rows).matches("<circle").count(), LINES.len());
    }
}
