//! A canvas of SVG.

use std::io::Write;

use super::colors::Color;

/// Where a text stands beside its place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a line looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stroke {
    pub(super) color: Color,
    pub(super) width: f64,
    pub(super) dash: Option<f64>,
}

/// What is drawn, in order.
pub(super) struct Canvas<'a> {
    out: &'a mut Vec<u8>,
    font_size: f64,
}

fn color(color: Color) -> String {
    format!("rgb({},{},{})", color.red, color.green, color.blue)
}

/// A text without signs that XML has for itself, or does not have at all.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => out.push(' '),
            other => out.push(other),
        }
    }
    out
}

impl<'a> Canvas<'a> {
    /// A canvas with a background.
    pub(super) fn begin(
        out: &'a mut Vec<u8>,
        (width, height): (f64, f64),
        background: Color,
        font_size: f64,
    ) -> Self {
        let mut canvas = Self { out, font_size };
        canvas.write(format_args!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" \
             height=\"{height}\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
             font-size=\"{font_size}\">\n"
        ));
        canvas.rectangle((0.0, 0.0), (width, height), background);
        canvas
    }

    /// Ends the picture.
    pub(super) fn end(mut self) {
        self.write(format_args!("</svg>\n"));
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to memory cannot fail.
        let _ = self.out.write_fmt(text);
    }

    /// Bytes so far.
    pub(super) fn bytes(&self) -> usize {
        self.out.len()
    }

    /// A filled rectangle.
    pub(super) fn rectangle(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), fill: Color) {
        let (name, opacity) = (color(fill), fill.opacity);
        self.write(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{name}\" \
             fill-opacity=\"{opacity:.2}\"/>\n"
        ));
    }

    fn path(&mut self, points: &[(f64, f64)]) {
        for (place, (x, y)) in points.iter().enumerate() {
            let letter = if place == 0 { 'M' } else { 'L' };
            self.write(format_args!("{letter}{x:.1} {y:.1}"));
        }
    }

    /// A line over points.
    pub(super) fn line(&mut self, points: &[(f64, f64)], stroke: Stroke) {
        if points.is_empty() {
            return;
        }
        self.write(format_args!("<path d=\""));
        self.path(points);
        // A point alone is seen as a dot.
        if points.len() == 1 {
            self.write(format_args!("h0.1"));
        }
        let (name, Stroke { width, dash, .. }) = (color(stroke.color), stroke);
        let dash = dash.map_or_else(String::new, |length| format!(" stroke-dasharray=\"{length:.1}\""));
        let opacity = stroke.color.opacity;
        self.write(format_args!(
            "\" fill=\"none\" stroke=\"{name}\" stroke-width=\"{width:.1}\" stroke-opacity=\"{opacity:.2}\" \
             stroke-linejoin=\"round\"{dash}/>\n"
        ));
    }

    /// An area between points and a level.
    pub(super) fn area(&mut self, points: &[(f64, f64)], level: f64, fill: Color) {
        let (Some(first), Some(last)) = (points.first(), points.last()) else { return };
        self.write(format_args!("<path d=\""));
        self.path(points);
        let (name, opacity, first, last) = (color(fill), fill.opacity, first.0, last.0);
        self.write(format_args!(
            "L{last:.1} {level:.1}L{first:.1} {level:.1}Z\" fill=\"{name}\" fill-opacity=\"{opacity:.2}\"/>\n"
        ));
    }

    /// A text; `scale` is its size beside that of the picture.
    pub(super) fn text(
        &mut self,
        text: &str,
        (x, y): (f64, f64),
        (fill, scale): (Color, f64),
        anchor: Anchor,
    ) {
        self.turned_text(text, (x, y), (fill, scale), anchor, 0);
    }

    /// A text that is turned by degrees.
    pub(super) fn turned_text(
        &mut self,
        text: &str,
        (x, y): (f64, f64),
        (fill, scale): (Color, f64),
        anchor: Anchor,
        degrees: i32,
    ) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let turned = match degrees {
            0 => String::new(),
            degrees => format!(" transform=\"rotate({degrees} {x:.1} {y:.1})\""),
        };
        let (name, text, size) = (color(fill), escaped(text), self.font_size * scale);
        self.write(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{name}\" font-size=\"{size:.1}\"\
             {turned}>{text}</text>\n"
        ));
    }
}
