//! `graphType=pie`: a slice for each series, proportional to its average, maximum or minimum.
//!
//! The first slice begins at the top, and slices follow clockwise. Parameters, defaults and labels are
//! those of graphite-web. A series without a value, or with a negative one, has no slice.

use std::f64::consts::{FRAC_PI_2, PI, TAU};

use super::canvas::{Anchor, Canvas, TextStyle};
use super::colors::Color;
use super::legend::{Entry, Legend};
use super::options::PictureOptions;
use super::pie_options::Pie;
use crate::error::Result;
use crate::series::Series;
use sandur_memory::job::spend;

/// The most corners of a slice. At the largest size, chords of this length still look like a circle.
const CORNERS_MAX: f64 = 512.0;
/// The distance of two corners, in pixels.
const CORNER: f64 = 2.0;

struct Slice {
    name: String,
    value: f64,
    color: Color,
}

impl Pie {
    /// Draws series as slices of a circle, with a title above and names below.
    pub(super) fn draw<C: Canvas>(
        &self,
        canvas: &mut C,
        options: &PictureOptions,
        list: &mut [Series],
    ) -> Result<()> {
        canvas.rectangle((0.0, 0.0), (options.width, options.height), options.background)?;
        let slices = self.slices(options, list)?;
        let total: f64 = slices.iter().map(|slice| slice.value).sum();
        if total <= 0.0 || !total.is_finite() {
            return no_data(canvas, options);
        }
        let entries = slices.iter().map(|slice| Entry { name: &slice.name, color: slice.color }).collect();
        let legend = Legend::of(options, entries, slices.len());
        let (size, margin) = (options.font_size, options.margin);
        let title = if options.title.is_empty() { 0.0 } else { size * 2.2 };
        let (top, bottom) = (margin + title, options.height - margin - legend.height);
        let (width, height) = (options.width - 2.0 * margin, bottom - top);
        if !options.title.is_empty() {
            let place = (options.width / 2.0, margin + size * 1.2);
            let style = TextStyle { size: size * 1.3, ..options.text(Anchor::Middle) };
            canvas.text(&options.title, place, style)?;
        }
        let circle = Circle {
            middle: (options.width / 2.0, (top + bottom) / 2.0),
            radius: width.min(height) / 2.0 * 0.95,
        };
        if circle.radius >= 1.0 {
            self.circle(canvas, options, (&circle, &slices, total))?;
        }
        legend.draw(canvas, options, margin)
    }

    fn slices(&self, options: &PictureOptions, list: &mut [Series]) -> Result<Vec<Slice>> {
        let mut slices = Vec::with_capacity(list.len());
        for (place, series) in list.iter_mut().enumerate() {
            spend(series.values.len())?;
            let color = options.colors.get(place % options.colors.len().max(1)).copied();
            let color = color.unwrap_or(options.foreground);
            let color = options.area_opacity.map_or(color, |opacity| color.faded(opacity));
            slices.push(Slice { value: self.mode.of(series), name: std::mem::take(&mut series.name), color });
        }
        Ok(slices)
    }

    fn circle<C: Canvas>(
        &self,
        canvas: &mut C,
        options: &PictureOptions,
        (circle, slices, total): (&Circle, &[Slice], f64),
    ) -> Result<()> {
        let (mut labels, mut angle) = (Vec::new(), -FRAC_PI_2);
        for slice in slices.iter().filter(|slice| slice.value > 0.0) {
            let share = slice.value / total;
            let end = angle + TAU * share;
            canvas.polygon(&circle.slice(angle, end)?, slice.color)?;
            let label = self.labels.of(slice.value, share, self.least);
            labels.extend(label.map(|label| (label, (angle + end) / 2.0)));
            angle = end;
        }
        for (label, angle) in labels {
            let (x, y) = circle.at(angle, 0.5);
            // The base line is half the height of a character below the middle of the label.
            let below = options.font_size * 0.35;
            let turn = if self.are_labels_rotated { readable(angle) } else { 0.0 };
            let place = (x - below * turn.sin(), y + below * turn.cos());
            let style = TextStyle {
                color: self.label_color,
                turn: turn.to_degrees(),
                ..options.text(Anchor::Middle)
            };
            canvas.text(&label, place, style)?;
        }
        Ok(())
    }
}

/// The rotation of a text along a radius, so that it is never upside down.
fn readable(angle: f64) -> f64 {
    if (FRAC_PI_2..=3.0 * FRAC_PI_2).contains(&angle.rem_euclid(TAU)) { angle - PI } else { angle }
}

fn no_data<C: Canvas>(canvas: &mut C, options: &PictureOptions) -> Result<()> {
    let size = (options.width * options.height).ln();
    let color = Color::parse("red").unwrap_or(options.foreground);
    let style = TextStyle { color, size, ..options.text(Anchor::Middle) };
    canvas.text("No Data", (options.width / 2.0, options.height / 2.0), style)
}

struct Circle {
    middle: (f64, f64),
    radius: f64,
}

