//! The form of samples in recordings: words separated by spaces.
//!
//! `FIRST UNIT WORD WORD ..`: the time of the first sample, relative to a time that the case defines, the
//! unit of further times, and a word for each sample. A sample is one unit after the one before it, or
//! its word begins with the number of units since the first sample: `3:VALUE`.

/// Writes a number in the shortest form that is read as the same number.
pub fn number(value: f64) -> String {
    let text = format!("{value:?}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// Writes samples: times, and words without spaces and colons.
pub fn written(points: &[(i64, String)], base: i64) -> String {
    let Some((first, _)) = points.first() else { return String::new() };
    let unit = points.iter().fold(0, |unit, (time, _)| greatest_divisor(unit, (time - first).abs())).max(1);
    let mut text = format!("{} {unit}", first - base);
    let mut next = 0;
    for (time, word) in points {
        let at = (time - first) / unit;
        text.push(' ');
        if at != next {
            text.push_str(&format!("{at}:"));
        }
        text.push_str(word);
        next = at + 1;
    }
    text
}

fn greatest_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}

/// Reads samples, whose words `read` converts.
pub fn read<T>(text: &str, base: i64, read: impl Fn(&str) -> Option<T>) -> Option<Vec<(i64, T)>> {
    let mut words = text.split_ascii_whitespace();
    let Some(first) = words.next() else { return Some(Vec::new()) };
    let (first, unit) = (first.parse::<i64>().ok()? + base, words.next()?.parse::<i64>().ok()?);
    let mut next = 0;
    let mut point = |word: &str| {
        let (at, word) = match word.split_once(':') {
            Some((at, word)) => (at.parse().ok()?, word),
            None => (next, word),
        };
        next = at + 1;
        Some((first + at * unit, read(word)?))
    };
    words.map(&mut point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_as_they_were_written() {
        let cases: [&[(i64, f64)]; 5] = [
            &[],
            &[(1_000, 0.1)],
            &[(1_000, -0.0), (1_060, f64::INFINITY), (1_240, 1e300), (1_300, 1.0 / 3.0)],
            &[(5, 1.0), (2, 2.0), (3, -1e-9)],
            &[(7, 4.0), (7, 5.0)],
        ];
        for points in cases {
            let words: Vec<(i64, String)> =
                points.iter().map(|(time, value)| (*time, number(*value))).collect();
            let text = written(&words, 990);
            let again = read(&text, 990, |word| word.parse::<f64>().ok()).unwrap();
            assert_eq!(format!("{again:?}"), format!("{points:?}"), "{text}");
        }
        let words = [(1_000, "a".to_owned()), (1_060, "b".to_owned()), (1_240, "c".to_owned())];
        assert_eq!(written(&words, 1_000), "0 60 a b 4:c");
        assert_eq!(read("0 60 a b 4:c", 0, |word| (word != "b").then_some(())), None, "a word is not read");
    }
}
