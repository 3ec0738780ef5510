//! Draws series over time as one plot in a terminal, with axes and a legend.
//!
//! A plot has at most [`DRAWN_MAX`] series and a legend at most [`LISTED_MAX`]; the text says how many there
//! are. With colors, a series is drawn in dots of braille; without colors, several series are drawn with
//! one letter each.

mod canvas;

use std::io::Write;

use canvas::Canvas;
use terminal_size::{Width, terminal_size_of};

use super::escape::escaped;
use super::moment::Window;
use super::paint::{Ink, Paint};
use super::samples::Row;

/// Number of series in a plot: as many colors can be told apart.
const DRAWN_MAX: usize = 8;
/// Number of series in a legend; other output formats have all of them.
const LISTED_MAX: usize = 50;
/// Rows of a plot.
const ROWS: usize = 12;
/// Columns of a plot without its axis.
const COLUMNS: (usize, usize) = (16, 160);
/// Columns of a terminal whose width is not known.
const WIDTH_DEFAULT: usize = 100;
/// Letters of series in a plot without colors.
const LETTERS: [char; DRAWN_MAX] = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];

/// Draws the series in one plot, and lists each with its last, minimum and maximum value.
pub fn draw(out: &mut impl Write, rows: &[Row], window: &Window, paint: Paint) -> std::io::Result<()> {
    let width = terminal_size_of(std::io::stdout()).map_or(WIDTH_DEFAULT, |(Width(width), _)| width.into());
    draw_in(out, rows, window, paint, width)
}

fn draw_in(
    out: &mut impl Write,
    rows: &[Row],
    window: &Window,
    paint: Paint,
    width: usize,
) -> std::io::Result<()> {
    let mut ranked: Vec<(&Row, Vec<(i64, f64)>)> = rows.iter().map(|row| (row, points(row))).collect();
    let highest = |points: &[(i64, f64)]| bounds(points).map_or(f64::NEG_INFINITY, |(_, most)| most);
    if ranked.len() > DRAWN_MAX {
        // The sort is stable: equal series keep the order of the answer.
        ranked.sort_by(|(_, a), (_, b)| highest(b).total_cmp(&highest(a)));
    }
    let drawn: Vec<&[(i64, f64)]> =
        ranked.iter().take(DRAWN_MAX).map(|(_, points)| points.as_slice()).collect();
    plot(out, &drawn, window, paint, width)?;
    for (n, (row, points)) in ranked.iter().take(LISTED_MAX).enumerate() {
        legend(out, row, points, mark(n, drawn.len(), paint).as_deref(), paint)?;
    }
    if rows.len() > DRAWN_MAX {
        writeln!(out, "{} series; drawn: the {DRAWN_MAX} with the highest maximum", rows.len())?;
    }
    if rows.len() > LISTED_MAX {
        let more = rows.len() - LISTED_MAX;
        writeln!(out, "{more} series are not listed: --output jsonl or csv prints all")?;
    }
    Ok(())
}

/// The mark of a series in the legend; `None` if it is not drawn.
fn mark(n: usize, drawn: usize, paint: Paint) -> Option<String> {
    if n >= drawn {
        return None;
    }
    match paint.is_on() {
        true => Some(paint.series(n, "\u{25a0}")),
        false => Some(if drawn > 1 { LETTERS[n].to_string() } else { "\u{25a0}".to_owned() }),
    }
}

fn legend(
    out: &mut impl Write,
    row: &Row,
    points: &[(i64, f64)],
    mark: Option<&str>,
    paint: Paint,
) -> std::io::Result<()> {
    let name = paint.ink(Ink::Name, &escaped(&row.labels()));
    let last = row.values.last().map_or("", |(_, value)| value.as_str());
    write!(out, "{} {name}  last {last}", mark.unwrap_or(" "))?;
    if let Some((least, most)) = bounds(points) {
        write!(out, ", min {least}, max {most}")?;
    }
    writeln!(out, ", {} points", row.values.len())
}

/// Timestamps and values; those that are no finite numbers are NaN, and interrupt the line.
fn points(row: &Row) -> Vec<(i64, f64)> {
    let value = |text: &str| text.parse::<f64>().ok().filter(|value| value.is_finite()).unwrap_or(f64::NAN);
    row.values.iter().map(|(time, text)| (*time, value(text))).collect()
}

/// The least and the highest finite value.
fn bounds(points: &[(i64, f64)]) -> Option<(f64, f64)> {
    let finite = points.iter().map(|(_, value)| *value).filter(|value| value.is_finite());
    finite.fold(None, |bounds, value| {
        let (least, most) = bounds.unwrap_or((value, value));
        Some((f64::min(least, value), f64::max(most, value)))
    })
}

