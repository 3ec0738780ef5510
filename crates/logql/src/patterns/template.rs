//! Masks a line: splits it into words that are constant, words that are values, and the text between words.
//!
//! A line consists of delimiters and words. A word is a longest run of bytes that are not delimiters,
//! without `:` at its start and `.` or `:` at its end (unless the line ends there). Words with digits, long
//! words and words that are not text are values. Words before `=` or `":` are names of fields and belong to
//! the skeleton.
//!
//! **Why patterns match their lines.** `|>` searches for each literal from the end of the previous one, and
//! takes the first occurrence. A literal after a value begins with a delimiter, or with `.` and `:` and
//! then a delimiter. The value is one word and contains no delimiter, so the first occurrence of the
//! literal after the value's start is at the value's end. Hence a pattern whose placeholders stand for
//! complete words matches every line with the same skeleton. Two words always have a delimiter between
//! them, so placeholders are never adjacent.

/// The longest part of a line that is masked, in bytes; the rest is one value.
const LINE_BYTES_MAX: usize = 3_000;
/// The most words of a line that are masked; the rest is one value.
const WORDS_MAX: usize = 80;
/// Words of at least this length are values.
const VALUE_BYTES: usize = 40;
/// Stands for a word in the skeleton; never occurs in text.
pub const SLOT: u8 = 0xFF;
/// The placeholder of a value in a pattern.
pub const PLACEHOLDER: &str = "<_>";

/// Bytes that separate words.
const DELIMITS: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte <= 0x20 {
        table[byte] = true;
        byte += 1;
    }
    let others = b"=,;\"'`()[]{}<>|/&?!*\\";
    let mut n = 0;
    while n < others.len() {
        table[others[n] as usize] = true;
        n += 1;
    }
    table
};

fn delimits(byte: u8) -> bool {
    DELIMITS[usize::from(byte)]
}

/// A masked line. The skeleton has a [`SLOT`] for each word that is not a field name. The words of the
/// slots are listed separately; a value is an empty word.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Template {
    /// The delimiters, field names and slots.
    pub skeleton: Vec<u8>,
    /// The words of the slots, each followed by a [`SLOT`].
    pub words: Vec<u8>,
}

impl Template {
    /// Masks a line; replaces the previous content.
    pub fn mask(&mut self, line: &[u8]) {
        self.skeleton.clear();
        self.words.clear();
        let mut at = 0;
        let mut words = 0;
        while at < line.len() {
            let blank = delimits(line[at]);
            // Never directly after another slot, because adjacent placeholders are not a valid pattern.
            let too_long = at >= LINE_BYTES_MAX && self.skeleton.last() != Some(&SLOT);
            if too_long || (words == WORDS_MAX && !blank) {
                self.slot(b"");
                return;
            }
            if blank {
                self.skeleton.push(line[at]);
                at += 1;
                continue;
            }
            let end = line[at..].iter().position(|&b| delimits(b)).map_or(line.len(), |n| at + n);
            let (start, stop) = trim(line, at, end);
            self.skeleton.extend_from_slice(&line[at..start]);
            if start < stop {
                self.word(line, start, stop);
                words += 1;
            }
            self.skeleton.extend_from_slice(&line[stop..end]);
            at = end;
        }
    }

    fn word(&mut self, line: &[u8], start: usize, stop: usize) {
        let word = &line[start..stop];
        // A word between angle brackets would itself be parsed as a placeholder.
        let enclosed = start > 0 && line[start - 1] == b'<' && line.get(stop) == Some(&b'>');
        let text = !enclosed && word.len() < VALUE_BYTES && std::str::from_utf8(word).is_ok();
        if text && is_name(&line[stop..]) {
            self.skeleton.extend_from_slice(word);
        } else if text && is_constant(word) {
            self.slot(word);
        } else {
            self.slot(b"");
        }
    }

    fn slot(&mut self, word: &[u8]) {
        self.skeleton.push(SLOT);
        self.words.extend_from_slice(word);
        self.words.push(SLOT);
    }

