//! Computes the layout of an image, and draws it.

use super::axes::{ValueAxis, times, value_label};
use super::bitmap::BitmapCanvas;
use super::canvas::{Anchor, Canvas, Stroke, TextStyle, UPWARDS};
use super::legend::{Entry, LETTER, Legend};
use super::lines::{Line, lines};
use super::options::{AreaMode, LineMode, PictureOptions};
use super::svg::SvgCanvas;
use crate::error::{Error, Result};
use crate::series::Series;
use crate::zone::Zone;
use sandur_memory::job::spend;

/// The part of the image that contains the lines.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    from: i64,
    until: i64,
    axis: ValueAxis,
}

impl Frame {
    fn x(&self, time: i64) -> f64 {
        let length = self.until.saturating_sub(self.from).max(1) as f64;
        let share = (time.saturating_sub(self.from) as f64 / length).clamp(0.0, 1.0);
        self.left + share * (self.right - self.left)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - self.axis.share(value) * (self.bottom - self.top)
    }
}

/// The time range of an image, and the time zone of its labels.
pub(crate) type Shown<'a> = ((i64, i64), &'a Zone);

/// Draws series over a time range as SVG.
pub(crate) fn svg(
    options: &PictureOptions,
    list: &mut [Series],
    shown: Shown<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut canvas = SvgCanvas::begin(out, (options.width, options.height));
    draw(&mut canvas, options, list, shown)?;
    canvas.end();
    Ok(())
}

/// Draws series over a time range as PNG.
pub(crate) fn png(
    options: &PictureOptions,
    list: &mut [Series],
    shown: Shown<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut canvas = BitmapCanvas::begin((options.width as u32, options.height as u32))?;
    draw(&mut canvas, options, list, shown)?;
    canvas.encode(out)
}

fn draw<C: Canvas>(
    canvas: &mut C,
    options: &PictureOptions,
    list: &mut [Series],
    (times, zone): Shown<'_>,
) -> Result<()> {
    if let Some(pie) = &options.pie {
        return pie.draw(canvas, options, list);
    }
    let lines = lines(options, list, options.width as usize)?;
    canvas.rectangle((0.0, 0.0), (options.width, options.height), options.background)?;
    let shown = lines.iter().filter(|line| !line.is_invisible);
    let entries = shown.map(|line| Entry { name: &line.name, color: line.color }).collect();
    let legend = Legend::of(options, entries, lines.len());
    let frame = frame(options, &lines, &legend, times);
    if frame.right - frame.left < 2.0 || frame.bottom - frame.top < 2.0 {
        return Ok(());
    }
    titles(canvas, options, &frame)?;
    grid(canvas, options, &frame, zone)?;
    // Areas come first, in reverse order, so that the lower ones of a stack remain visible.
    for line in lines.iter().rev().filter(|line| line.area.is_some() && !line.is_infinite) {
        draw_line(canvas, options, &frame, line, true)?;
    }
    for line in lines.iter().filter(|line| line.area.is_none() || line.is_infinite) {
        draw_line(canvas, options, &frame, line, false)?;
    }
    legend.draw(canvas, options, frame.left)
}

/// The least and the greatest of all values, including 0 if there are areas.
fn ends(options: &PictureOptions, lines: &[Line]) -> (f64, f64) {
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for line in lines.iter().filter(|line| !line.is_infinite) {
        for value in line.values.iter().flatten() {
            (least, most) = (least.min(*value), most.max(*value));
        }
    }
    if options.area_mode == AreaMode::Stacked || lines.iter().any(|line| line.area.is_some()) {
        (least, most) = (least.min(0.0), most.max(0.0));
    }
    if least > most { (0.0, 1.0) } else { (least, most) }
}

fn frame(options: &PictureOptions, lines: &[Line], legend: &Legend<'_>, (from, until): (i64, i64)) -> Frame {
    let (size, margin) = (options.font_size, options.margin);
    let title = if options.title.is_empty() { 0.0 } else { size * 2.2 };
    let times = if options.hides_x { 0.0 } else { size * 1.8 };
    let (top, bottom) = (margin + title, options.height - margin - times - legend.height);
    let steps = ((bottom - top) / (size * 3.0)).clamp(1.0, 20.0) as usize;
    let given = (options.least, options.most);
    let axis = ValueAxis::over(ends(options, lines), given, steps, options.is_binary);
    let letters = axis.values().map(|value| label(options, &axis, value).chars().count()).max().unwrap_or(0);
    let labels = if options.hides_y { 0.0 } else { letters as f64 * size * LETTER + 6.0 };
    let vertical = if options.vertical_title.is_empty() { 0.0 } else { size * 1.8 };
    let (left, right) = (margin + labels + vertical, options.width - margin);
    Frame { left, right, top, bottom, from, until, axis }
}

