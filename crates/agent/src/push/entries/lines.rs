//! The form of one line, without its context.

use super::words::Words;

/// Number of bytes of spaces and tabs at the start.
pub fn indentation(line: &[u8]) -> usize {
    line.iter().take_while(|b| matches!(b, b' ' | b'\t')).count()
}

/// Only closing brackets and punctuation: `}`, `});`, `],`.
pub fn is_closing(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    matches!(text.first(), Some(b'}' | b']' | b')')) && text.iter().all(|b| b"}]);,".contains(b))
}

/// `at com.example.A.run(A.java:7)`, `at /app/index.js:3:9`.
pub fn is_at_frame(line: &[u8]) -> bool {
    let Some(text) = line.trim_ascii().strip_prefix(b"at ") else { return false };
    let text = text.strip_prefix(b"async ").or_else(|| text.strip_prefix(b"new ")).unwrap_or(text);
    let Some(bracket) = memchr::memchr(b'(', text) else {
        // A place alone.
        return text.last().is_some_and(u8::is_ascii_digit) && text.contains(&b':') && !text.contains(&b' ');
    };
    let is_end = text.ends_with(b")") || memchr::memmem::find(text, b") in ").is_some();
    is_end && !text[..bracket].trim_ascii_end().contains(&b' ')
}

/// `Caused by: ...`, `Suppressed: ...`, `... 12 more`.
pub fn is_cause(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    let more = |text: &[u8]| {
        text.strip_prefix(b"... ").is_some_and(|rest| {
            let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
            digits > 0 && matches!(&rest[digits..], b" more" | b" common frames omitted")
        })
    };
    ["Caused by: ", "Suppressed: ", "Wrapped by: "].iter().any(|mark| text.starts_with(mark.as_bytes()))
        || more(text)
}

/// `--- End of inner exception stack trace ---`.
pub fn is_end_of_dotnet_trace(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    text.starts_with(b"--- End of ") && text.ends_with(b" ---")
}

/// `#0 /app/a.php(3): f()`, `#1  0x00007f in main () at a.c:3`, `Stack trace:`.
pub fn is_numbered_frame(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    let is_frame = text.strip_prefix(b"#").is_some_and(|rest| {
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        digits > 0 && rest.get(digits) == Some(&b' ')
    });
    is_frame || text.eq_ignore_ascii_case(b"stack trace:") || text == b"[stacktrace]"
}

/// `app/a.rb:12:in 'call'`, but not the first line of an error, which has a message.
pub fn is_ruby_frame(line: &[u8]) -> bool {
    matches!(line.trim_ascii().last(), Some(b'\'' | b'`' | b'"')) && is_place_in_ruby(line)
}

/// `app.rb:3:in 'call': text (RuntimeError)`.
pub fn is_ruby_error(line: &[u8]) -> bool {
    line.ends_with(b")") && is_place_in_ruby(line)
}

fn is_place_in_ruby(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    memchr::memmem::find(text, b".rb:").is_some_and(|at| {
        let rest = &text[at + 4..];
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        digits > 0 && rest[digits..].starts_with(b":in ") && !text[..at].contains(&b' ')
    })
}

/// `</item>`.
pub fn is_closing_tag(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    text.starts_with(b"</") && text.ends_with(b">")
}

/// `goroutine 7 [running]:`.
pub fn is_goroutine(line: &[u8]) -> bool {
    line.strip_prefix(b"goroutine ").is_some_and(|rest| {
        rest.first().is_some_and(u8::is_ascii_digit) && rest.ends_with(b"]:") && rest.contains(&b'[')
    })
}

/// `java.lang.IllegalStateException: text`, `System.InvalidOperationException`, `TypeError: text`.
pub fn is_exception(line: &[u8]) -> bool {
    let end = line.iter().position(|b| !(b.is_ascii_alphanumeric() || b"._$:".contains(b)));
    let name = line[..end.unwrap_or(line.len())].trim_ascii_end();
    let follows_colon = name.ends_with(b":");
    let name = name.strip_suffix(b":").unwrap_or(name);
    let is_named = ["Exception", "Error", "Throwable", "Fault", "Interrupt", "Failure"]
        .iter()
        .any(|word| name.ends_with(word.as_bytes()));
    is_named && (follows_colon || end.is_none() || line[end.unwrap_or(0)..].starts_with(b" (0x"))
}

/// The first line of Python's trace.
pub fn is_traceback(line: &[u8]) -> bool {
    line.trim_ascii().ends_with(b"Traceback (most recent call last):")
}

/// Words of severity at the start of lines.
const LEVELS: Words<19> = Words::new([
    "TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "CRITICAL", "FATAL", "SEVERE", "EMERG",
    "ALERT", "CRIT", "ERR", "FINE", "CONFIG", "FAIL", "DBUG", "TRCE",
]);

/// A line that begins with a level, as `INFO text`, `[warn] text`, `level=info`, `<6>text`: it begins an
/// entry even without a time. `Error: text` is the start of a trace of Node and no level.
pub fn has_level(line: &[u8]) -> bool {
    if line.starts_with(b"level=") || line.starts_with(b"severity=") || line.starts_with(b"msg=") {
        return true;
    }
    let priority = line.strip_prefix(b"<").and_then(|rest| rest.iter().position(|b| !b.is_ascii_digit()));
    if priority.is_some_and(|digits| digits > 0 && line[digits + 1] == b'>') {
        return true;
    }
    let bracket = matches!(line.first(), Some(b'[' | b'<' | b'('));
    let text = if bracket { &line[1..] } else { line };
    let letters = text.iter().take(9).take_while(|b| b.is_ascii_alphabetic()).count();
    let (word, rest) = text.split_at(letters);
    if !LEVELS.have(word) {
        return false;
    }
    let is_one_case = word.iter().all(u8::is_ascii_uppercase) || word.iter().all(u8::is_ascii_lowercase);
    let is_title = !is_one_case && !word.eq_ignore_ascii_case(b"error");
    match rest.first() {
        Some(b':') => is_one_case || is_title,
        Some(b']' | b'>' | b')') => bracket,
        Some(b' ' | b'\t' | b'|') => word.iter().all(u8::is_ascii_uppercase) || bracket,
        _ => false,
    }
}

/// A request in the common log format, which has no details on other lines.
pub fn is_request(line: &[u8]) -> bool {
    let Some(at) = memchr::memmem::find(line, b" HTTP/") else { return false };
    line[at..].iter().take(12).any(|b| *b == b'"')
}

/// The last line of an entry.
pub fn last_of(entry: &[u8]) -> &[u8] {
    memchr::memrchr(b'\n', entry).map_or(entry, |at| &entry[at + 1..])
}
