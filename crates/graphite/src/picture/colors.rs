//! Colours by name or hexadecimal digits.

/// A colour with its opacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Color {
    pub(crate) red: u8,
    pub(crate) green: u8,
    pub(crate) blue: u8,
    /// From 0, invisible, to 1, opaque.
    pub(crate) opacity: f64,
}

/// The names that graphite-web supports.
const NAMES: [(&str, [u8; 3]); 19] = [
    ("black", [0, 0, 0]),
    ("white", [255, 255, 255]),
    ("blue", [100, 100, 255]),
    ("green", [0, 200, 0]),
    ("red", [255, 0, 0]),
    ("yellow", [255, 255, 0]),
    ("orange", [255, 165, 0]),
    ("purple", [200, 100, 255]),
    ("brown", [150, 100, 50]),
    ("cyan", [0, 255, 255]),
    ("aqua", [0, 150, 150]),
    ("gray", [175, 175, 175]),
    ("grey", [175, 175, 175]),
    ("magenta", [255, 0, 255]),
    ("pink", [255, 100, 100]),
    ("gold", [200, 200, 0]),
    ("rose", [200, 150, 200]),
    ("darkblue", [0, 0, 255]),
    ("darkgreen", [0, 255, 0]),
];

impl Color {
    /// Parses a name, or six or eight hexadecimal digits with or without `#`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let lower = text.to_ascii_lowercase();
        if let Some((_, [red, green, blue])) = NAMES.iter().find(|(name, _)| *name == lower) {
            return Some(Self { red: *red, green: *green, blue: *blue, opacity: 1.0 });
        }
        let digits = text.trim_start_matches(['#', '%']);
        if !matches!(digits.len(), 6 | 8) || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let part = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let opacity = if digits.len() == 8 { f64::from(part(6)?) / 255.0 } else { 1.0 };
        Some(Self { red: part(0)?, green: part(2)?, blue: part(4)?, opacity })
    }

    /// The colour with another opacity.
    pub(crate) fn faded(self, opacity: f64) -> Self {
        Self { opacity: opacity.clamp(0.0, 1.0), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_have_names_and_digits() {
        let parsed = |text| Color::parse(text).map(|color| (color.red, color.green, color.blue));
        assert_eq!(parsed("Red"), Some((255, 0, 0)));
        assert_eq!(parsed("#0a0B0c"), Some((10, 11, 12)));
        assert_eq!(Color::parse("00000080").map(|color| (color.opacity * 100.0).round()), Some(50.0));
        for wrong in ["", "#", "12345", "é12345", "no such"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
