//! The condition that one alternative of a line filter sets for a line.

use memchr::memmem::Finder;
use regex_syntax::hir::Hir;
use sandur_memory::job::spend;
use sandur_model::BoundedRegex;

use crate::ip::IpSet;
use crate::pattern_text::Pattern;

/// The condition of one alternative of a filter.
#[derive(Clone, Debug)]
pub enum LineTest {
    /// The line contains a byte string.
    Literal(Box<Finder<'static>>),
    /// A regular expression matches anywhere in the line.
    Regex {
        /// The parsed form, for planning searches.
        hir: Hir,
        /// The compiled form, for searching one line.
        regex: BoundedRegex,
    },
    /// A pattern matches the complete line.
    Pattern(Pattern),
    /// The line contains an address of the set.
    Ip(IpSet),
}

impl LineTest {
    /// Whether the line matches; false for every line in a cancelled job.
    pub fn matches(&self, line: &[u8]) -> bool {
        if spend(line.len() + 16).is_err() {
            return false;
        }
        match self {
            Self::Literal(finder) => finder.find(line).is_some(),
            Self::Regex { regex, .. } => regex.is_match(line).unwrap_or(false),
            Self::Pattern(pattern) => pattern.matches(line),
            Self::Ip(set) => set.found_in(line),
        }
    }
}