/// Draws the plot with its axes; nothing if no series has a finite value.
fn plot(
    out: &mut impl Write,
    series: &[&[(i64, f64)]],
    window: &Window,
    paint: Paint,
    width: usize,
) -> std::io::Result<()> {
    let each = series.iter().filter_map(|points| bounds(points));
    let Some((least, most)) = each.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else { return Ok(()) };
    let labels = [most, most / 2.0 + least / 2.0, least].map(short);
    let margin = labels.iter().map(String::len).max().unwrap_or(0);
    let columns = width.saturating_sub(margin + 2).clamp(COLUMNS.0, COLUMNS.1);
    let mut canvas = Canvas::new(columns, ROWS);
    for (n, points) in series.iter().enumerate() {
        draw_series(&mut canvas, n, points, window, (least, most));
    }
    let is_lettered = !paint.is_on() && series.len() > 1;
    for row in 0..ROWS {
        let label = match row {
            0 => labels[0].as_str(),
            _ if row == ROWS / 2 => labels[1].as_str(),
            _ if row == ROWS - 1 => labels[2].as_str(),
            _ => "",
        };
        let tick = if label.is_empty() { '\u{2502}' } else { '\u{2524}' };
        let line: String =
            (0..columns).map(|column| cell(&canvas, column, row, is_lettered, paint)).collect();
        writeln!(out, "{label:>margin$} {tick}{}", line.trim_end())?;
    }
    time_axis(out, window, margin, columns)
}

/// A character of the plot.
fn cell(canvas: &Canvas, column: usize, row: usize, is_lettered: bool, paint: Paint) -> String {
    match canvas.cell(column, row) {
        None => " ".to_owned(),
        Some((_, series)) if is_lettered => LETTERS[series].to_string(),
        Some((dots, series)) => paint.series(series, &dots.to_string()),
    }
}

/// Draws lines between neighbours. A missing point interrupts the line.
fn draw_series(
    canvas: &mut Canvas,
    n: usize,
    points: &[(i64, f64)],
    window: &Window,
    (least, most): (f64, f64),
) {
    let steps = points.windows(2).map(|pair| pair[1].0.saturating_sub(pair[0].0));
    let gap = steps.filter(|step| *step > 0).min().unwrap_or(i64::MAX).saturating_mul(5) / 2;
    let length = window.end.saturating_sub(window.start).max(1) as f64;
    // Halves, because the difference of two finite numbers may be infinite.
    let height = most / 2.0 - least / 2.0;
    let place = |(time, value): &(i64, f64)| {
        let across = time.saturating_sub(window.start) as f64 / length;
        let up = if height > 0.0 { (value / 2.0 - least / 2.0) / height } else { 0.5 };
        canvas_place(across, up)
    };
    let mut before: Option<&(i64, f64)> = None;
    for point in points {
        if !point.1.is_finite() {
            before = None;
            continue;
        }
        let from = before.filter(|before| point.0.saturating_sub(before.0) <= gap).unwrap_or(point);
        canvas.line(n, place(from), place(point));
        before = Some(point);
    }
}

/// Shares of width and height, within the plot.
fn canvas_place(across: f64, up: f64) -> (f64, f64) {
    (across.clamp(0.0, 1.0), up.clamp(0.0, 1.0))
}

/// The axis of time: start, middle and end, as many as have room.
fn time_axis(out: &mut impl Write, window: &Window, margin: usize, columns: usize) -> std::io::Result<()> {
    /// A tick on the axis; the arithmetic of columns assumes one character.
    const TICK: char = '\u{2534}';
    let length = window.end.saturating_sub(window.start);
    let label = |at: i64| short_time(&window.zone.show(at), length);
    let (first, last) = (label(window.start), label(window.end));
    let middle = label(window.start.saturating_add(length / 2));
    let mut axis = vec!['\u{2500}'; columns];
    (axis[0], axis[columns - 1]) = (TICK, TICK);
    let mut text = first.clone();
    let has_middle = columns >= first.len() + middle.len() + last.len() + 4;
    if has_middle {
        axis[columns / 2] = TICK;
        text = format!("{text:<width$}{middle}", width = columns / 2 - middle.len() / 2);
    }
    if columns > text.len() + last.len() {
        let room = columns - text.len();
        text = format!("{text}{last:>room$}");
    }
    let axis: String = axis.into_iter().collect();
    writeln!(out, "{:margin$} \u{2514}{axis}", "")?;
    writeln!(out, "{:margin$}  {}", "", text.trim_end())?;
    let (start, end) = (window.zone.show(window.start), window.zone.show(window.end));
    writeln!(out, "{:margin$}  from {start} to {end}", "")
}

