//! Regexes of template functions: compiled once, not for every row.

use std::cell::RefCell;

use crate::go_regex::compile_text;

/// Regexes that one template may use without compiling again. Mostly they are constants of its text.
const KEPT: usize = 16;

/// The regexes that a template has used last.
#[derive(Default)]
pub struct RegexCache(RefCell<Vec<(String, regex::Regex)>>);

impl RegexCache {
    /// The compiled regex; the error is worded as Go does it.
    pub fn get(&self, pattern: &str) -> Result<regex::Regex, String> {
        let mut kept = self.0.borrow_mut();
        if let Some(at) = kept.iter().position(|(text, _)| text == pattern) {
            return Ok(kept[at].1.clone());
        }
        let regex = compile_text(pattern)?;
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push((pattern.to_owned(), regex.clone()));
        Ok(regex)
    }
}
