//! Reads the parts of script lines: comments, label sets, texts.

/// Returns the line without its comment. A `#` in quotes begins no comment. Only `e"…"` has escapes.
pub fn strip_comment(line: &str) -> &str {
    let (mut quote, mut escapes, mut escaped, mut before) = (None, false, false, ' ');
    for (n, c) in line.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some('"'), '\\') if escapes => escaped = true,
            (None, '#') => return &line[..n],
            (None, '"' | '`') => {
                quote = Some(c);
                escapes = c == '"' && before == 'e';
            }
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
        before = c;
    }
    line
}

/// Splits a text after the closing brace of a label set. The values may contain escapes.
pub fn split_labels(text: &str) -> Result<(&str, &str), String> {
    let (mut quote, mut escaped) = (None, false);
    for (n, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some('"'), '\\') => escaped = true,
            (None, '}') => return Ok((&text[..=n], text[n + 1..].trim_start())),
            (None, '"' | '`') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
    }
    Err(format!("unterminated label set: {text}"))
}

/// Splits off a quoted text: `"…"` and backticks are taken literally, `e"…"` has escapes.
pub fn split_text(text: &str) -> Result<(Vec<u8>, &str), String> {
    if let Some(rest) = text.strip_prefix("e\"") {
        return unescape(rest);
    }
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '`'));
    let quote = quote.ok_or_else(|| format!("missing text: {text}"))?;
    let end = text[1..].find(quote).ok_or_else(|| format!("unterminated text: {text}"))? + 1;
    Ok((text.as_bytes()[1..end].to_vec(), text[end + 1..].trim_start()))
}

fn unescape(text: &str) -> Result<(Vec<u8>, &str), String> {
    let mut bytes = Vec::new();
    let mut rest = text.char_indices();
    let wrong = || format!("unknown escape in e\"{text}");
    while let Some((n, c)) = rest.next() {
        match c {
            '"' => return Ok((bytes, text[n + 1..].trim_start())),
            '\\' => match rest.next().ok_or_else(wrong)?.1 {
                'n' => bytes.push(b'\n'),
                't' => bytes.push(b'\t'),
                'r' => bytes.push(b'\r'),
                '0' => bytes.push(0),
                'x' => {
                    let hex: String = rest.by_ref().take(2).map(|(_, c)| c).collect();
                    bytes.push(u8::from_str_radix(&hex, 16).map_err(|_| wrong())?);
                }
                'u' => {
                    let hex: String =
                        rest.by_ref().skip(1).map(|(_, c)| c).take_while(|c| *c != '}').collect();
                    let code = u32::from_str_radix(&hex, 16).map_err(|_| wrong())?;
                    let c = char::from_u32(code).ok_or_else(wrong)?;
                    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                c @ ('"' | '\\') => bytes.push(c as u8),
                _ => return Err(wrong()),
            },
            c => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Err(format!("unterminated text: e\"{text}"))
}

/// Quotes bytes in a form that [`split_text`] reads.
pub fn quote(bytes: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.chars().any(|c| c.is_control() || c == '\u{fffd}')
    {
        if !text.contains('"') {
            return format!("\"{text}\"");
        }
        if !text.contains('`') {
            return format!("`{text}`");
        }
    }
    let mut quoted = String::from("e\"");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => quoted.extend(['\\', c]),
                '\n' => quoted.push_str("\\n"),
                '\t' => quoted.push_str("\\t"),
                '\r' => quoted.push_str("\\r"),
                c if c.is_control() => quoted.push_str(&format!("\\u{{{:x}}}", c as u32)),
                c => quoted.push(c),
            }
        }
        for byte in chunk.invalid() {
            quoted.push_str(&format!("\\x{byte:02x}"));
        }
    }
    quoted.push('"');
    quoted
}

/// Reads labels in braces, with Go strings as values. Returns them sorted by name; a value may be empty.
pub fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let matchers = sandur_logql::parse_selector(text).map_err(|e| format!("{text}: {e}"))?;
    let mut pairs: Vec<_> = matchers.iter().map(|m| (m.name().to_owned(), m.value().to_owned())).collect();
    pairs.sort();
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_texts_read_back() {
        for bytes in [&b"plain"[..], b"say \"hi\"", b"\"`\\", b"a\nb\x00\xff\xc3\xa9", b""] {
            let quoted = quote(bytes);
            assert_eq!(split_text(&quoted).unwrap(), (bytes.to_vec(), ""), "{quoted}");
        }
    }
}
