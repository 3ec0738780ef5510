//! A regular expression that must match a complete text, evaluated in the fastest way: a comparison,
//! text forms if there are many alternatives, or an automaton.
//!
//! **Invariant.** All ways give the result of the expression, and expensive ones report their work to
//! [`sandur_memory::job`].

use sandur_memory::Stopped;

use crate::bounded_regex::{BoundedRegex, RegexError, RegexOptions};
use crate::forms_of_regex::forms_of;
use crate::matcher_form::MatcherForm;
use crate::plain_pattern::PlainPattern;
use crate::text_forms::TextForms;

/// A regular expression for complete texts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TextPattern(Decided);

#[derive(Clone, Debug)]
enum Decided {
    Plain(PlainPattern),
    Forms(TextForms),
    Regex(BoundedRegex),
}

impl TextPattern {
    /// Compiles an anchored expression: `^...$`.
    pub fn new(anchored: &str) -> Result<Self, RegexError> {
        let hir = BoundedRegex::parse(anchored, true)?;
        if let Some(plain) = PlainPattern::of(&hir) {
            return Ok(Self(Decided::Plain(plain)));
        }
        if let Some(forms) = forms_of(&hir) {
            let forms = TextForms::new(forms).map_err(|Stopped| RegexError::Stopped)?;
            return Ok(Self(Decided::Forms(forms)));
        }
        let options = RegexOptions { utf8: true, prefilter: true, groups: false };
        Ok(Self(Decided::Regex(BoundedRegex::new(&hir, options)?)))
    }

    /// Whether a text matches. In a stopped job (see [`sandur_memory::job`]) the result is arbitrary and
    /// the caller discards it.
    pub fn matches(&self, text: &str) -> bool {
        match &self.0 {
            Decided::Plain(plain) => plain.matches(text),
            Decided::Forms(forms) => forms.matches(text).unwrap_or(false),
            Decided::Regex(regex) => regex.is_match(text.as_bytes()).unwrap_or(false),
        }
    }

    /// The values that the expression accepts.
    pub(crate) fn form(&self) -> MatcherForm<'_> {
        match &self.0 {
            Decided::Plain(plain) => plain.form(),
            Decided::Forms(_) | Decided::Regex(_) => MatcherForm::Other,
        }
    }

    /// Bytes of memory that no job was charged with.
    pub(crate) fn memory_bytes(&self) -> u64 {
        match &self.0 {
            Decided::Plain(plain) => plain.memory_bytes(),
            Decided::Forms(forms) => forms.memory_bytes(),
            Decided::Regex(regex) => regex.memory_bytes(),
        }
    }

    /// The most steps for one byte of a text; 0 for plain patterns.
    pub fn steps_per_byte(&self) -> usize {
        match &self.0 {
            Decided::Plain(_) => 0,
            Decided::Forms(forms) => forms.count(),
            Decided::Regex(regex) => regex.steps_per_byte(),
        }
    }
}
