//! How the lines of an input are read: whether their times are used, and whether lines are joined.

use super::entries::Rule;
use super::timestamps::Recogniser;

/// How the lines of an input are read.
#[derive(Clone)]
pub struct Reading {
    /// Recognises times. Joining needs it too.
    pub recogniser: Recogniser,
    /// Whether lines are dated by their times, and not by arrival.
    pub is_dating: bool,
    /// How lines are joined, if they are.
    pub rule: Option<Rule>,
}

impl Reading {
    /// Lines are dated by the times of the known formats, and joined by the kinds of entries.
    pub fn automatic(now_ns: i64) -> Self {
        Self { recogniser: Recogniser::local(now_ns), is_dating: true, rule: Some(Rule::Kinds) }
    }
}

#[cfg(test)]
impl Reading {
    /// Each line is an entry that is dated by arrival.
    pub fn by_arrival() -> Self {
        Self { recogniser: Recogniser::utc(0), is_dating: false, rule: None }
    }

    /// Lines are joined, and times are UTC.
    pub fn joining(now_ns: i64) -> Self {
        Self { recogniser: Recogniser::utc(now_ns), is_dating: true, rule: Some(Rule::Kinds) }
    }
}