fn label(options: &PictureOptions, axis: &ValueAxis, value: f64) -> String {
    value_label(value, axis.step, options.has_units, options.is_binary)
}

fn titles<C: Canvas>(canvas: &mut C, options: &PictureOptions, frame: &Frame) -> Result<()> {
    let (size, middle) = (options.font_size, options.text(Anchor::Middle));
    if !options.title.is_empty() {
        let place = ((frame.left + frame.right) / 2.0, options.margin + size * 1.2);
        canvas.text(&options.title, place, TextStyle { size: size * 1.3, ..middle })?;
    }
    if !options.vertical_title.is_empty() {
        let place = (options.margin + size, (frame.top + frame.bottom) / 2.0);
        let upright = TextStyle { size: size * 1.1, turn: UPWARDS, ..middle };
        canvas.text(&options.vertical_title, place, upright)?;
    }
    Ok(())
}

fn grid<C: Canvas>(canvas: &mut C, options: &PictureOptions, frame: &Frame, zone: &Zone) -> Result<()> {
    let size = options.font_size;
    let stroke = |color| Stroke { color, width: 0.4, dash: None };
    for value in frame.axis.values() {
        let y = frame.y(value);
        if !options.hides_grid {
            canvas.line(&[(frame.left, y), (frame.right, y)], stroke(options.major))?;
        }
        if !options.hides_y {
            let place = (frame.left - 4.0, y + size * 0.35);
            canvas.text(&label(options, &frame.axis, value), place, options.text(Anchor::End))?;
        }
    }
    let most = ((frame.right - frame.left) / (size * LETTER * 11.0)).clamp(1.0, 40.0) as usize;
    for (time, written) in times((frame.from, frame.until), most, zone) {
        let x = frame.x(time);
        if !options.hides_grid {
            canvas.line(&[(x, frame.top), (x, frame.bottom)], stroke(options.minor))?;
        }
        if !options.hides_x {
            // Moved left, so that the text stays inside the image.
            let x = x.min(options.width - written.chars().count() as f64 * size * LETTER / 2.0);
            canvas.text(&written, (x, frame.bottom + size * 1.4), options.text(Anchor::Middle))?;
        }
    }
    Ok(())
}

fn draw_line<C: Canvas>(
    canvas: &mut C,
    options: &PictureOptions,
    frame: &Frame,
    line: &Line,
    is_area: bool,
) -> Result<()> {
    spend(line.values.len().saturating_mul(20))?;
    let stroke = Stroke { color: line.color, width: line.width, dash: line.dash };
    let level = frame.y(0.0_f64.clamp(frame.axis.bottom, frame.axis.top));
    let mut points: Vec<(f64, f64)> = Vec::new();
    let mut finish = |points: &mut Vec<(f64, f64)>| {
        match line.area.filter(|_| is_area) {
            Some(opacity) => canvas.area(points, level, line.color.faded(opacity))?,
            None => canvas.line(points, stroke)?,
        }
        points.clear();
        Ok::<_, Error>(())
    };
    for (place, value) in line.values.iter().enumerate() {
        let time = line.start.saturating_add(line.step.saturating_mul(place as i64));
        let (x, next) = (frame.x(time), frame.x(time.saturating_add(line.step)));
        match value {
            Some(value) if line.is_infinite => {
                if *value > 0.0 {
                    points.extend([(x, frame.bottom), (x, frame.top)]);
                    finish(&mut points)?;
                }
            }
            Some(value) if options.line_mode == LineMode::Staircase => {
                points.extend([(x, frame.y(*value)), (next, frame.y(*value))]);
            }
            Some(value) => points.push((x, frame.y(*value))),
            None if options.line_mode == LineMode::Connected => {}
            None => finish(&mut points)?,
        }
    }
    finish(&mut points)
}

#[cfg(test)]
mod tests {
    use super::super::colors::Color;
    use super::super::png::tests::{Decoded, decode};
    use super::*;
    use crate::column::Column;

    fn options(pairs: &[(&str, &str)]) -> PictureOptions {
        let pairs: Vec<(String, String)> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        PictureOptions::read(&pairs).unwrap()
    }

