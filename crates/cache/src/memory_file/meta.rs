//! FILE.meta: the description of FILE, in lines of text, with a checksum at the end.
//!
//! The form is memcached's (a line `TTAG`, then lines `KNAME TEXT`), so that each server recognises a
//! file of the other one.
//!
//! Invariant: a description is used completely or not at all.

use std::fmt::Write;

use super::files::{Notes, SaveId};
use crate::flash::CleanStop;

/// The format of FILE and FILE.meta.
pub(super) const FORMAT: u64 = 1;
/// Most bytes of FILE.meta.
pub(super) const META_BYTES_MAX: u64 = 64 << 10;

const TAG: &str = "Tsandur\n";
const TAG_OF_MEMCACHED: &str = "Tmain\n";
const CHECKSUM: &str = "Kchecksum ";
/// Prefix of the names of a caller's notes.
const NOTE: &str = "note.";

/// The content of FILE.meta.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Meta {
    pub save: SaveId,
    /// Bytes of FILE.
    pub bytes: u64,
    /// When FILE was written, in seconds since 1970.
    pub stopped_at: u32,
    /// The version number of the next write.
    pub next_cas: u64,
    /// When a scheduled flush is due, in seconds since 1970; 0 for none.
    pub flush_at: u32,
    /// The clean stop of flash that belongs to FILE, if there was flash.
    pub flash: Option<CleanStop>,
    pub notes: Notes,
}

/// Why a file is not a valid FILE.meta.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotMeta {
    Foreign,
    OfMemcached,
    OtherFormat(u64),
    Damaged,
}

impl Meta {
    pub fn encode(&self) -> String {
        let mut text = TAG.to_owned();
        let mut line = |name: &str, value: &dyn std::fmt::Display| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "K{name} {value}");
        };
        line("format", &FORMAT);
        line("save", &format_args!("{:032x}", u128::from_be_bytes(self.save)));
        line("bytes", &self.bytes);
        line("stop_time", &self.stopped_at);
        line("current_cas", &self.next_cas);
        line("flush_time", &self.flush_at);
        match &self.flash {
            Some(stop) => line("flash", stop),
            None => line("flash", &"none"),
        }
        for (name, note) in &self.notes {
            line(&format!("{NOTE}{name}"), note);
        }
        let sum = crc32c::crc32c(text.as_bytes());
        let _ = writeln!(text, "{CHECKSUM}{sum:08x}");
        text
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, NotMeta> {
        let is_tagged = |tag: &str| bytes.starts_with(tag.as_bytes());
        if is_tagged(TAG_OF_MEMCACHED) {
            return Err(NotMeta::OfMemcached);
        }
        if !is_tagged(TAG) {
            // An empty file is foreign to memcached too.
            let is_cut_short = !bytes.is_empty() && TAG.as_bytes().starts_with(bytes);
            return Err(if is_cut_short { NotMeta::Damaged } else { NotMeta::Foreign });
        }
        let text = std::str::from_utf8(bytes).map_err(|_| NotMeta::Damaged)?;
        let format = value(text, "format").and_then(|format| format.parse().ok()).ok_or(NotMeta::Damaged)?;
        if format != FORMAT {
            return Err(NotMeta::OtherFormat(format));
        }
        Self::decode_lines(text).ok_or(NotMeta::Damaged)
    }

    fn decode_lines(text: &str) -> Option<Self> {
        let end = text.rfind(CHECKSUM)?;
        let sum = text[end..].strip_prefix(CHECKSUM)?.strip_suffix('\n')?;
        if u32::from_str_radix(sum, 16).ok()? != crc32c::crc32c(&text.as_bytes()[..end]) {
            return None;
        }
        let notes = text[..end].lines().filter_map(|line| {
            let (name, note) = line.strip_prefix('K')?.strip_prefix(NOTE)?.split_once(' ')?;
            Some((name.to_owned(), note.to_owned()))
        });
        Some(Self {
            save: u128::from_str_radix(value(text, "save")?, 16).ok()?.to_be_bytes(),
            bytes: value(text, "bytes")?.parse().ok()?,
            stopped_at: value(text, "stop_time")?.parse().ok()?,
            next_cas: value(text, "current_cas")?.parse().ok()?,
            flush_at: value(text, "flush_time")?.parse().ok()?,
            flash: match value(text, "flash")? {
                "none" => None,
                stop => Some(CleanStop::parse(stop)?),
            },
            notes: notes.collect(),
        })
    }
}

fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix('K')?.strip_prefix(name)?.strip_prefix(' '))
}
