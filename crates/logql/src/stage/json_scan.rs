//! Scans JSON text without building values: members of objects, elements of arrays, paths.
//!
//! As lenient as the parser that Loki uses: numbers are not validated, and text after the outermost value
//! is ignored.

/// The text read so far is not valid JSON; the message is that of Loki's parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

const NO_OBJECT: Malformed = Malformed("Value looks like object, but can't find closing '}' symbol");
const NO_ARRAY: Malformed = Malformed("Value is array, but can't find closing ']' symbol");
const NO_STRING: Malformed = Malformed("Value is string, but can't find closing '\"' symbol");
const NO_JSON: Malformed = Malformed("Malformed JSON error");
const NO_VALUE: Malformed = Malformed("Unknown value type");

/// A value, as a slice of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// The text between the quotes, with escapes.
    String(&'a [u8]),
    /// The unparsed text.
    Number(&'a [u8]),
    /// `true` or `false`.
    Bool(&'a [u8]),
    /// `null`
    Null,
    /// The text with its braces.
    Object(&'a [u8]),
    /// The text with its brackets.
    Array(&'a [u8]),
}

/// The name of a member, as a slice of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// The text between the quotes.
    pub raw: &'a [u8],
    /// Whether it has escapes.
    pub escaped: bool,
}

/// Whether a scan continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The scan continues with the next member.
    Continue,
    /// The scan ends.
    Stop,
}

/// Calls `f` with each key and value of an object.
pub fn each_member<'a>(
    text: &'a [u8],
    f: &mut impl FnMut(Key<'a>, Value<'a>) -> Result<Flow, Malformed>,
) -> Result<Flow, Malformed> {
    let mut at = skip_blank(text, 0);
    if text.get(at) != Some(&b'{') {
        return Err(NO_OBJECT);
    }
    at = skip_blank(text, at + 1);
    if at >= text.len() {
        return Err(NO_JSON);
    }
    loop {
        match text.get(at) {
            Some(b'"') => {}
            Some(b'}') => return Ok(Flow::Continue),
            Some(_) => return Err(NO_OBJECT),
            // These errors are those of the parser that Loki uses.
            None => return Err(NO_ARRAY),
        }
        let (key_end, escaped) = string_end(text, at + 1).map_err(|_| NO_JSON)?;
        let key = Key { raw: &text[at + 1..key_end], escaped };
        at = skip_blank(text, key_end + 1);
        if text.get(at) != Some(&b':') {
            return Err(NO_JSON);
        }
        let (value, end) = value_at(text, skip_blank(text, at + 1))?;
        if f(key, value)? == Flow::Stop {
            return Ok(Flow::Stop);
        }
        at = skip_blank(text, end);
        match text.get(at) {
            Some(b',') => at = skip_blank(text, at + 1),
            Some(b'}') => return Ok(Flow::Continue),
            Some(_) => return Err(NO_OBJECT),
            None => return Err(NO_ARRAY),
        }
    }
}

/// The element of an array at an index.
pub fn element(text: &[u8], index: usize) -> Result<Option<Value<'_>>, Malformed> {
    let mut at = skip_blank(text, 0);
    if text.get(at) != Some(&b'[') {
        return Err(NO_ARRAY);
    }
    at = skip_blank(text, at + 1);
    let mut position = 0;
    while text.get(at) != Some(&b']') {
        let (value, end) = value_at(text, at)?;
        if position == index {
            return Ok(Some(value));
        }
        position += 1;
        at = skip_blank(text, end);
        match text.get(at) {
            Some(b',') => at = skip_blank(text, at + 1),
            Some(b']') => {}
            _ => return Err(NO_ARRAY),
        }
    }
    Ok(None)
}

/// The value at the offset `at`, and the offset of its end.
pub fn value_at(text: &[u8], at: usize) -> Result<(Value<'_>, usize), Malformed> {
    match text.get(at) {
        Some(b'"') => {
            let (end, _) = string_end(text, at + 1)?;
            Ok((Value::String(&text[at + 1..end]), end + 1))
        }
        Some(b'{') => {
            let end = block_end(text, at, NO_OBJECT)?;
            Ok((Value::Object(&text[at..end]), end))
        }
        Some(b'[') => {
            let end = block_end(text, at, NO_ARRAY)?;
            Ok((Value::Array(&text[at..end]), end))
        }
        Some(_) => {
            let end =
                text[at..].iter().position(|b| ENDS_TOKEN[usize::from(*b)]).map_or(text.len(), |n| at + n);
            let token = &text[at..end];
            let value = match token {
                b"true" | b"false" => Value::Bool(token),
                b"null" => Value::Null,
                [b'-' | b'0'..=b'9', ..] => Value::Number(token),
                _ => return Err(NO_VALUE),
            };
            Ok((value, end))
        }
        None => Err(NO_JSON),
    }
}