    fn drawn(pairs: &[(&str, &str)], list: &mut [Series]) -> String {
        let mut out = Vec::new();
        svg(&options(pairs), list, ((0, 600), &Zone::utc()), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn bitmap(pairs: &[(&str, &str)], list: &mut [Series]) -> Decoded {
        let mut out = Vec::new();
        png(&options(pairs), list, ((0, 600), &Zone::utc()), &mut out).unwrap();
        decode(&out)
    }

    fn series(name: &str, values: &[Option<f64>]) -> Series {
        let column = Column::collect(values.len(), values.iter().copied()).unwrap();
        Series::new(name, 0, 60 * values.len() as i64, 60, column)
    }

    #[test]
    fn an_image_has_lines_with_gaps_labels_and_names() {
        let values = [Some(1.0), Some(2.0), None, Some(4.0), Some(f64::INFINITY), Some(3.0)];
        let mut list = [series("a<b>&\u{1}", &values), series("c", &[Some(0.0); 10])];
        let picture = drawn(&[("title", "T\"itle"), ("vtitle", "V"), ("width", "600")], &mut list);
        for part in ["<svg ", "T&quot;itle", ">V</text>", "a&lt;b&gt;&amp; ", "00:04", "</svg>\n"] {
            assert!(picture.contains(part), "{part}: {picture}");
        }
        // Three runs of the first series and one of the second.
        assert_eq!(picture.matches("stroke-width=\"1.2\"").count(), 4);
    }

    #[test]
    fn modes_change_what_is_drawn() {
        let values = [Some(1.0), None, Some(3.0)];
        let count = |pairs: &[(&str, &str)], part: &str| {
            let mut list = [series("a", &values), series("b", &values)];
            drawn(pairs, &mut list).matches(part).count()
        };
        let line = "stroke-width=\"1.2\"";
        assert_eq!(count(&[], line), 4);
        assert_eq!(count(&[("lineMode", "connected")], line), 2);
        assert_eq!(count(&[("areaMode", "first")], line), 2);
        assert_eq!(count(&[("areaMode", "stacked")], "Z\" fill"), 4);
        assert_eq!(count(&[("drawNullAsZero", "true")], line), 2);
        assert_eq!(count(&[("graphOnly", "true")], "<text"), 0);
        assert!(count(&[("hideLegend", "true")], "<text") < count(&[], "<text"));
    }

    #[test]
    fn a_bitmap_has_the_colours_of_its_lines() {
        let count = |pairs: &[(&str, &str)], name: &str| {
            let mut list = [series("a", &[Some(1.0), Some(3.0), Some(2.0)]), series("b", &[Some(2.0); 10])];
            let Color { red, green, blue, .. } = Color::parse(name).unwrap();
            bitmap(pairs, &mut list).count(|pixel| pixel[..3] == [red, green, blue])
        };
        let wide = [("lineWidth", "3")];
        assert!(count(&[], "black") > 60_000 && count(&wide, "blue") > 40 && count(&wide, "green") > 200);
        assert!(count(&[("bgcolor", "aqua")], "aqua") > 60_000);
        let colored = [("colorList", "red,yellow"), ("lineWidth", "3")];
        assert!(count(&colored, "red") > 100 && count(&colored, "yellow") > 400);
        assert_eq!(count(&colored, "green"), 0);
        assert!(count(&[("areaMode", "all")], "green") > 10_000);
        let shown = [("title", "T"), ("fgcolor", "pink"), ("hideGrid", "true"), ("fontSize", "20")];
        let hidden = [("graphOnly", "true"), ("fgcolor", "pink")];
        assert!(count(&shown, "pink") > 20);
        assert_eq!(count(&hidden, "pink"), 0);
    }

    #[test]
    fn extreme_parameters_and_values_are_drawn() {
        let sizes = ["10", "11", "40", "2000"];
        let ends = [Some(1e308), Some(-1e308), None, Some(f64::NAN)];
        let list = || [series("long name of a series", &ends), series("", &[])];
        for (width, height) in sizes.iter().flat_map(|a| sizes.iter().map(move |b| (*a, *b))) {
            for extra in [("margin", "1e9"), ("fontSize", "1e9"), ("yMin", "1e308"), ("yMax", "-1e308")] {
                let pairs = [("width", width), ("height", height), extra];
                let picture = drawn(&pairs, &mut list());
                assert!(picture.ends_with("</svg>\n") && !picture.contains("NaN"), "{picture}");
                let size: (usize, usize) = (width.parse().unwrap(), height.parse().unwrap());
                if size.0 * size.1 <= 80_000 {
                    assert_eq!(bitmap(&pairs, &mut list()).size, size);
                }
            }
        }
    }
}