impl Circle {
    /// The point at an angle, and at this fraction of the radius.
    fn at(&self, angle: f64, part: f64) -> (f64, f64) {
        let (sine, cosine) = angle.sin_cos();
        (self.middle.0 + self.radius * part * cosine, self.middle.1 + self.radius * part * sine)
    }

    /// The corners of a slice.
    fn slice(&self, from: f64, to: f64) -> Result<Vec<(f64, f64)>> {
        spend(((to - from) * self.radius * self.radius / 2.0) as usize)?;
        let corners = ((to - from) * self.radius / CORNER).ceil().clamp(1.0, CORNERS_MAX) as usize;
        let mut points = Vec::with_capacity(corners + 2);
        points.push(self.middle);
        points.extend((0..=corners).map(|n| self.at(from + (to - from) * n as f64 / corners as f64, 1.0)));
        Ok(points)
    }
}

#[cfg(test)]
mod tests {
    use super::super::png::tests::decode;
    use super::super::{png, svg};
    use super::*;
    use crate::column::Column;
    use crate::zone::Zone;

    fn options(pairs: &[(&str, &str)]) -> PictureOptions {
        let pairs = pairs.iter().chain(&[("graphType", "pie")]);
        let pairs: Vec<(String, String)> =
            pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        PictureOptions::read(&pairs).unwrap()
    }

    fn series(name: &str, values: &[Option<f64>]) -> Series {
        let column = Column::collect(values.len(), values.iter().copied()).unwrap();
        Series::new(name, 0, 60 * values.len() as i64, 60, column)
    }

    fn three() -> [Series; 3] {
        let small = series("small", &[Some(0.5), None, Some(1.5)]);
        [small, series("large", &[Some(2.0), Some(4.0)]), series("none", &[None, Some(-3.0)])]
    }

    fn drawn(pairs: &[(&str, &str)], list: &mut [Series]) -> String {
        let mut out = Vec::new();
        svg(&options(pairs), list, ((0, 600), &Zone::utc()), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn slices_are_as_large_as_their_series_and_named() {
        let of = |pairs: &[(&str, &str)], part: &str| drawn(pairs, &mut three()).matches(part).count();
        let slice = "Z\" fill";
        assert_eq!((of(&[], slice), of(&[], ">%25.00<"), of(&[], ">%75.00<")), (2, 1, 1));
        assert_eq!(of(&[("pieMode", "maximum")], ">%27.27<"), 1);
        assert_eq!(of(&[("pieMode", "minimum")], ">%20.00<"), 1);
        assert_eq!((of(&[], ">small<"), of(&[], ">none<")), (1, 1));
        assert_eq!(of(&[("hideLegend", "true")], ">small<"), 0);
        assert_eq!(of(&[("valueLabelsMin", "30")], ">%"), 1);
        assert_eq!(of(&[("valueLabels", "none")], ">%"), 0);
        let numbers = [("valueLabels", "number"), ("valueLabelsMin", "0")];
        assert_eq!((of(&numbers, ">1<"), of(&numbers, ">3<")), (1, 1));
        assert_eq!(of(&[("pieLabels", "rotated")], "rotate("), 2);
        assert_eq!(of(&[("title", "T&")], ">T&amp;<"), 1);
        assert_eq!(of(&[("valueLabelsColor", "pink")], "rgb(255,100,100)"), 2);
        assert!(drawn(&[], &mut []).contains(">No Data<"));
        assert!(drawn(&[], &mut [series("nothing", &[None])]).contains(">No Data<"));
    }

    #[test]
    fn the_first_slice_of_a_bitmap_begins_at_the_top() {
        let mut out = Vec::new();
        let size = [("width", "200"), ("height", "200"), ("graphOnly", "true"), ("valueLabels", "none")];
        let options = options(&size);
        png(&options, &mut three(), ((0, 600), &Zone::utc()), &mut out).unwrap();
        let picture = decode(&out);
        assert_eq!((picture.at(130, 70), picture.at(70, 130)), (&[100, 100, 255][..], &[0, 200, 0][..]));
        assert_eq!((picture.at(70, 70), picture.at(2, 2)), (&[0, 200, 0][..], &[0, 0, 0][..]));
    }

    #[test]
    fn extreme_values_and_sizes_of_a_pie_are_drawn() {
        let ends = [Some(1e308), Some(f64::INFINITY), None, Some(f64::NAN)];
        for (width, height) in [("10", "10"), ("10", "2000"), ("2000", "11"), ("400", "300")] {
            for extra in [("margin", "1e9"), ("fontSize", "1e9"), ("valueLabelsMin", "-1e300")] {
                let mut list: Vec<Series> = (0..40).map(|n| series(&format!("{n}"), &ends)).collect();
                list.push(series("", &[]));
                let picture = drawn(&[("width", width), ("height", height), extra], &mut list);
                assert!(picture.ends_with("</svg>\n") && !picture.contains("NaN"), "{picture}");
            }
        }
        let words = [("pieMode", "median"), ("valueLabels", "all"), ("pieLabels", "up"), ("graphType", "3d")];
        for (name, value) in words {
            let pairs = [("graphType", "pie"), (name, value)].map(|(a, b)| (a.to_owned(), b.to_owned()));
            let error = PictureOptions::read(&pairs).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