/// The offset of the first byte from `at` on that is not white space.
pub fn skip_blank(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
        at += 1;
    }
    at
}

/// Bytes that end a number, `true`, `false` or `null`.
pub const ENDS_TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let ends = b" \n\r\t,}]";
    let mut n = 0;
    while n < ends.len() {
        table[ends[n] as usize] = true;
        n += 1;
    }
    table
};

/// The offset of the closing quote of the string whose content begins at `at`, and whether it has escapes.
pub fn string_end(text: &[u8], mut at: usize) -> Result<(usize, bool), Malformed> {
    let mut escaped = false;
    loop {
        at = quote_or_backslash(text, at).ok_or(NO_STRING)?;
        if text[at] == b'"' {
            return Ok((at, escaped));
        }
        escaped = true;
        at += 2;
    }
}

/// The offset of the next quote or backslash. Strings in logs are short, so eight bytes are tested at a
/// time in a register, which costs less than a call to a search for long texts.
fn quote_or_backslash(text: &[u8], mut at: usize) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    // Has the high bit set in every byte that is zero, and in no byte before the first such one.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    while let Some(chunk) = text.get(at..at + 8) {
        let word = u64::from_le_bytes(chunk.try_into().expect("the chunk has eight bytes"));
        let found = zeros(word ^ (ONES * u64::from(b'"'))) | zeros(word ^ (ONES * u64::from(b'\\')));
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    let rest = text.get(at..)?;
    rest.iter().position(|b| matches!(b, b'"' | b'\\')).map(|n| at + n)
}

/// The offset after the bracket that closes the one at `at`.
fn block_end(text: &[u8], mut at: usize, missing: Malformed) -> Result<usize, Malformed> {
    let mut depth = 0usize;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => at = string_end(text, at + 1)?.0,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Ok(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
    Err(missing)
}

/// Appends the content of a string with its escapes decoded; returns false for an invalid escape.
pub fn append_unescaped(out: &mut Vec<u8>, raw: &[u8]) -> bool {
    let mut rest = raw;
    while let Some(n) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..n]);
        let Some(&kind) = rest.get(n + 1) else { return false };
        rest = &rest[n + 2..];
        match kind {
            b'"' | b'\\' | b'/' => out.push(kind),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => match unicode_escape(rest) {
                Some((c, used)) => {
                    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                    rest = &rest[used..];
                }
                None => return false,
            },
            _ => return false,
        }
    }
    out.extend_from_slice(rest);
    true
}

/// The character of `XXXX` or `XXXX\uXXXX`, and the number of bytes used. An unpaired surrogate becomes a
/// space.
fn unicode_escape(text: &[u8]) -> Option<(char, usize)> {
    let unit = |from: usize| {
        let digits = std::str::from_utf8(text.get(from..from + 4)?).ok()?;
        if digits.starts_with('+') { None } else { u32::from_str_radix(digits, 16).ok() }
    };
    let first = unit(0)?;
    if let Some(c) = char::from_u32(first) {
        return Some((c, 4));
    }
    if text.get(4..6) == Some(b"\\u")
        && let Some(second) = unit(6)
        && (0xD800..0xDC00).contains(&first)
        && (0xDC00..0xE000).contains(&second)
    {
        let c = char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00));
        return Some((c.unwrap_or(' '), 10));
    }
    Some((' ', 4))
}

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To a member of an object.
    Key(String),
    /// To an element of an array.
    Index(usize),
}

/// The value at a path, if there is one.
pub fn find<'a>(text: &'a [u8], path: &[Step]) -> Result<Option<Value<'a>>, Malformed> {
    let start = skip_blank(text, 0);
    let mut value = match text.get(start) {
        // Without looking for its end: the member may come before malformed text.
        Some(b'{') if !path.is_empty() => Value::Object(&text[start..]),
        _ => value_at(text, start)?.0,
    };
    for step in path {
        let next = match (step, value) {
            (Step::Key(key), Value::Object(object)) => member(object, key)?,
            (Step::Index(index), Value::Array(array)) => element(array, *index)?,
            _ => None,
        };
        match next {
            Some(found) => value = found,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

fn member<'a>(object: &'a [u8], key: &str) -> Result<Option<Value<'a>>, Malformed> {
    let mut found = None;
    each_member(object, &mut |name, value| {
        let same = if name.escaped {
            let mut plain = Vec::new();
            append_unescaped(&mut plain, name.raw) && plain == key.as_bytes()
        } else {
            name.raw == key.as_bytes()
        };
        if !same {
            return Ok(Flow::Continue);
        }
        found = Some(value);
        Ok(Flow::Stop)
    })?;
    Ok(found)
}

