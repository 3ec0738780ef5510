//! Outlines of characters, from the embedded font. Characters that it lacks have the outline of the
//! replacement character.

use tiny_skia::{Path, PathBuilder, Transform};
use ttf_parser::{Face, GlyphId, OutlineBuilder};

use crate::error::{Error, Result};

static BYTES: &[u8] = include_bytes!("../../fonts/sans.ttf");

/// The embedded font.
pub(super) struct Font {
    face: Face<'static>,
    unknown: GlyphId,
}

impl Font {
    /// Parses the font.
    pub(super) fn read() -> Result<Self> {
        let face = Face::parse(BYTES, 0);
        let face = face.map_err(|error| Error::invalid(format!("the font of images is damaged: {error}")))?;
        let unknown = face.glyph_index('\u{fffd}').unwrap_or(GlyphId(0));
        Ok(Self { face, unknown })
    }

    fn glyph(&self, sign: char) -> GlyphId {
        let sign = if sign.is_control() { ' ' } else { sign };
        self.face.glyph_index(sign).unwrap_or(self.unknown)
    }

    /// The advance width of a character at a font size of one pixel.
    pub(super) fn advance(&self, sign: char) -> f64 {
        let units = f64::from(self.face.units_per_em().max(1));
        f64::from(self.face.glyph_hor_advance(self.glyph(sign)).unwrap_or(0)) / units
    }

    /// The outline of a character with its base line at 0; `None` if it is invisible.
    pub(super) fn outline(&self, sign: char, size: f64) -> Option<Path> {
        let mut outline = Outline(PathBuilder::new());
        self.face.outline_glyph(self.glyph(sign), &mut outline)?;
        let scale = (size / f64::from(self.face.units_per_em().max(1))) as f32;
        outline.0.finish()?.transform(Transform::from_scale(scale, -scale))
    }
}

struct Outline(PathBuilder);

impl OutlineBuilder for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        self.0.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.0.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.0.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.0.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.0.close();
    }
}