    /// The words of the slots; a value is empty.
    pub fn slots(&self) -> impl Iterator<Item = &[u8]> {
        self.words.split_last().map_or(&[][..], |(_, words)| words).split(|&b| b == SLOT).take(
            // Splitting an empty list yields one empty piece.
            if self.words.is_empty() { 0 } else { usize::MAX },
        )
    }

    /// The bytes that it takes.
    pub fn bytes(&self) -> u64 {
        (self.skeleton.len() + self.words.len()) as u64
    }
}

/// The pattern for a skeleton with these words.
pub fn pattern<'a>(skeleton: &[u8], slots: impl Iterator<Item = &'a [u8]>) -> String {
    let mut text = Vec::with_capacity(skeleton.len() * 2);
    let mut slots = slots;
    for &byte in skeleton {
        match byte {
            SLOT => match slots.next() {
                Some(word) if !word.is_empty() => text.extend_from_slice(word),
                _ => text.extend_from_slice(PLACEHOLDER.as_bytes()),
            },
            byte => text.push(byte),
        }
    }
    String::from_utf8(text).expect("delimiters are ASCII, and words and names are checked to be UTF-8")
}

/// Excludes `:` at the start and `.` and `:` at the end of a word. At the end of the line the word keeps
/// them, because no literal follows that could mark the end of the value.
fn trim(line: &[u8], start: usize, end: usize) -> (usize, usize) {
    let word = &line[start..end];
    let front = word.iter().take_while(|&&b| b == b':').count();
    let back = word[front..].iter().rev().take_while(|&&b| matches!(b, b'.' | b':')).count();
    let at_end = end == line.len();
    match (front == word.len(), at_end) {
        (true, _) => (end, end),
        (false, true) => (start + front, end),
        (false, false) => (start + front, end - back),
    }
}

/// Whether the word before `rest` is the name of a field.
fn is_name(rest: &[u8]) -> bool {
    matches!(rest, [b'=', b, ..] if *b != b'=') || matches!(rest, [b'=']) || rest.starts_with(b"\":")
}

/// Whether a word is likely to be the same in other lines. One digit in a short word is part of a name, as
/// in `v1` or `http2`; more digits are a number, a time or an id.
fn is_constant(word: &[u8]) -> bool {
    let digits = word.iter().filter(|b| b.is_ascii_digit()).count();
    match digits {
        0 => true,
        1 => word.len() <= 5 && word[0].is_ascii_alphabetic() && !word.iter().all(u8::is_ascii_hexdigit),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(line: &str) -> String {
        let mut template = Template::default();
        template.mask(line.as_bytes());
        pattern(&template.skeleton, template.slots())
    }

    #[test]
    fn values_are_masked_and_words_and_names_are_kept() {
        for (line, expected) in [
            ("connection from 10.0.0.1:80 closed", "connection from <_> closed"),
            ("level=info took=5ms path=/api/v1/users/17", "level=info took=<_> path=/api/v1/users/<_>"),
            (r#"{"level":"info","n":5,"ok":true}"#, r#"{"level":"info","n":<_>,"ok":true}"#),
            ("2024-01-02T03:04:05.123Z start: took 1.5s. bye.", "<_> start: took <_>. bye."),
            ("took 5ms.", "took <_>"),
            ("done: ", "done: "),
            ("see <name> here", "see <<_>> here"),
            ("::", "::"),
            ("", ""),
            ("http2 over k8s and a1", "http2 over k8s and <_>"),
        ] {
            assert_eq!(masked(line), expected, "{line}");
        }
    }

    #[test]
    fn long_lines_end_in_one_value() {
        let line = "word ".repeat(200);
        let expected = format!("{}<_>", "word ".repeat(WORDS_MAX));
        assert_eq!(masked(&line), expected);
        let long = format!("a {} b", "x".repeat(VALUE_BYTES));
        assert_eq!(masked(&long), "a <_> b");
    }
}
