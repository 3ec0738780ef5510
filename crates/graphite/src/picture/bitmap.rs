//! A canvas of pixels.
//!
//! **Invariant.** Memory is reserved from the job's owner before pixels are allocated: for the bitmap, its
//! encoded form, and drawing one piece of a line. Long lines are drawn in pieces.

use sandur_memory::Reservation;
use sandur_memory::job::{look, reserve_exactly, spend};
use tiny_skia::{
    FillRule, LineCap, LineJoin, Paint, Path, PathBuilder, PixmapMut, Rect, StrokeDash, Transform,
};

use super::canvas::{Anchor, Canvas, Stroke, TextStyle};
use super::colors::Color;
use super::font::Font;
use super::png::encode;
use crate::error::{Error, Result};

/// The most points or dashes that are drawn at once.
const PIECE_MAX: usize = 1_024;
/// The most bytes for drawing a piece.
const PIECE_BYTES: u64 = 4 << 20;
/// Shorter dashes only look like a paler line.
const DASH_MIN: f64 = 1.0;

/// An image of pixels in progress.
pub(super) struct BitmapCanvas {
    pixels: Vec<u8>,
    size: (u32, u32),
    font: Font,
    _held: Option<Reservation>,
}

fn paint(color: Color) -> Paint<'static> {
    let mut paint = Paint::default();
    let opacity = (color.opacity.clamp(0.0, 1.0) * 255.0).round() as u8;
    paint.set_color_rgba8(color.red, color.green, color.blue, opacity);
    paint
}

fn polygon(points: impl Iterator<Item = (f64, f64)>) -> PathBuilder {
    let mut path = PathBuilder::new();
    for (x, y) in points {
        match path.is_empty() {
            true => path.move_to(x as f32, y as f32),
            false => path.line_to(x as f32, y as f32),
        }
    }
    path
}

/// The number of points in the next piece of a line, and its length.
fn piece(points: &[(f64, f64)], dash: Option<f64>) -> (usize, f64) {
    let most = dash.map_or(f64::INFINITY, |dash| dash * 2.0 * PIECE_MAX as f64);
    let mut length = 0.0;
    for (place, pair) in points.windows(2).take(PIECE_MAX).enumerate() {
        length += (pair[1].0 - pair[0].0).hypot(pair[1].1 - pair[0].1);
        if length >= most {
            return (place + 2, length);
        }
    }
    (points.len().min(PIECE_MAX + 1), length)
}

impl BitmapCanvas {
    /// Creates a canvas with a size in pixels.
    pub(super) fn begin((width, height): (u32, u32)) -> Result<Self> {
        let bytes = u64::from(width) * u64::from(height) * 4;
        let held = reserve_exactly(bytes * 2 + PIECE_BYTES)?;
        Ok(Self { pixels: vec![0; bytes as usize], size: (width, height), font: Font::read()?, _held: held })
    }

    /// Writes the image as a PNG.
    pub(super) fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        encode(&self.pixels, self.size, out)
    }

    fn pixmap(&mut self) -> Result<PixmapMut<'_>> {
        let (width, height) = self.size;
        PixmapMut::from_bytes(&mut self.pixels, width, height)
            .ok_or_else(|| Error::Limit(format!("an image of {width} x {height} pixels cannot be drawn")))
    }

    fn fill(&mut self, path: Option<Path>, color: Color, moved: Transform) -> Result<()> {
        if let Some(path) = path {
            self.pixmap()?.fill_path(&path, &paint(color), FillRule::Winding, moved, None);
        }
        Ok(())
    }

    fn stroke(&mut self, path: PathBuilder, stroke: Stroke, walked: f64) -> Result<()> {
        let dash = stroke.dash.and_then(|dash| {
            let dash = dash.max(DASH_MIN);
            StrokeDash::new(vec![dash as f32; 2], (walked % (2.0 * dash)) as f32)
        });
        let pen = tiny_skia::Stroke {
            width: stroke.width as f32,
            line_cap: LineCap::Butt,
            line_join: LineJoin::Round,
            dash,
            ..tiny_skia::Stroke::default()
        };
        if let Some(path) = path.finish() {
            self.pixmap()?.stroke_path(&path, &paint(stroke.color), &pen, Transform::identity(), None);
        }
        Ok(())
    }
}

