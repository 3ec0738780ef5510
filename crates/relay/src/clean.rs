//! Cleans names as carbon-c-relay does before routing.
//!
//! Characters other than letters, digits, dots and `-_:#` become `_`, byte by byte. Dots at the start,
//! at the end and after other dots are removed. Tags begin at the first `;`; they are not changed, and
//! neither rules nor rings see them.

/// Characters of names, in addition to letters and digits.
const ALLOWED: &[u8] = b"-_:#";

/// Appends the clean form of a name to `out`. Returns the offset in `out` where its tags begin, or its
/// end if it has none.
pub fn clean(name: &[u8], out: &mut Vec<u8>) -> usize {
    let start = out.len();
    let (name, tags) = name.split_at(memchr::memchr(b';', name).unwrap_or(name.len()));
    for byte in name {
        match byte {
            b'.' if out.len() == start || out.ends_with(b".") => {}
            b'.' => out.push(b'.'),
            byte if byte.is_ascii_alphanumeric() || ALLOWED.contains(byte) => out.push(*byte),
            _ => out.push(b'_'),
        }
    }
    if tags.is_empty() && out.len() > start && out.ends_with(b".") {
        out.pop();
    }
    let end = out.len();
    out.extend_from_slice(tags);
    end
}

/// Writes the line with a clean name to `out`. Spaces and dots before the name are removed.
pub fn clean_line(line: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = line.iter().position(|byte| !is_space(byte) && *byte != b'.').unwrap_or(line.len());
    let line = &line[start..];
    let end = line.iter().position(is_space).unwrap_or(line.len());
    clean(&line[..end], out);
    out.extend_from_slice(&line[end..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cleaned_as_in_carbon_c_relay() {
        for (line, expected) in [
            ("a.b-c_d:e#f 1 2", "a.b-c_d:e#f 1 2"),
            ("a.b/c d 1", "a.b_c d 1"),
            ("..a...b. 1 2", "a.b 1 2"),
            (" . a 1 2", "a 1 2"),
            ("é 1 2", "__ 1 2"),
            ("a.b\t1 2", "a.b\t1 2"),
            ("a.*;t=x/y..z. 1 2", "a._;t=x/y..z. 1 2"),
            ("a.;t=v 1 2", "a.;t=v 1 2"),
            ("", ""),
            ("...", ""),
        ] {
            let mut out = Vec::new();
            clean_line(line.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{line:?}");
        }
        let mut out = b"x".to_vec();
        assert_eq!((clean(b".a.;t=v", &mut out), out.as_slice()), (3, &b"xa.;t=v"[..]));
    }
}