/// Parses a path such as `a.b[0]["c d"]`.
pub fn parse_path(text: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut rest = text.trim_start();
    let syntax = |what: &str| format!("syntax error: unexpected {what}");
    while !rest.is_empty() {
        let field_expected = steps.is_empty() || rest.starts_with('.');
        if let Some(inside) = rest.strip_prefix('[') {
            let inside = inside.trim_start();
            let (step, after) = match inside.strip_prefix('"') {
                Some(quoted) => {
                    let end = quoted.find('"').ok_or_else(|| syntax("$end"))?;
                    (Step::Key(quoted[..end].to_owned()), &quoted[end + 1..])
                }
                None if inside.is_empty() => return Err(syntax("$end, expecting STRING or INDEX")),
                None => {
                    let end = inside.find(|c: char| !c.is_ascii_digit()).unwrap_or(inside.len());
                    let index = inside[..end].parse().map_err(|_| syntax("index"))?;
                    (Step::Index(index), &inside[end..])
                }
            };
            steps.push(step);
            rest = after.trim_start().strip_prefix(']').ok_or_else(|| syntax("$end, expecting ]"))?;
        } else if field_expected {
            rest = if steps.is_empty() { rest } else { rest[1..].trim_start() };
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            if end == 0 || rest.starts_with(|c: char| c.is_ascii_digit()) {
                return Err(syntax(rest.get(..1).unwrap_or("$end")));
            }
            steps.push(Step::Key(rest[..end].to_owned()));
            rest = &rest[end..];
        } else {
            return Err(syntax(rest.get(..1).unwrap_or("character")));
        }
        rest = rest.trim_start();
    }
    if steps.is_empty() { Err(syntax("$end")) } else { Ok(steps) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(text: &str) -> Result<Vec<String>, Malformed> {
        let mut all = Vec::new();
        each_member(text.as_bytes(), &mut |key, value| {
            all.push(format!("{}:{value:?}", String::from_utf8_lossy(key.raw)));
            Ok(Flow::Continue)
        })?;
        Ok(all)
    }

    #[test]
    fn members_of_every_kind() {
        let found =
            members(r#" { "a" : "x\"y" ,"b":-1.5e3,"c":true,"d":null,"e":{"f":["}"]},"g":[1,[2]]} junk"#);
        let names: Vec<String> = found.unwrap().iter().map(|m| m[..1].to_owned()).collect();
        assert_eq!(names.join(""), "abcdeg");
        assert!(members("{}").unwrap().is_empty());
        assert_eq!(members(r#"{"a":1,}"#).unwrap().len(), 1);
        for (bad, words) in
            [(r#"{"a":1"#, NO_ARRAY), ("x", NO_OBJECT), ("{", NO_JSON), (r#"{"a":1 2}"#, NO_OBJECT)]
        {
            assert_eq!(members(bad).unwrap_err(), words, "{bad}");
        }
        for bad in
            ["", "x", "[1]", "{", r#"{"a"}"#, r#"{"a":}"#, r#"{"a":1"#, r#"{"a":"x}"#, r#"{"a":{}"#, "{a:1}"]
        {
            assert!(members(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_end_of_a_string_is_found_at_any_place() {
        for length in 0..40 {
            for end in 0..length {
                for byte in [b'"', b'\\'] {
                    let mut text = vec![b'!'; length];
                    text[end] = byte;
                    assert_eq!(quote_or_backslash(&text, 0), Some(end));
                    assert_eq!(quote_or_backslash(&text, end + 1), None);
                }
            }
        }
        assert_eq!(
            quote_or_backslash(b"#]#]#]#]#\"", 0),
            Some(9),
            "bytes next to the wanted ones in value do not match"
        );
    }

    #[test]
    fn paths_select_members_and_elements() {
        let text = br#"{"a":{"b c":[10,{"d":"x"}]},"e":1}"#;
        let get = |path: &str| find(text, &parse_path(path).unwrap()).unwrap();
        assert_eq!(get(r#"a["b c"][1].d"#), Some(Value::String(b"x")));
        assert_eq!(get("e"), Some(Value::Number(b"1")));
        assert_eq!((get("a.x"), get("e.x"), get(r#"a["b c"][7]"#)), (None, None, None));
        for bad in ["", "user[", "a..b", "a[x]", "1a", "a b"] {
            assert!(parse_path(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn escapes_are_decoded() {
        let unescape = |raw: &str| {
            let mut out = Vec::new();
            append_unescaped(&mut out, raw.as_bytes()).then(|| String::from_utf8(out).unwrap())
        };
        assert_eq!(unescape(r#"a\"\\\/\n\u00e9\ud83d\ude00"#).as_deref(), Some("a\"\\/\né😀"));
        assert_eq!(unescape(r"\ud83d!").as_deref(), Some(" !"));
        assert_eq!((unescape(r"\q"), unescape(r"\u12"), unescape("\\")), (None, None, None));
    }
}
