//! Parses replacement templates in Go's syntax, as `Regexp.Expand` of Go's package `regexp` does.
//!
//! `$1`, `${1}`, `$name` and `${name}` stand for groups; `$name` extends over all following letters,
//! digits and underscores. `$$` is a dollar, and so is a `$` without a name. A number has no leading
//! zero and is below 10^9; otherwise it is a name. A group that does not exist is empty.

use crate::bounded_regex::BoundedRegex;

/// A number from here on accepts no further digit, since it would not be below 10^9.
const LAST_NUMBER_WITH_MORE: usize = 100_000_000;

/// A piece of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'r> {
    /// Literal text.
    Text(&'r str),
    /// The text of the group with this number; 0 is the complete match.
    Group(usize),
    /// The text of the group with this name.
    Named(&'r str),
}

/// The pieces of a template, in order. Iterating takes time linear in its length.
#[derive(Clone, Debug)]
pub struct Pieces<'r> {
    rest: &'r str,
}

/// Splits a template into pieces.
pub fn pieces(replacement: &str) -> Pieces<'_> {
    Pieces { rest: replacement }
}

impl<'r> Iterator for Pieces<'r> {
    type Item = Piece<'r>;

    fn next(&mut self) -> Option<Piece<'r>> {
        let rest = self.rest;
        if rest.is_empty() {
            return None;
        }
        let Some(after) = rest.strip_prefix('$') else {
            let (text, rest) = rest.split_at(rest.find('$').unwrap_or(rest.len()));
            self.rest = rest;
            return Some(Piece::Text(text));
        };
        if let Some(following) = after.strip_prefix('$') {
            self.rest = following;
            return Some(Piece::Text("$"));
        }
        let Some((name, following)) = name(after) else {
            self.rest = after;
            return Some(Piece::Text("$"));
        };
        self.rest = following;
        Some(number(name).map_or(Piece::Named(name), Piece::Group))
    }
}

/// Expands a template with the groups of a match; a group that does not exist is empty.
pub fn expand<'t, E>(
    regex: &BoundedRegex,
    replacement: &'t str,
    group: impl Fn(usize) -> &'t str,
    mut write: impl FnMut(&'t str) -> Result<(), E>,
) -> Result<(), E> {
    pieces(replacement).try_for_each(|piece| match piece {
        Piece::Text(text) => write(text),
        Piece::Group(number) => write(group(number)),
        Piece::Named(name) => write(regex.group_of(name).map_or("", &group)),
    })
}

/// The name after a dollar, and the rest of the text.
fn name(after: &str) -> Option<(&str, &str)> {
    let inside = after.strip_prefix('{');
    let text = inside.unwrap_or(after);
    let is_end = |c: char| c != '_' && !c.is_alphanumeric();
    let (name, following) = text.split_at(text.find(is_end).unwrap_or(text.len()));
    let following = if inside.is_some() { following.strip_prefix('}')? } else { following };
    (!name.is_empty()).then_some((name, following))
}

fn number(name: &str) -> Option<usize> {
    let has_leading_zero = name.len() > 1 && name.starts_with('0');
    let add = |number: usize, digit: u8| {
        let is_digit = digit.is_ascii_digit() && number < LAST_NUMBER_WITH_MORE;
        is_digit.then(|| number * 10 + usize::from(digit - b'0'))
    };
    name.bytes().try_fold(0, add).filter(|_| !has_leading_zero)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected texts are those of Go 1.25, with the groups 1, 2 and `name`.
    #[test]
    fn templates_expand_as_in_go() {
        let group = |piece| match piece {
            Piece::Text(text) => text.to_owned(),
            Piece::Group(number) => match number {
                0 => "whole".to_owned(),
                1 => "one".to_owned(),
                2 => "two".to_owned(),
                _ => String::new(),
            },
            Piece::Named("name") => "named".to_owned(),
            Piece::Named(_) => String::new(),
        };
        for (replacement, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("$1-$2", "one-two"),
            ("${1}x$0", "onexwhole"),
            ("$1x", ""),
            ("$name.${name}y", "named.namedy"),
            ("$$1", "$1"),
            ("$", "$"),
            ("a$ b$-", "a$ b$-"),
            ("${", "${"),
            ("${}", "${}"),
            ("${1", "${1"),
            ("${+1}", "${+1}"),
            ("${a-b}", "${a-b}"),
            ("$01", ""),
            ("$00", ""),
            ("$3", ""),
            ("$1é!", "!"),
            ("${é}", ""),
            ("$9999999999", ""),
            ("$18446744073709551617", ""),
            ("$9223372036854775809", ""),
        ] {
            let made: String = pieces(replacement).map(group).collect();
            assert_eq!(made, expected, "{replacement}");
        }
        assert_eq!(number("999999999"), Some(999_999_999));
        assert_eq!(number("1000000000"), None);
    }
}
