//! Reads lines of `load`: `{labels} "line" @ time [repeat every step for count] [metadata k="v" …]`.

use std::sync::Arc;

use sandur_model::{Labels, Level};
use sandur_query::MemoryRow;

use super::text::{split_labels, split_text};
use super::time::{EPOCH_NS, duration};

/// Returns the rows of one line.
pub fn rows(text: &str) -> Result<Vec<MemoryRow>, String> {
    let (labels, rest) = split_labels(text)?;
    let labels = Arc::new(Labels::parse(labels).map_err(|e| format!("{labels}: {e}"))?);
    let (line, rest) = split_text(rest)?;
    let rest = rest.strip_prefix('@').ok_or("missing '@ <time>'")?.trim_start();
    let (start, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let start = EPOCH_NS + duration(start)?;
    let mut options = Options { step: 0, count: 1, metadata: Vec::new(), level: Level::None };
    options.parse(rest.trim())?;
    let Options { step, count, mut metadata, level } = options;
    metadata.sort();
    let row = |n: i64| MemoryRow {
        labels: Arc::clone(&labels),
        timestamp: start + n * step,
        line: numbered(&line, n).into(),
        metadata: metadata.clone(),
        level,
    };
    Ok((0..count).map(row).collect())
}

/// Returns the line with `number` in place of `{{.i}}`.
fn numbered(line: &[u8], number: i64) -> Vec<u8> {
    const PLACE: &[u8] = b"{{.i}}";
    let mut out = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.windows(PLACE.len()).position(|window| window == PLACE) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(number.to_string().as_bytes());
        rest = &rest[at + PLACE.len()..];
    }
    out.extend_from_slice(rest);
    out
}

struct Options {
    step: i64,
    count: i64,
    metadata: Vec<(Arc<str>, Arc<str>)>,
    level: Level,
}

impl Options {
    fn parse(&mut self, mut rest: &str) -> Result<(), String> {
        while !rest.is_empty() {
            let unknown = || format!("unknown option: {rest}");
            let inside = rest.strip_prefix('[').ok_or_else(unknown)?;
            rest = if let Some(repeat) = inside.strip_prefix("repeat every ") {
                let (body, after) = repeat.split_once(']').ok_or_else(unknown)?;
                let (every, times) = body.split_once(" for ").ok_or_else(unknown)?;
                self.step = duration(every.trim())?;
                self.count = times.trim().parse().ok().filter(|n| *n > 0).ok_or_else(unknown)?;
                after.trim_start()
            } else if let Some(pairs) = inside.strip_prefix("metadata ") {
                self.metadata(pairs)?
            } else {
                return Err(unknown());
            };
        }
        Ok(())
    }

    fn metadata<'a>(&mut self, mut pairs: &'a str) -> Result<&'a str, String> {
        let text = pairs;
        let wrong = || format!("metadata is not key=\"value\" pairs: {text}");
        while !pairs.starts_with(']') {
            let (key, after) = if pairs.starts_with('"') {
                let (key, after) = split_text(pairs)?;
                (String::from_utf8(key).map_err(|_| wrong())?, after)
            } else {
                let (key, after) = pairs.split_at(pairs.find('=').ok_or_else(wrong)?);
                (key.to_owned(), after)
            };
            let (value, after) = split_text(after.strip_prefix('=').ok_or_else(wrong)?)?;
            let value = String::from_utf8(value).map_err(|_| wrong())?;
            // A known level is stored as a level, even if the metadata names it.
            match Level::from_name(&value).filter(|_| key == "detected_level") {
                Some(known) => self.level = known,
                None => self.metadata.push((key.into(), value.into())),
            }
            pairs = after;
        }
        Ok(pairs[1..].trim_start())
    }
}
