//! The interface of drawing, for both vector and pixel images.
//!
//! **Invariant.** Later elements cover earlier ones.

use super::colors::Color;
use crate::error::Result;

/// The position of a text relative to its anchor point.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// The style of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stroke {
    pub(super) color: Color,
    pub(super) width: f64,
    /// The length of dashes and of the gaps between them; `None` for a solid line.
    pub(super) dash: Option<f64>,
}

/// The style of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextStyle {
    pub(super) color: Color,
    /// The font size, in pixels.
    pub(super) size: f64,
    pub(super) anchor: Anchor,
    /// The clockwise rotation about the anchor point, in degrees.
    pub(super) turn: f64,
}

/// The rotation of a text that runs from the bottom to the top.
pub(super) const UPWARDS: f64 = -90.0;

/// A drawing surface. Coordinates are in pixels, from the top left corner.
pub(super) trait Canvas {
    /// Draws a filled rectangle.
    fn rectangle(&mut self, place: (f64, f64), size: (f64, f64), fill: Color) -> Result<()>;
    /// Draws a line through points; a single point becomes a dot.
    fn line(&mut self, points: &[(f64, f64)], stroke: Stroke) -> Result<()>;
    /// Fills the area between points and a level.
    fn area(&mut self, points: &[(f64, f64)], level: f64, fill: Color) -> Result<()>;
    /// Draws a filled polygon.
    fn polygon(&mut self, points: &[(f64, f64)], fill: Color) -> Result<()>;
    /// Draws a text on a base line.
    fn text(&mut self, text: &str, place: (f64, f64), style: TextStyle) -> Result<()>;
}