/// The part of an RFC 3339 time that differs in a range of this length.
fn short_time(time: &str, length_ns: i64) -> String {
    const DAY_NS: i64 = 86_400 * 1_000_000_000;
    let part = match length_ns {
        ..=DAY_NS => 11..19,
        _ if length_ns < 300 * DAY_NS => 5..16,
        _ => 0..10,
    };
    time.get(part).unwrap_or(time).replace('T', " ")
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
    use crate::moment::Zone;

    const SECOND: i64 = 1_000_000_000;

    fn row(name: &str, values: &[(i64, &str)]) -> Row {
        let metric = [("__name__".to_owned(), name.to_owned())].into();
        let values = values.iter().map(|(time, value)| (time * SECOND, (*value).to_owned())).collect();
        Row { metric, values, source: serde_json::Value::Null }
    }

    fn drawn(rows: &[Row], paint: Paint, width: usize) -> Vec<String> {
        let mut out = Vec::new();
        let window = Window { start: 0, end: 100 * SECOND, zone: Zone::utc() };
        draw_in(&mut out, rows, &window, paint, width).unwrap();
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn several_series_share_one_plot_with_an_axis_of_time_and_a_legend() {
        let rows = [
            row("up", &[(0, "0"), (50, "5"), (100, "10")]),
            row("down", &[(0, "10"), (50, "5"), (100, "0")]),
        ];
        let lines = drawn(&rows, Paint::none(), 60);
        assert_eq!(lines.len(), ROWS + 3 + 2, "{lines:#?}");
        assert!(lines[0].starts_with("10 \u{2524}b") && lines[0].ends_with('a'), "{lines:#?}");
        assert!(lines[ROWS - 1].starts_with(" 0 \u{2524}a") && lines[ROWS - 1].ends_with('b'), "{lines:#?}");
        let times = &lines[ROWS + 1];
        assert!(times.starts_with("    00:00:00") && times.ends_with("00:01:40"), "{times}");
        assert!(times.contains("00:00:50") && times.chars().count() == 60, "{times}");
        assert!(lines[ROWS + 2].contains("from 1970-01-01T00:00:00.000Z to "), "{lines:#?}");
        assert_eq!(lines[ROWS + 3], "a up  last 10, min 0, max 10, 3 points");
        let colored = drawn(&rows, Paint::always(), 60).join("\n");
        assert!(colored.contains("\u{1b}[") && !colored.contains("\u{2524}b"), "{colored}");
    }

    #[test]
    fn a_narrow_terminal_a_single_point_and_missing_values_are_drawn() {
        for width in [0, 1, 20, 40, 500] {
            let lines = drawn(&[row("one", &[(50, "7")])], Paint::none(), width);
            assert_eq!(lines.len(), ROWS + 3 + 1, "{lines:#?}");
            assert!(
                lines.iter().take(ROWS + 1).all(|line| line.chars().count() <= width.max(20)),
                "{lines:#?}"
            );
            assert!(lines[ROWS / 2].chars().any(|c| ('\u{2801}'..='\u{28ff}').contains(&c)), "{lines:#?}");
        }
        let gaps = row("gaps", &[(0, "1"), (10, "NaN"), (20, "+Inf"), (30, "1"), (90, "1")]);
        let lines = drawn(&[gaps, row("other", &[(0, "0")])], Paint::none(), 104);
        let count = lines[0].matches('a').count();
        assert!((3..6).contains(&count), "three points without lines between them: {lines:#?}");
        assert!(lines.last().unwrap().starts_with("b other"), "{lines:#?}");
        let none = drawn(&[row("histogram", &[(0, "{count: 1, sum: 2}"), (10, "NaN")])], Paint::none(), 80);
        assert_eq!(none, ["\u{25a0} histogram  last NaN, 2 points"]);
        assert!(drawn(&[], Paint::none(), 80).is_empty());
    }

    #[test]
    fn ten_thousand_series_are_bounded_and_counted() {
        let rows: Vec<Row> =
            (0..10_000).map(|n| row(&format!("s{n}"), &[(0, "1"), (100, &n.to_string())])).collect();
        let lines = drawn(&rows, Paint::none(), 80);
        assert_eq!(lines.len(), ROWS + 3 + LISTED_MAX + 2);
        assert!(
            lines[ROWS + 3].starts_with("a s9999 ") && lines[ROWS + 3 + DRAWN_MAX].starts_with("  s9991 ")
        );
        assert_eq!(lines[lines.len() - 2], "10000 series; drawn: the 8 with the highest maximum");
        assert_eq!(lines[lines.len() - 1], "9950 series are not listed: --output jsonl or csv prints all");
    }

    #[test]
    fn values_at_the_edges_of_their_type_are_drawn() {
        let window = Window { start: i64::MIN, end: i64::MAX, zone: Zone::utc() };
        for values in [[0.0, 1.0], [f64::MAX, f64::MIN], [5.0, 5.0], [1e-300, -1e300], [5e-324, 0.0]] {
            let points = [(i64::MIN, values[0]), (0, values[1]), (i64::MAX, values[0])];
            let mut out = Vec::new();
            plot(&mut out, &[&points], &window, Paint::none(), 80).unwrap();
            assert_eq!(String::from_utf8(out).unwrap().lines().count(), ROWS + 3);
        }
        assert_eq!(
            [0.0, 1.5, 1234567.0, 1e9, -2e-5].map(short),
            ["0", "1.5", "1234567", "1.00e9", "-2.00e-5"]
        );
    }
}
