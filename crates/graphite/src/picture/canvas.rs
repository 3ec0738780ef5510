//! What a picture is drawn on, whatever it is made of.
//!
//! **Invariant.** What is drawn later lies above what was drawn before.

use super::colors::Color;
use crate::error::Result;

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
    /// Length of dashes and of the gaps between them.
    pub(super) dash: Option<f64>,
}

/// How a text looks and stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextStyle {
    pub(super) color: Color,
    /// Size of the font in pixels.
    pub(super) size: f64,
    pub(super) anchor: Anchor,
    /// Degrees by which it is turned clockwise about its place.
    pub(super) turn: f64,
}

/// The turn of a text from the bottom to the top.
pub(super) const UPWARDS: f64 = -90.0;

/// A surface of pixels whose first is at the left and at the top.
pub(super) trait Canvas {
    /// A filled rectangle.
    fn rectangle(&mut self, place: (f64, f64), size: (f64, f64), fill: Color) -> Result<()>;
    /// A line over points; one alone is seen as a dot.
    fn line(&mut self, points: &[(f64, f64)], stroke: Stroke) -> Result<()>;
    /// An area between points and a level.
    fn area(&mut self, points: &[(f64, f64)], level: f64, fill: Color) -> Result<()>;
    /// A filled polygon.
    fn polygon(&mut self, points: &[(f64, f64)], fill: Color) -> Result<()>;
    /// A text on a base line.
    fn text(&mut self, text: &str, place: (f64, f64), style: TextStyle) -> Result<()>;
}
