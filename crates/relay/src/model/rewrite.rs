//! Rewrite rules for names.
//!
//! **Invariants.** A rewritten name has at most [`NAME_BYTES_MAX`](super::NAME_BYTES_MAX) bytes. If it
//! would be longer, the name stays as it was.

use memchr::memmem;
use regex::bytes::Regex;

use super::matcher::Matcher;
use super::template::{NAME_BYTES_MAX, Template};

/// What is replaced.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// A regular expression, whose groups the replacement may use.
    Expression(Regex),
    /// A literal text.
    Text(Vec<u8>),
}

/// Replaces parts of names.
#[derive(Clone, Debug)]
pub struct Rewrite {
    /// What is replaced.
    pub pattern: Pattern,
    /// The replacement.
    pub replacement: Template,
    /// The largest number of replacements; `None` replaces every occurrence.
    pub times: Option<usize>,
    /// Names that are not changed.
    pub except: Option<Matcher>,
}

impl Rewrite {
    /// Writes the new name to `out`. Returns false when the name does not change.
    pub fn apply(&self, name: &[u8], out: &mut Vec<u8>) -> bool {
        if self.except.as_ref().is_some_and(|except| except.matches(name)) {
            return false;
        }
        out.clear();
        let times = self.times.unwrap_or(usize::MAX);
        let changed = match &self.pattern {
            Pattern::Text(text) => self.texts(name, text, times, out),
            Pattern::Expression(expression) => self.expressions(name, expression, times, out),
        };
        changed && out.len() <= NAME_BYTES_MAX
    }

    fn texts(&self, name: &[u8], text: &[u8], times: usize, out: &mut Vec<u8>) -> bool {
        let Some(new) = self.replacement.as_text() else { return false };
        let mut end = 0;
        for at in memmem::find_iter(name, text).take(times) {
            out.extend_from_slice(&name[end..at]);
            out.extend_from_slice(new);
            end = at + text.len();
            if out.len() > NAME_BYTES_MAX {
                return false;
            }
        }
        out.extend_from_slice(&name[end..]);
        end > 0
    }

    fn expressions(&self, name: &[u8], expression: &Regex, times: usize, out: &mut Vec<u8>) -> bool {
        let (mut end, mut changed) = (0, false);
        for groups in expression.captures_iter(name).take(times) {
            let Some(whole) = groups.get(0) else { continue };
            out.extend_from_slice(&name[end..whole.start()]);
            if !self.replacement.expand(&groups, out) || out.len() > NAME_BYTES_MAX {
                return false;
            }
            (end, changed) = (whole.end(), true);
        }
        out.extend_from_slice(&name[end..]);
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::super::matcher::compile;
    use super::*;

    fn applied(rewrite: &Rewrite, name: &str) -> Option<String> {
        let mut out = Vec::new();
        rewrite.apply(name.as_bytes(), &mut out).then(|| String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_rule_replaces_at_most_the_given_number_of_parts() {
        let text = |times| Rewrite {
            pattern: Pattern::Text(b"old".to_vec()),
            replacement: Template::text("new"),
            times,
            except: Some(Matcher::everything().prefix("keep", false)),
        };
        assert_eq!(applied(&text(None), "old.a.old").as_deref(), Some("new.a.new"));
        assert_eq!(applied(&text(Some(1)), "old.a.old").as_deref(), Some("new.a.old"));
        assert_eq!(applied(&text(None), "keep.old"), None);
        assert_eq!(applied(&text(None), "a"), None);
        let expression = compile("_(sum|avg)$", false).unwrap();
        let replacement = Template::python(r".\1", &expression).unwrap();
        let pattern = Pattern::Expression(expression);
        let rewrite = Rewrite { pattern, replacement, times: None, except: None };
        assert_eq!(applied(&rewrite, "a_sum_sum").as_deref(), Some("a_sum.sum"));
    }

    #[test]
    fn a_name_that_would_become_too_long_is_not_changed() {
        let (pattern, replacement) = (Pattern::Text(b"a".to_vec()), Template::text(&"b".repeat(100)));
        let rewrite = Rewrite { pattern, replacement, times: None, except: None };
        assert_eq!(applied(&rewrite, &"a".repeat(100)), None);
    }
}
