//! Names of fields that carry a level.

/// Names that carry a level, highest rank first; case matters.
pub const LEVEL_KEYS: [&str; 14] = [
    "level",
    "LEVEL",
    "Level",
    "log.level",
    "severity",
    "SEVERITY",
    "Severity",
    "SeverityText",
    "lvl",
    "LVL",
    "Lvl",
    "severity_text",
    "Severity_Text",
    "SEVERITY_TEXT",
];

/// Whether a name carries a level.
pub(crate) fn is_level_key(name: &[u8]) -> bool {
    level_key_rank(name).is_some()
}

/// Returns the rank of a name that carries a level; 0 is the highest.
#[inline]
pub(crate) fn level_key_rank(name: &[u8]) -> Option<usize> {
    // All keys, from `lvl` to `severity_text`, begin with one of these letters.
    if !matches!(name.len(), 3 | 5 | 8 | 9 | 12 | 13) || !matches!(name[0] | 0x20, b'l' | b's') {
        return None;
    }
    LEVEL_KEYS.iter().position(|key| key.as_bytes() == name)
}
