//! Draws on an SVG document.
//!
//! **Invariant.** A document has at most [`ANSWER_BYTES_MAX`] bytes, plus one line or text.

use std::io::Write;

use super::canvas::{Anchor, Canvas, Stroke, TextStyle};
use super::colors::Color;
use crate::error::{Error, Result};
use crate::rendered::ANSWER_BYTES_MAX;

/// The SVG document in progress.
pub(super) struct SvgCanvas<'a> {
    out: &'a mut Vec<u8>,
}

fn color(color: Color) -> String {
    format!("rgb({},{},{})", color.red, color.green, color.blue)
}

/// Escapes the special characters of XML, and removes characters that XML does not allow.
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

impl<'a> SvgCanvas<'a> {
    /// Begins a document with a size in pixels.
    pub(super) fn begin(out: &'a mut Vec<u8>, (width, height): (f64, f64)) -> Self {
        let mut canvas = Self { out };
        canvas.write(format_args!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" \
             height=\"{height}\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\">\n"
        ));
        canvas
    }

    /// Ends the document.
    pub(super) fn end(mut self) {
        self.write(format_args!("</svg>\n"));
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to memory cannot fail.
        let _ = self.out.write_fmt(text);
    }

    fn path(&mut self, points: &[(f64, f64)]) -> Result<()> {
        if self.out.len() > ANSWER_BYTES_MAX {
            return Err(Error::Limit(format!(
                "an image of more than {ANSWER_BYTES_MAX} bytes; request fewer series"
            )));
        }
        self.write(format_args!("<path d=\""));
        for (place, (x, y)) in points.iter().enumerate() {
            let letter = if place == 0 { 'M' } else { 'L' };
            self.write(format_args!("{letter}{x:.1} {y:.1}"));
        }
        Ok(())
    }
}

impl Canvas for SvgCanvas<'_> {
    fn rectangle(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), fill: Color) -> Result<()> {
        let (name, opacity) = (color(fill), fill.opacity);
        self.write(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{name}\" \
             fill-opacity=\"{opacity:.2}\"/>\n"
        ));
        Ok(())
    }

    fn line(&mut self, points: &[(f64, f64)], stroke: Stroke) -> Result<()> {
        if points.is_empty() {
            return Ok(());
        }
        self.path(points)?;
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
        Ok(())
    }

    fn area(&mut self, points: &[(f64, f64)], level: f64, fill: Color) -> Result<()> {
        let (Some(first), Some(last)) = (points.first(), points.last()) else { return Ok(()) };
        self.path(points)?;
        let (name, opacity, first, last) = (color(fill), fill.opacity, first.0, last.0);
        self.write(format_args!(
            "L{last:.1} {level:.1}L{first:.1} {level:.1}Z\" fill=\"{name}\" fill-opacity=\"{opacity:.2}\"/>\n"
        ));
        Ok(())
    }

    fn polygon(&mut self, points: &[(f64, f64)], fill: Color) -> Result<()> {
        if points.is_empty() {
            return Ok(());
        }
        self.path(points)?;
        let (name, opacity) = (color(fill), fill.opacity);
        self.write(format_args!("Z\" fill=\"{name}\" fill-opacity=\"{opacity:.2}\"/>\n"));
        Ok(())
    }

    fn text(&mut self, text: &str, (x, y): (f64, f64), style: TextStyle) -> Result<()> {
        let anchor = match style.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let turned = match style.turn {
            0.0 => String::new(),
            turn => format!(" transform=\"rotate({turn:.0} {x:.1} {y:.1})\""),
        };
        let (name, text, size) = (color(style.color), escaped(text), style.size);
        self.write(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{name}\" font-size=\"{size:.1}\"\
             {turned}>{text}</text>\n"
        ));
        Ok(())
    }
}