impl Canvas for BitmapCanvas {
    fn rectangle(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), fill: Color) -> Result<()> {
        spend((width * height) as usize)?;
        if let Some(rectangle) = Rect::from_xywh(x as f32, y as f32, width as f32, height as f32) {
            self.pixmap()?.fill_rect(rectangle, &paint(fill), Transform::identity(), None);
        }
        Ok(())
    }

    fn line(&mut self, points: &[(f64, f64)], stroke: Stroke) -> Result<()> {
        if let [(x, y)] = points {
            let half = stroke.width.max(1.0) / 2.0;
            let dot = [(x - half, *y), (x + half, *y)];
            return self.stroke(polygon(dot.into_iter()), Stroke { dash: None, ..stroke }, 0.0);
        }
        let (mut rest, mut walked) = (points, 0.0);
        while rest.len() > 1 {
            look()?;
            let (count, length) = piece(rest, stroke.dash.map(|dash| dash.max(DASH_MIN)));
            self.stroke(polygon(rest[..count].iter().copied()), stroke, walked)?;
            // The last point of a piece is the first one of the next.
            rest = &rest[count - 1..];
            walked += length;
        }
        Ok(())
    }

    fn area(&mut self, points: &[(f64, f64)], level: f64, fill: Color) -> Result<()> {
        let mut rest = points;
        while let Some((first, _)) = rest.first().filter(|_| rest.len() > 1) {
            look()?;
            let count = rest.len().min(PIECE_MAX + 1);
            let last = rest[count - 1].0;
            let mut path = polygon(rest[..count].iter().copied().chain([(last, level), (*first, level)]));
            path.close();
            self.fill(path.finish(), fill, Transform::identity())?;
            rest = &rest[count - 1..];
        }
        Ok(())
    }

    fn polygon(&mut self, points: &[(f64, f64)], fill: Color) -> Result<()> {
        look()?;
        let mut path = polygon(points.iter().copied());
        path.close();
        self.fill(path.finish(), fill, Transform::identity())
    }

    fn text(&mut self, text: &str, (x, y): (f64, f64), style: TextStyle) -> Result<()> {
        spend(text.len())?;
        let room = f64::from(self.size.0.max(self.size.1));
        let width = || text.chars().map(|sign| self.font.advance(sign)).sum::<f64>() * style.size;
        let mut along = match style.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -width() / 2.0,
            Anchor::End => -width(),
        };
        for sign in text.chars() {
            let next = along + self.font.advance(sign) * style.size;
            if along > room {
                break;
            }
            if next > -room {
                spend(1_000)?;
                let (sine, cosine) = style.turn.to_radians().sin_cos();
                let (right, down) = ((x + along * cosine) as f32, (y + along * sine) as f32);
                let (sine, cosine) = (sine as f32, cosine as f32);
                let moved = Transform::from_row(cosine, sine, -sine, cosine, right, down);
                self.fill(self.font.outline(sign, style.size), style.color, moved)?;
            }
            along = next;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::canvas::UPWARDS;
    use super::super::png::tests::{Decoded, decode};
    use super::*;
    use sandur_memory::{MemoryBudget, job};

    const RED: Color = Color { red: 255, green: 0, blue: 0, opacity: 1.0 };
    const WHITE: Color = Color { red: 255, green: 255, blue: 255, opacity: 1.0 };

    fn drawn(size: (u32, u32), draw: impl FnOnce(&mut BitmapCanvas)) -> Decoded {
        let mut canvas = BitmapCanvas::begin(size).unwrap();
        canvas.rectangle((0.0, 0.0), (f64::from(size.0), f64::from(size.1)), WHITE).unwrap();
        draw(&mut canvas);
        let mut out = Vec::new();
        canvas.encode(&mut out).unwrap();
        decode(&out)
    }

    fn is_red(pixel: &[u8]) -> bool {
        pixel[0] == 255 && pixel[1] < 128
    }

    fn text(turn: f64, anchor: Anchor, text: &str) -> Decoded {
        let style = TextStyle { color: RED, size: 12.0, anchor, turn };
        drawn((100, 100), |canvas| canvas.text(text, (50.0, 50.0), style).unwrap())
    }

    #[test]
    fn lines_areas_and_dashes_are_at_their_places() {
        let stroke = Stroke { color: RED, width: 2.0, dash: None };
        let line = drawn((20, 20), |canvas| canvas.line(&[(0.0, 10.0), (20.0, 10.0)], stroke).unwrap());
        assert_eq!((line.count(is_red), line.at(5, 9), line.at(5, 3)), (40, &[255, 0, 0][..], &[255; 3][..]));
        let points = [(0.0, 5.0), (20.0, 5.0)];
        let area = drawn((20, 20), |canvas| canvas.area(&points, 15.0, RED.faded(0.5)).unwrap());
        assert_eq!((area.count(is_red), area.at(9, 9)), (200, &[255, 127, 127][..]));
        let stroke = Stroke { dash: Some(5.0), ..stroke };
        let dashes = drawn((20, 20), |canvas| canvas.line(&points, stroke).unwrap());
        assert_eq!(
            (dashes.count(is_red), is_red(dashes.at(2, 5)), is_red(dashes.at(7, 5))),
            (20, true, false)
        );
        let dot = drawn((20, 20), |canvas| {
            canvas.line(&[(10.0, 10.0)], Stroke { width: 4.0, ..stroke }).unwrap();
        });
        assert_eq!(dot.count(is_red), 16);
    }

    #[test]
    fn a_line_of_many_pieces_is_continuous() {
        let points: Vec<(f64, f64)> = (0..8_000).map(|x| (f64::from(x), 2.0)).collect();
        for (dash, expected) in [(None, 8_000 * 2), (Some(50.0), 8_000), (Some(0.5), 0)] {
            let stroke = Stroke { color: RED, width: 2.0, dash };
            let line = drawn((8_000, 10), |canvas| canvas.line(&points, stroke).unwrap());
            let count = line.count(is_red);
            assert!(count.abs_diff(expected) <= 40 || dash == Some(0.5), "{dash:?}: {count}");
        }
        let area = drawn((8_000, 10), |canvas| canvas.area(&points, 8.0, RED).unwrap());
        assert!(area.count(is_red).abs_diff(7_999 * 6) <= 8, "{}", area.count(is_red));
    }

    #[test]
    fn texts_are_anchored_and_may_be_rotated() {
        let right = text(0.0, Anchor::Start, "Äбλ 12");
        assert!(right.count(is_red) > 40 && (0..50).all(|x| (0..100).all(|y| !is_red(right.at(x, y)))));
        let left = text(0.0, Anchor::End, "Äбλ 12");
        assert!(left.count(is_red) > 40 && (51..100).all(|x| (0..100).all(|y| !is_red(left.at(x, y)))));
        let up = text(UPWARDS, Anchor::Start, "Äбλ 12");
        assert!(up.count(is_red) > 40 && (0..100).all(|x| (51..100).all(|y| !is_red(up.at(x, y)))));
        assert_eq!(text(0.0, Anchor::Start, "\u{1}\n \u{85}").count(is_red), 0);
        // A character without an outline in the font is drawn as the replacement glyph.
        assert!(text(0.0, Anchor::Start, "語").count(is_red) > 5);
        assert!(text(0.0, Anchor::Middle, &"m".repeat(100_000)).count(is_red) > 100);
    }

    #[test]
    fn a_bitmap_reserves_its_memory_before_it_is_allocated() {
        let begin = |bytes| {
            let owner = job::Bounded::new(MemoryBudget::root("query", bytes));
            job::run(owner, || BitmapCanvas::begin((2_000, 2_000)).is_ok()) == Ok(true)
        };
        assert!(begin(64 << 20) && !begin(16 << 20));
    }
}
