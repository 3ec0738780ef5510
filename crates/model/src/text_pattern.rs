//! A regular expression that a whole text must fit, decided by what is quickest: a comparison, literals and
//! forms where there are many alternatives, else an automaton.
//!
//! **Invariant.** However it is decided, the answer is the expression's, and what takes long is told to
//! [`sandur_base::job`].

use sandur_base::Stopped;

use crate::bounded_regex::{BoundedRegex, RegexError, RegexOptions};
use crate::forms_of_regex::forms_of;
use crate::matcher::MatcherForm;
use crate::plain_pattern::PlainPattern;
use crate::text_forms::TextForms;

/// An expression of whole texts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TextPattern(Decided);

#[derive(Clone, Debug)]
enum Decided {
    Plain(PlainPattern),
    Forms(TextForms),
    Regex(BoundedRegex),
}

impl TextPattern {
    /// Reads an expression that is anchored: `^...$`.
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

    /// Whether a text fits. In a job that was stopped (see [`sandur_base::job`]) the answer is of no use and
    /// is dropped.
    pub fn matches(&self, text: &str) -> bool {
        match &self.0 {
            Decided::Plain(plain) => plain.matches(text),
            Decided::Forms(forms) => forms.matches(text).unwrap_or(false),
            Decided::Regex(regex) => regex.is_match(text.as_bytes()).unwrap_or(false),
        }
    }

    /// What is looked for.
    pub(crate) fn form(&self) -> MatcherForm<'_> {
        match &self.0 {
            Decided::Plain(plain) => plain.form(),
            Decided::Forms(_) | Decided::Regex(_) => MatcherForm::Other,
        }
    }

    /// Bytes that it takes and that no job was charged with.
    pub(crate) fn memory_bytes(&self) -> u64 {
        match &self.0 {
            Decided::Plain(plain) => plain.memory_bytes(),
            Decided::Forms(forms) => forms.memory_bytes(),
            Decided::Regex(regex) => regex.memory_bytes(),
        }
    }

    /// The most steps that a byte of a text may take: nothing worth counting of what is plain.
    pub fn steps_per_byte(&self) -> usize {
        match &self.0 {
            Decided::Plain(_) => 0,
            Decided::Forms(forms) => forms.count(),
            Decided::Regex(regex) => regex.steps_per_byte(),
        }
    }
}
