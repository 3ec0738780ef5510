//! Characters that need no quotes in names: letters of every script, digits, underscores and dots.
//!
//! **Invariants:** letters are Unicode's category `L` (`\p{L}`), as in Go's `unicode.IsLetter`. Marks,
//! digits of other scripts, and symbols end a name. No name begins with a dot or a digit.

use std::sync::LazyLock;

use regex_syntax::hir::{Class, HirKind};

/// The letters as sorted ranges.
static LETTERS: LazyLock<Vec<(char, char)>> = LazyLock::new(|| match regex_syntax::parse(r"\p{L}") {
    Ok(parsed) => match parsed.kind() {
        HirKind::Class(Class::Unicode(class)) => class.iter().map(|r| (r.start(), r.end())).collect(),
        _ => Vec::new(),
    },
    Err(_) => Vec::new(),
});

fn is_letter(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphabetic();
    }
    let next = LETTERS.partition_point(|(start, _)| *start <= c);
    next.checked_sub(1).is_some_and(|n| c <= LETTERS[n].1)
}

/// Whether a name may begin with the character.
pub fn begins(c: char) -> bool {
    c == '_' || is_letter(c)
}

/// Whether a name may continue with the character.
pub fn goes_on(c: char) -> bool {
    begins(c) || c.is_ascii_digit() || c == '.'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_every_script_are_letters_and_marks_are_not() {
        for letter in ['a', 'Z', 'ö', 'é', '温', 'ص', 'θ', 'а', '\u{10400}', 'ª'] {
            assert!(begins(letter) && goes_on(letter), "{letter}");
        }
        // A mark, a digit of another script, a letter number, symbols, and joiners.
        for other in ['\u{308}', '\u{661}', 'Ⅷ', 'ⓐ', '😀', '²', '·', '\u{200d}', '\u{fffd}', ':', '-']
        {
            assert!(!begins(other) && !goes_on(other), "{other}");
        }
        assert_eq!(['_', '.', '5'].map(begins), [true, false, false]);
        assert_eq!(['_', '.', '5'].map(goes_on), [true; 3]);
    }
}
