//! What a container runtime or syslog writes before each line of a program.
//!
//! `2026-01-14T06:01:43.1Z stderr F ` and `Jan 14 06:01:43 host app[12]: ` date every line, also those
//! of a stack trace. The text after it decides whether a line begins an entry.

/// Number of bytes of a host and a program with its number.
const SOURCE_MAX: usize = 160;

/// A line, divided after the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried<'a> {
    /// The stream, or host and program: lines of different ones do not belong together.
    pub source: &'a [u8],
    /// The text of the program.
    pub message: &'a [u8],
}

/// The parts of a line that has such a prefix.
pub fn carried(line: &[u8]) -> Option<Carried<'_>> {
    match line.first()? {
        b'0'..=b'9' if line.get(10) == Some(&b'T') => {
            let at = memchr::memchr(b' ', &line[..line.len().min(48)])?;
            container(line, at + 1).or_else(|| syslog(line, at + 1))
        }
        b'A'..=b'Z' if line.get(6) == Some(&b' ') && line.get(9) == Some(&b':') => syslog(line, 16),
        _ => None,
    }
}

/// `stderr F text`; `P` marks a part of a line.
fn container(line: &[u8], at: usize) -> Option<Carried<'_>> {
    let rest = &line[at..];
    if !(rest.starts_with(b"stdout ") || rest.starts_with(b"stderr ")) {
        return None;
    }
    let is_tag = matches!(rest.get(7), Some(b'F' | b'P')) && matches!(rest.get(8), Some(b' ') | None);
    let message = rest.get(9..).unwrap_or_default();
    is_tag.then(|| Carried { source: &rest[..6], message })
}

/// `host app[12]: text`.
fn syslog(line: &[u8], at: usize) -> Option<Carried<'_>> {
    let rest = line.get(at..)?;
    let host = memchr::memchr(b' ', &rest[..rest.len().min(SOURCE_MAX)])? + 1;
    let program = &rest[host..rest.len().min(host + SOURCE_MAX)];
    let open = program.iter().position(|b| matches!(b, b' ' | b'[')).filter(|&at| program[at] == b'[')?;
    let digits = program[open + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
    let end = open + 1 + digits;
    let is_source = open > 0 && digits > 0 && program[end..].starts_with(b"]: ");
    is_source.then(|| Carried { source: &rest[..host + end], message: &rest[host + end + 3..] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_divided_from_messages() {
        let divided = |line: &'static str| {
            let Carried { source, message } = carried(line.as_bytes())?;
            Some((std::str::from_utf8(source).unwrap(), std::str::from_utf8(message).unwrap()))
        };
        for (line, expected) in [
            ("2026-01-14T06:01:43.1Z stderr F   at a", Some(("stderr", "  at a"))),
            ("2026-01-14T06:01:43.1Z stdout F", Some(("stdout", ""))),
            ("2026-01-14T06:01:43.1Z stdout x", None),
            ("Jan 14 06:01:43 web app[12]:   at a", Some(("web app[12", "  at a"))),
            ("2026-01-14T06:01:43+0000 web app[12]: x", Some(("web app[12", "x"))),
            ("2026-01-14T06:01:43Z INFO [main] a: b]: c", None),
            ("Jan 14 06:01:43 web kernel: x", None),
            ("2026-01-14T", None),
            ("", None),
        ] {
            assert_eq!(divided(line), expected, "{line}");
        }
    }
}
