//! Outlines of signs, from the font that the crate brings. Signs that it lacks are shown as one that says so.

use tiny_skia::{Path, PathBuilder, Transform};
use ttf_parser::{Face, GlyphId, OutlineBuilder};

use crate::error::{Error, Result};

static BYTES: &[u8] = include_bytes!("../../fonts/sans.ttf");

/// The font.
pub(super) struct Font {
    face: Face<'static>,
    unknown: GlyphId,
}

impl Font {
    /// Reads it.
    pub(super) fn read() -> Result<Self> {
        let face = Face::parse(BYTES, 0);
        let face =
            face.map_err(|error| Error::invalid(format!("the font of pictures is damaged: {error}")))?;
        let unknown = face.glyph_index('\u{fffd}').unwrap_or(GlyphId(0));
        Ok(Self { face, unknown })
    }

    fn glyph(&self, sign: char) -> GlyphId {
        let sign = if sign.is_control() { ' ' } else { sign };
        self.face.glyph_index(sign).unwrap_or(self.unknown)
    }

    /// How far the next sign is away beside a font of a size of one pixel.
    pub(super) fn advance(&self, sign: char) -> f64 {
        let units = f64::from(self.face.units_per_em().max(1));
        f64::from(self.face.glyph_hor_advance(self.glyph(sign)).unwrap_or(0)) / units
    }

    /// The outline of a sign whose base line begins at 0; nothing for one that is not to be seen.
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
