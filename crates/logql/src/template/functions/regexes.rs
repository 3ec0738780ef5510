//! A cache of compiled regexes for template functions, so that they are not compiled for every row.

use std::cell::RefCell;

use sandur_memory::job::JobMemory;
use sandur_model::BoundedRegex;

use crate::go_regex::compile_text;

/// The most cached regexes of one template. Most are constants in its text.
const KEPT: usize = 16;

/// The regexes that a template used most recently, with their memory.
#[derive(Default)]
pub struct RegexCache(RefCell<Kept>);

#[derive(Default)]
struct Kept {
    regexes: Vec<(String, BoundedRegex)>,
    bytes: u64,
    held: JobMemory,
}

impl RegexCache {
    /// The compiled regex; errors have Go's texts.
    pub fn get(&self, pattern: &str) -> Result<BoundedRegex, String> {
        let mut kept = self.0.borrow_mut();
        let kept = &mut *kept;
        if let Some(at) = kept.regexes.iter().position(|(text, _)| text == pattern) {
            return Ok(kept.regexes[at].1.clone());
        }
        let regex = compile_text(pattern)?;
        if kept.regexes.len() >= KEPT {
            kept.bytes -= bytes_of(&kept.regexes.remove(0));
        }
        kept.regexes.push((pattern.to_owned(), regex.clone()));
        kept.bytes += kept.regexes.last().map_or(0, bytes_of);
        kept.held.at_least(kept.bytes).map_err(|stopped| stopped.to_string())?;
        Ok(regex)
    }
}

fn bytes_of((pattern, regex): &(String, BoundedRegex)) -> u64 {
    pattern.len() as u64 + regex.memory_bytes()
}
