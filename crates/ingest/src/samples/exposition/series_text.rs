//! The text of a series: `name{label="value", ...}`, or with quoted names `{"name", "label"="value"}`.

use std::borrow::Cow;

use super::super::labels_check::METRIC_NAME;

/// Returns the length of the series text at the beginning of the line. An error is the message.
pub(super) fn end_of_series(line: &str) -> Result<usize, &'static str> {
    let bytes = line.as_bytes();
    let name_end = bytes.iter().position(|b| !is_name_byte(*b)).unwrap_or(bytes.len());
    let open = name_end + bytes[name_end..].iter().take_while(|b| is_space(**b)).count();
    if bytes.get(open) != Some(&b'{') {
        return if name_end > 0 { Ok(name_end) } else { Err("expected a metric name or \"{\"") };
    }
    let (mut quoted, mut at) = (false, open + 1);
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'\\' if quoted => at += 1,
            b'"' => quoted = !quoted,
            b'}' if !quoted => return Ok(at),
            _ => {}
        }
    }
    Err("expected \"}\"")
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':')
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Parses the text of a series to its labels, with the metric name as `__name__`. An error is the
/// message.
pub fn series_pairs(text: &str) -> Result<Vec<(Cow<'_, str>, Cow<'_, str>)>, &'static str> {
    let mut pairs = Vec::new();
    let name_end = text.bytes().position(|b| !is_name_byte(b)).unwrap_or(text.len());
    let (name, rest) = text.split_at(name_end);
    if !name.is_empty() {
        if name.as_bytes()[0].is_ascii_digit() {
            return Err("a metric name begins with a digit");
        }
        pairs.push((Cow::Borrowed(METRIC_NAME), Cow::Borrowed(name)));
    }
    let rest = rest.trim_matches([' ', '\t']);
    if rest.is_empty() {
        return Ok(pairs);
    }
    let inner = rest.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).ok_or("expected \"}\"")?;
    labels(inner, &mut pairs)?;
    Ok(pairs)
}

/// Parses the labels between braces.
pub(super) fn labels<'a>(
    inner: &'a str,
    pairs: &mut Vec<(Cow<'a, str>, Cow<'a, str>)>,
) -> Result<(), &'static str> {
    let mut rest = inner.trim_start_matches([' ', '\t']);
    while !rest.is_empty() {
        let (name, after) = if rest.starts_with('"') { quoted(rest)? } else { plain_name(rest)? };
        rest = after.trim_start_matches([' ', '\t']);
        if let Some(after) = rest.strip_prefix('=') {
            let (value, after) = quoted(after.trim_start_matches([' ', '\t']))?;
            pairs.push((name, value));
            rest = after;
        } else if inner.trim_start().starts_with('"') && !pairs.iter().any(|(name, _)| name == METRIC_NAME) {
            pairs.push((Cow::Borrowed(METRIC_NAME), name));
        } else {
            return Err("expected \"=\" after a label name");
        }
        rest = rest.trim_start_matches([' ', '\t']);
        match rest.strip_prefix(',') {
            Some(after) => rest = after.trim_start_matches([' ', '\t']),
            None if rest.is_empty() => {}
            None => return Err("expected \",\" or \"}\" after a label"),
        }
    }
    Ok(())
}

fn plain_name(text: &str) -> Result<(Cow<'_, str>, &str), &'static str> {
    let end = text.bytes().position(|b| !(b.is_ascii_alphanumeric() || b == b'_')).unwrap_or(text.len());
    match text.as_bytes().first() {
        Some(first) if end > 0 && !first.is_ascii_digit() => Ok((Cow::Borrowed(&text[..end]), &text[end..])),
        _ => Err("expected a label name"),
    }
}

/// Returns a text in double quotes, and the rest.
fn quoted(text: &str) -> Result<(Cow<'_, str>, &str), &'static str> {
    let inner = text.strip_prefix('"').ok_or("expected a label value in double quotes")?;
    let mut bytes = inner.bytes().enumerate();
    let mut escapes = false;
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => {
                let plain = &inner[..at];
                let value = if escapes { Cow::Owned(unescape(plain)) } else { Cow::Borrowed(plain) };
                return Ok((value, &inner[at + 1..]));
            }
            b'\\' => {
                escapes = true;
                bytes.next();
            }
            _ => {}
        }
    }
    Err("a label value has no closing quote")
}

/// Replaces `\\`, `\"` and `\n`; other escapes are kept unchanged.
pub(super) fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            plain.push(character);
            continue;
        }
        match characters.next() {
            Some('n') => plain.push('\n'),
            Some(escaped @ ('\\' | '"')) => plain.push(escaped),
            Some(other) => plain.extend(['\\', other]),
            None => plain.push('\\'),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, &'static str> {
        let pairs = series_pairs(text)?;
        Ok(pairs.iter().map(|(name, value)| format!("{name}={value:?}")).collect::<Vec<_>>().join(","))
    }

    #[test]
    fn every_form_of_a_series_is_parsed() {
        for (text, expected) in [
            ("up", r#"__name__="up""#),
            ("a:b_c{}", r#"__name__="a:b_c""#),
            (r#"up {x="1" , y = "2", }"#, r#"__name__="up",x="1",y="2""#),
            (r#"up{x="a\"b\\c\nd\e"}"#, r#"__name__="up",x="a\"b\\c\nd\\e""#),
            (r#"{"my.name", "my.label"="}"}"#, r#"__name__="my.name",my.label="}""#),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(expected), "{text}");
            assert_eq!(end_of_series(&format!("{text} 1")), Ok(text.len()), "{text}");
        }
        for text in [r#"up{x}"#, r#"up{x=1}"#, r#"up{1x="1"}"#, r#"up{x="1" y="2"}"#, r#"up{,}"#, "1up"] {
            assert!(shown(text).is_err(), "{text}");
        }
        assert!(end_of_series(r#"up{x="1"#).is_err() && end_of_series(" 1").is_err());
        assert!(end_of_series("up{x=\"\\").is_err());
    }
}
