//! Lists of words in which the first word of a line is searched.

/// Words, with what tells most other words from them: their lengths by their first letter.
pub struct Words<const N: usize> {
    words: [&'static str; N],
    /// Bit `n` is set for a word of `n` letters.
    lengths: [u16; 26],
}

impl<const N: usize> Words<N> {
    /// A list of words in capitals, of at most 15 letters.
    pub const fn new(words: [&'static str; N]) -> Self {
        let (mut lengths, mut n) = ([0; 26], 0);
        while n < N {
            let word = words[n].as_bytes();
            lengths[(word[0] - b'A') as usize] |= 1 << word.len();
            n += 1;
        }
        Self { words, lengths }
    }

    /// Whether a word is in the list, in letters of any case.
    pub fn have(&self, word: &[u8]) -> bool {
        let lengths = word.first().map(|letter| letter.to_ascii_uppercase().wrapping_sub(b'A'));
        let lengths = lengths.and_then(|letter| self.lengths.get(usize::from(letter)));
        let may_have = lengths.is_some_and(|lengths| word.len() < 16 && lengths >> word.len() & 1 == 1);
        may_have && self.words.iter().any(|one| word.eq_ignore_ascii_case(one.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_any_case() {
        const WORDS: Words<3> = Words::new(["INFO", "ERROR", "ABCDEFGHIJKLMNO"]);
        for (word, expected) in [
            ("INFO", true),
            ("Info", true),
            ("error", true),
            ("abcdefghijklmno", true),
            ("", false),
            ("INFOS", false),
            ("ABCDEFGHIJKLMNOP", false),
            ("XNFO", false),
            ("1234", false),
            ("\u{e9}", false),
        ] {
            assert_eq!(WORDS.have(word.as_bytes()), expected, "{word}");
        }
    }
}
