//! Makes names that an expression matches, for comparisons of two configurations without names of
//! their own.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind, Repetition};

/// Bytes of a name that is made.
const NAME_BYTES_MAX: usize = 512;
/// How often a class without an upper limit is repeated: enough for 36^6 different texts.
const REPEATED: u32 = 6;

/// Returns a text that the expression probably matches: look-around at words, for example, is ignored.
/// Different numbers give different texts where the expression permits it.
pub(super) fn of_expression(expression: &str, number: u64) -> Option<Vec<u8>> {
    let parsed = ParserBuilder::new().utf8(false).nest_limit(100).build().parse(expression).ok()?;
    // An odd factor permutes the numbers and changes all letters from one number to the next.
    let mut example = Example { text: Vec::new(), choice: number.wrapping_mul(0x9e37_79b9_7f4a_7c15) };
    example.add(&parsed);
    Some(example.text)
}

struct Example {
    text: Vec<u8>,
    /// The number that is left for further choices.
    choice: u64,
}

impl Example {
    fn choose(&mut self, count: usize) -> usize {
        let count = count.max(1) as u64;
        // The high bits first: they differ most between numbers.
        let chosen = (u128::from(self.choice) * u128::from(count)) >> 64;
        self.choice = self.choice.wrapping_mul(count);
        chosen as usize
    }

    fn add(&mut self, part: &Hir) {
        if self.text.len() >= NAME_BYTES_MAX {
            return;
        }
        match part.kind() {
            HirKind::Empty | HirKind::Look(_) => {}
            HirKind::Literal(literal) => self.text.extend_from_slice(&literal.0),
            HirKind::Class(class) => self.class(class),
            HirKind::Repetition(repetition) => self.repeat(repetition),
            HirKind::Capture(capture) => self.add(&capture.sub),
            HirKind::Concat(parts) => parts.iter().for_each(|part| self.add(part)),
            HirKind::Alternation(parts) => {
                let chosen = self.choose(parts.len());
                self.add(&parts[chosen]);
            }
        }
    }

    fn repeat(&mut self, repetition: &Repetition) {
        let usual = if matches!(repetition.sub.kind(), HirKind::Class(_)) { REPEATED } else { 1 };
        let most = repetition.max.unwrap_or(u32::MAX);
        let times = repetition.min.max(usual).min(most);
        for _ in 0..times.min(NAME_BYTES_MAX as u32) {
            self.add(&repetition.sub);
        }
    }

    /// Adds a character of the class, if possible a lower-case letter or a digit.
    fn class(&mut self, class: &Class) {
        let has = |letter: u8| match class {
            Class::Unicode(class) => {
                class.iter().any(|range| (range.start()..=range.end()).contains(&char::from(letter)))
            }
            Class::Bytes(class) => class.iter().any(|range| (range.start()..=range.end()).contains(&letter)),
        };
        let usual: Vec<u8> = (b'a'..=b'z').chain(b'0'..=b'9').filter(|letter| has(*letter)).collect();
        let found = match usual.is_empty() {
            true => (b'!'..=b'~').find(|letter| has(*letter)),
            false => Some(usual[self.choose(usual.len())]),
        };
        self.text.extend(found);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn examples_match_their_expression_and_differ() {
        for (expression, different) in [
            (r"^servers\.[^.]+\.cpu$", 1_000),
            (r"^(web|db)\.\w+\.(.*)", 1_000),
            (r"^a\.[0-9]{2}$", 100),
            ("x", 1),
            ("^[A-Z]+é?$", 1),
        ] {
            let compiled = regex::bytes::Regex::new(expression).unwrap();
            let mut found = HashSet::new();
            for number in 0..2_000 {
                let name = of_expression(expression, number).unwrap();
                assert!(compiled.is_match(&name), "{expression}: {}", String::from_utf8_lossy(&name));
                found.insert(name);
            }
            assert!(found.len() * 10 >= different * 9, "{expression}: {}", found.len());
        }
        assert!(of_expression("(a{500}){500}", 1).unwrap().len() <= 2 * NAME_BYTES_MAX);
    }
}
