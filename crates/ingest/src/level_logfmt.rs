//! Finds the level field of a logfmt line, without allocating.
//!
//! Keys match in any case. `level` outranks the other keys wherever it stands, then the order of
//! [`RANKED_KEYS`] decides. Reading stops at the first syntax error (a quote inside a bare value, a
//! second equals sign); fields before it count.

/// Keys, highest rank first.
const RANKED_KEYS: [&[u8]; 6] =
    [b"level", b"log.level", b"severity", b"severitytext", b"lvl", b"severity_text"];

/// Returns the raw text of the level field, with its escapes.
pub(crate) fn level_field(line: &[u8]) -> Option<&[u8]> {
    let mut at = 0;
    let mut best: Option<(usize, &[u8])> = None;
    while let Some((key, value)) = next_pair(line, &mut at) {
        let rank = rank(key).filter(|&rank| best.is_none_or(|(other, _)| rank < other));
        match rank {
            Some(0) => return Some(value),
            Some(rank) => best = Some((rank, value)),
            None => {}
        }
    }
    best.map(|(_, value)| value)
}

fn rank(key: &[u8]) -> Option<usize> {
    if key.len() < 3 || key.len() > 13 {
        return None;
    }
    RANKED_KEYS.iter().position(|known| key.eq_ignore_ascii_case(known))
}

/// Returns the next key with its value (empty when it has none); `None` at the end or at an error.
fn next_pair<'a>(line: &'a [u8], at: &mut usize) -> Option<(&'a [u8], &'a [u8])> {
    let space = line[*at..].iter().position(|&b| b > b' ')?;
    let start = *at + space;
    let length = line[start..].iter().position(|&b| b <= b' ' || b == b'=' || b == b'"');
    let end = start + length.unwrap_or(line.len() - start);
    let key = &line[start..end];
    *at = end;
    if !key.is_ascii() && std::str::from_utf8(key).is_err() {
        return None;
    }
    match line.get(end) {
        Some(b'=') if !key.is_empty() => *at += 1,
        Some(b'=' | b'"') => return None,
        _ => return Some((key, b"")),
    }
    match line.get(*at) {
        Some(b'"') => {
            *at += 1;
            Some((key, quoted(line, at)?))
        }
        _ => Some((key, bare(line, at)?)),
    }
}

fn bare<'a>(line: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let start = *at;
    let length = line[start..].iter().position(|&b| b <= b' ' || b == b'=' || b == b'"');
    let end = start + length.unwrap_or(line.len() - start);
    *at = end;
    match line.get(end) {
        Some(b'=' | b'"') => None,
        _ => Some(&line[start..end]),
    }
}

/// Returns the rest of a quoted value whose opening quote was read.
fn quoted<'a>(line: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let start = *at;
    loop {
        let found = memchr::memchr2(b'"', b'\\', line.get(*at..)?)?;
        *at += found + 1;
        if line[*at - 1] == b'"' {
            return Some(&line[start..*at - 1]);
        }
        *at += 1; // the escaped character
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_level_field_of_the_highest_rank_is_found() {
        for (line, level) in [
            ("level=info msg=x", Some("info")),
            (r#"msg="level=debug" LEVEL=warn"#, Some("warn")),
            ("severity=a lvl=b level=c", Some("c")),
            ("lvl=b Severity=a", Some("a")),
            ("severity_text=z log.level=y", Some("y")),
            ("plain words then level=error", Some("error")),
            (r#"level="in \"quotes\"" x=y"#, Some(r#"in \"quotes\""#)),
            ("level= x=y", Some("")),
            ("the level dropped a=b", Some("")),
            (r#"a="open level=error"#, None),
            (r#"a"b level=error"#, None),
            ("a=b=c level=error", None),
            ("=b level=error", None),
            ("lvl=info a=b=c level=error", Some("info")),
            ("a=b", None),
            ("", None),
            ("levels=info", None),
        ] {
            assert_eq!(level_field(line.as_bytes()), level.map(str::as_bytes), "{line}");
        }
        assert_eq!(level_field(b"k\xff=v level=error"), None);
        assert_eq!(level_field("schlüssel=v level=error".as_bytes()), Some(b"error".as_slice()));
    }

    proptest! {
        #[test]
        fn no_line_panics(line in r#"["\\a= levl\t]{0,40}"#) {
            level_field(line.as_bytes());
        }
    }
}
