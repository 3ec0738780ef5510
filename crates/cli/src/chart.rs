//! Draws series over time as charts in a terminal.

use std::io::Write;

use terminal_size::{Width, terminal_size_of};
use textplots::{Chart, LabelBuilder, LabelFormat, Plot, Shape};

use super::escape::escaped;
use super::moment::Window;
use super::paint::{Ink, Paint};
use super::samples::Row;

/// Number of series that get a chart; for the others only figures are printed.
const CHARTS_MAX: usize = 8;
/// Width and height of a chart in dots; a character has two columns and four rows of dots.
const DOT_COLUMNS: (u32, u32) = (64, 200);
const DOT_ROWS: u32 = 40;
/// Columns next to the chart: axis and labels.
const MARGIN: u32 = 14;

/// Draws each series with its name, and prints its last, minimum and maximum value below.
pub fn draw(out: &mut impl Write, rows: &[Row], window: &Window, paint: Paint) -> std::io::Result<()> {
    let width = terminal_size_of(std::io::stdout()).map_or(100, |(Width(width), _)| u32::from(width));
    let dots = (width.saturating_sub(MARGIN) * 2).clamp(DOT_COLUMNS.0, DOT_COLUMNS.1);
    for (n, row) in rows.iter().enumerate() {
        writeln!(out, "{}", paint.ink(Ink::Name, &escaped(&row.labels())))?;
        let points = points(row);
        if n < CHARTS_MAX && points.len() > 1 {
            let text = chart(&points, (window.start, window.end), dots);
            for line in text.lines().filter(|line| !line.trim().is_empty()) {
                writeln!(out, "  {}", paint.ink(Ink::Good, line.trim_end()))?;
            }
        }
        let last = row.values.last().map_or("", |(_, value)| value.as_str());
        let (least, most) = row.bounds();
        writeln!(out, "  last {last}, min {least}, max {most}, {} points", row.values.len())?;
    }
    if rows.len() > CHARTS_MAX {
        let (start, end) = (window.zone.show(window.start), window.zone.show(window.end));
        writeln!(out, "{} series from {start} to {end}; charts of the first {CHARTS_MAX}", rows.len())?;
    }
    Ok(())
}

/// Timestamps and finite values.
fn points(row: &Row) -> Vec<(i64, f64)> {
    let value = |(time, value): &(i64, String)| Some((*time, value.parse().ok()?));
    row.values.iter().filter_map(value).filter(|(_, value): &(i64, f64)| value.is_finite()).collect()
}

/// Draws the points. Both axes are scaled to 0..1, since timestamps and large values exceed the precision
/// of `f32`.
fn chart(points: &[(i64, f64)], (start, end): (i64, i64), dots: u32) -> String {
    let values = points.iter().map(|(_, value)| *value);
    let (least, most) = values
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)));
    let (length, height) = (end.saturating_sub(start).max(1) as f64, most - least);
    let place = |(time, value): &(i64, f64)| {
        let at = (time.saturating_sub(start) as f64 / length).clamp(0.0, 1.0);
        let up = if height > 0.0 && height.is_finite() { (value - least) / height } else { 0.5 };
        (at as f32, up as f32)
    };
    let placed: Vec<(f32, f32)> = points.iter().map(place).collect();
    let shape = Shape::Lines(&placed);
    let mut chart = Chart::new_with_y_range(dots, DOT_ROWS, 0.0, 1.0, 0.0, 1.0);
    let label = move |up: f32| short(if up > 0.5 { most } else { least });
    let chart = chart.lineplot(&shape).x_label_format(LabelFormat::None);
    let chart = chart.y_label_format(LabelFormat::Custom(Box::new(label)));
    chart.axis();
    chart.figures();
    chart.to_string()
}

/// Formats a number with few characters.
fn short(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || (1e-3..1e7).contains(&size) {
        let text = format!("{value:.3}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        return text.to_owned();
    }
    format!("{value:.2e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_at_the_edges_of_their_type_are_drawn() {
        for values in [[0.0, 1.0], [f64::MAX, f64::MIN], [5.0, 5.0], [1e-300, -1e300], [5e-324, 0.0]] {
            let points = [(i64::MIN, values[0]), (0, values[1]), (i64::MAX, values[0])];
            for dots in [DOT_COLUMNS.0, DOT_COLUMNS.1] {
                let text = chart(&points, (i64::MIN, i64::MAX), dots);
                assert!(text.lines().count() >= DOT_ROWS as usize / 4, "{text}");
            }
        }
        assert_eq!(
            [0.0, 1.5, 1234567.0, 1e9, -2e-5].map(short),
            ["0", "1.5", "1234567", "1.00e9", "-2.00e-5"]
        );
    }
}
