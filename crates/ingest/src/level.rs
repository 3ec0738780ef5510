//! Detection of an entry's level, with Loki's rules.
//!
//! The first of these decides: a label of the stream with one of [`LEVEL_KEYS`]; structured metadata with
//! such a name; OTLP's `severity_number`; a field of a JSON line; a field of a logfmt line; the first
//! standalone level word of the line. If a label or metadata value is no known level, `detected_level`
//! becomes that value. If the value of a field is no known level, the line is searched for words. Only if all
//! this finds nothing are the forms of loggers looked at that Loki does not know (`short_level`).

use sandur_model::{Labels, Level};

use crate::level_json::Field;
use crate::level_keys::LEVEL_KEYS;
use crate::{level_json, level_logfmt};

/// Name of the metadata that carries OTLP's severity.
pub(crate) const SEVERITY_NUMBER: &str = "severity_number";

/// Returns the level that a value names; case is ignored.
pub(crate) fn level_named(value: &[u8]) -> Option<Level> {
    const NAMES: [(&str, Level); 14] = [
        ("info", Level::Info),
        ("error", Level::Error),
        ("warn", Level::Warn),
        ("debug", Level::Debug),
        ("warning", Level::Warn),
        ("err", Level::Error),
        ("inf", Level::Info),
        ("wrn", Level::Warn),
        ("dbg", Level::Debug),
        ("trace", Level::Trace),
        ("trc", Level::Trace),
        ("critical", Level::Critical),
        ("fatal", Level::Fatal),
        ("information", Level::Info),
    ];
    let named = NAMES.iter().find(|(name, _)| value.eq_ignore_ascii_case(name.as_bytes()));
    named.map(|&(_, level)| level)
}

/// Returns the level that a label or metadata value names; `None` for any other value.
pub(crate) fn level_of_value(value: &[u8]) -> Option<Level> {
    level_named(value).or_else(|| (value == Level::Unknown.as_str().as_bytes()).then_some(Level::Unknown))
}

/// The level that the labels of a stream give to its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LabelLevel {
    /// No label names a level: the entry decides.
    Silent,
    /// All entries have this level.
    Known(Level),
    /// The value of this label is no known level.
    Other(&'static str),
}

/// Returns the level that the labels of a stream give to its entries.
pub(crate) fn label_level(labels: &Labels) -> LabelLevel {
    let found = LEVEL_KEYS.iter().find_map(|key| Some((key, labels.get(key)?)));
    match found {
        None => LabelLevel::Silent,
        Some((key, value)) => {
            level_of_value(value.as_bytes()).map_or(LabelLevel::Other(key), LabelLevel::Known)
        }
    }
}

/// Returns the level of OTLP's `severity_number`, given as decimal text.
pub(crate) fn severity_level(number: &[u8]) -> Level {
    let number = std::str::from_utf8(number).ok().and_then(|n| n.parse::<i64>().ok());
    match number {
        None => Level::Info,
        Some(0) => Level::Unknown,
        Some(..=4) => Level::Trace,
        Some(5..=8) => Level::Debug,
        Some(9..=12) => Level::Info,
        Some(13..=16) => Level::Warn,
        Some(17..=20) => Level::Error,
        Some(21..=24) => Level::Fatal,
        Some(_) => Level::Unknown,
    }
}

/// Returns the level that the line itself names.
pub(crate) fn line_level(line: &[u8]) -> Level {
    let named = if level_json::looks_like_json(line) {
        match level_json::level_field(line) {
            Some(Field::Text(text)) => level_named(text),
            Some(Field::Number(number)) => match word_level(line) {
                Level::Unknown => return level_of_number(number),
                level => Some(level),
            },
            None => None,
        }
    } else if memchr::memchr(b'=', line).is_some() {
        level_logfmt::level_field(line).and_then(level_named)
    } else {
        None
    };
    match named.unwrap_or_else(|| word_level(line)) {
        Level::Unknown => short_level(line),
        level => level,
    }
}

/// Returns the level of a number in a JSON line, as pino and bunyan write it.
fn level_of_number(number: &[u8]) -> Level {
    match number {
        b"10" => Level::Trace,
        b"20" => Level::Debug,
        b"30" => Level::Info,
        b"40" => Level::Warn,
        b"50" => Level::Error,
        b"60" => Level::Fatal,
        _ => Level::Unknown,
    }
}

/// Returns the level of a line in which Loki finds none: .NET's console and java.util.logging begin a line
/// with a word of their own, and Serilog ends a bracket near the start with three letters.
fn short_level(line: &[u8]) -> Level {
    /// Number of bytes in which a bracket is searched.
    const LOOK_BYTES: usize = 64;
    const STARTS: [(&[u8], Level); 7] = [
        (b"fail:", Level::Error),
        (b"crit:", Level::Critical),
        (b"dbug:", Level::Debug),
        (b"trce:", Level::Trace),
        (b"SEVERE:", Level::Error),
        (b"FINE:", Level::Debug),
        (b"PANIC:", Level::Fatal),
    ];
    // The level of java.util.logging is at the start of the second line of its records.
    let second = || memchr::memchr(b'\n', line).map_or(&b""[..], |at| &line[at + 1..]);
    for text in [line, second()] {
        if let Some((_, level)) = STARTS.iter().find(|(start, _)| text.starts_with(start)) {
            return *level;
        }
    }
    let begin = &line[..line.len().min(LOOK_BYTES)];
    let short = |end: usize| {
        let word = begin.get(end.checked_sub(3)?..end)?;
        let is_alone = matches!(begin.get(end.checked_sub(4)?), Some(b'[' | b' '));
        match word {
            _ if !is_alone || !word.iter().all(u8::is_ascii_uppercase) => None,
            b"VRB" => Some(Level::Trace),
            b"FTL" => Some(Level::Fatal),
            _ => level_named(word),
        }
    };
    memchr::memchr(b']', begin).and_then(short).unwrap_or(Level::Unknown)
}

/// The byte may precede a level word.
const LEFT: u8 = 1;
/// The byte may follow a level word.
const RIGHT: u8 = 2;
/// The byte may be the first letter of a level word.
const FIRST: u8 = 4;

/// The classes of each byte. A colon may follow a word (`error: ...`) but not precede one (`misc:error`).
const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let (left, right, first) = (b" \t\n[({\"'=|", b" \t\n[](){}:,!\"'=|", b"tdfcewiTDFCEWI");
    let mut n = 0;
    while n < left.len() {
        class[left[n] as usize] |= LEFT;
        n += 1;
    }
    n = 0;
    while n < right.len() {
        class[right[n] as usize] |= RIGHT;
        n += 1;
    }
    n = 0;
    while n < first.len() {
        class[first[n] as usize] |= FIRST;
        n += 1;
    }
    class
};

/// Returns the level of the first standalone level word of a line.
fn word_level(line: &[u8]) -> Level {
    let mut before = LEFT; // the start of the line is a boundary
    for (at, &byte) in line.iter().enumerate() {
        let class = CLASS[byte as usize];
        if before & LEFT != 0
            && class & FIRST != 0
            && let Some(level) = word_at(&line[at..])
        {
            return level;
        }
        before = class;
    }
    Level::Unknown
}

/// Returns the level word that the text begins with, if a boundary follows it.
fn word_at(text: &[u8]) -> Option<Level> {
    let (word, level): (&[u8], Level) = match text[0] | 0x20 {
        b't' => (b"trace", Level::Trace),
        b'd' => (b"debug", Level::Debug),
        b'f' => (b"fatal", Level::Fatal),
        b'c' => (b"critical", Level::Critical),
        b'e' if text.get(3).is_some_and(|b| b | 0x20 == b'o') => (b"error", Level::Error),
        b'e' => (b"err", Level::Error),
        b'w' if text.get(4).is_some_and(|b| b | 0x20 == b'i') => (b"warning", Level::Warn),
        b'w' => (b"warn", Level::Warn),
        _ => (b"info", Level::Info),
    };
    let stands = text.get(..word.len())?.eq_ignore_ascii_case(word)
        && text.get(word.len()).is_none_or(|&after| CLASS[after as usize] & RIGHT != 0);
    stands.then_some(level)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::level_keys::level_key_rank;

    #[test]
    fn the_level_is_detected_from_a_line() {
        use Level::{Critical, Debug, Error, Fatal, Info, Trace, Unknown, Warn};
        for (line, level) in [
            // words
            ("", Unknown),
            ("nothing to see", Unknown),
            ("this is a warning log", Warn),
            ("WARN: hot", Warn),
            ("[err] broken", Error),
            ("2026-01-01 10:00:00.000  INFO 12 --- [main] c.e.ErrorController : handling error", Info),
            ("2026/01/01 10:00:00 [error] 12#12: *1 connect() failed", Error),
            ("warning: degraded, info follows", Warn),
            ("misc:error [info] processed", Info),
            ("fooerror errorbar misc:error error_code", Unknown),
            ("information is available", Unknown),
            ("a terror attack with errors", Unknown),
            ("stack_trace printed, trace_id unknown", Unknown),
            ("it was fatal!", Fatal),
            ("(critical) and more", Critical),
            ("x|DEBUG|y", Debug),
            ("at the end: trace", Trace),
            ("warnings warned", Unknown),
            ("erro", Unknown),
            ("er", Unknown),
            ("err", Error),
            ("10.0.0.1 - - \"GET /api/error-handler HTTP/1.1\" 500", Unknown),
            ("a\tinfo\tb", Info),
            ("schön: info", Info),
            // JSON
            (r#"{"msg":"an error but","level":"critical"}"#, Critical),
            (r#"{"MSG":"an error but","LEVEL":"Critical"}"#, Critical),
            (r#"{"msg":"warn","SEVERITY":"FATAL"}"#, Fatal),
            (r#"{"level":"ERR"}"#, Error),
            (r#"{"msg":"with INFO inside"}"#, Info),
            (r#"{"error":"something"}"#, Error),
            (r#"{"errorCode":123}"#, Unknown),
            (r#"{"level":"odd","msg":"a warn b"}"#, Warn),
            // logfmt
            (r#"foo=bar msg="an error but" level=warn"#, Warn),
            (r#"foo=bar msg="an error but" LEVEL=inFO"#, Info),
            (r#"foo=bar Severity=critical"#, Critical),
            (r#"foo=bar level=Information"#, Info),
            (r#"foo=bar level=NA"#, Unknown),
            (r#"foo=bar msg="a word: info here""#, Info),
            ("errorCode=123", Unknown),
            ("error=something", Error),
            ("event='User logged in' level='info' timestamp='x'", Info),
            // Loggers whose words Loki does not know
            (r#"{"level":10,"msg":"x"}"#, Trace),
            (r#"{"level":50,"time":1768370503250,"msg":"x"}"#, Error),
            (r#"{"level":60,"msg":"warn: x"}"#, Warn),
            (r#"{"level":3,"msg":"x"}"#, Unknown),
            (r#"{"level":30,"a":{"level":"error"}}"#, Error),
            ("[12:00:01 INF] Started", Info),
            ("2026-01-14 06:01:43.123 +01:00 [FTL] x", Fatal),
            ("[WRN]", Warn),
            ("x [a INFX] [INF]", Unknown),
            ("INF]", Unknown),
            ("fail: Microsoft.AspNetCore.Server[13]", Error),
            ("fail over is done", Unknown),
            ("Jan 14, 2026 6:01:43 AM com.example.Main run\nSEVERE: x", Error),
            ("2026-01-14 x\nyes", Unknown),
        ] {
            assert_eq!(line_level(line.as_bytes()), level, "{line}");
        }
        assert_eq!(line_level(b"\xff\xfe error \xff"), Error);
    }

    #[test]
    fn every_level_name_and_abbreviation_is_recognized() {
        for (value, level) in [
            ("trace", Level::Trace),
            ("TRC", Level::Trace),
            ("Debug", Level::Debug),
            ("dbg", Level::Debug),
            ("info", Level::Info),
            ("INF", Level::Info),
            ("Information", Level::Info),
            ("warn", Level::Warn),
            ("wrn", Level::Warn),
            ("WARNING", Level::Warn),
            ("error", Level::Error),
            ("ERR", Level::Error),
            ("critical", Level::Critical),
            ("FATAL", Level::Fatal),
        ] {
            assert_eq!(level_named(value.as_bytes()), Some(level), "{value}");
        }
        for value in ["", "notice", "informational", "unknown", "errors"] {
            assert_eq!(level_named(value.as_bytes()), None, "{value}");
        }
    }

    #[test]
    fn the_label_with_the_highest_rank_decides() {
        let level = |text: &str| label_level(&Labels::parse(text).unwrap());
        assert_eq!(level(r#"{app="a"}"#), LabelLevel::Silent);
        assert_eq!(level(r#"{level="ERROR"}"#), LabelLevel::Known(Level::Error));
        assert_eq!(level(r#"{severity="info", level="warn"}"#), LabelLevel::Known(Level::Warn));
        assert_eq!(level(r#"{level="unknown"}"#), LabelLevel::Known(Level::Unknown));
        assert_eq!(level(r#"{level="notice"}"#), LabelLevel::Other("level"));
        assert_eq!(level(r#"{lEvel="info"}"#), LabelLevel::Silent);
        for (rank, key) in LEVEL_KEYS.iter().enumerate() {
            assert_eq!(level_key_rank(key.as_bytes()), Some(rank));
        }
        assert_eq!(level_key_rank(b"lvL"), None);
        assert_eq!(level_key_rank(b""), None);
    }

    #[test]
    fn severity_numbers_map_to_levels() {
        let bands = [(0, "unknown"), (1, "trace"), (4, "trace"), (5, "debug"), (8, "debug"), (9, "info")];
        let more = [(12, "info"), (13, "warn"), (16, "warn"), (17, "error"), (20, "error"), (21, "fatal")];
        for (number, name) in bands.into_iter().chain(more).chain([(24, "fatal"), (25, "unknown")]) {
            assert_eq!(severity_level(number.to_string().as_bytes()).as_str(), name, "{number}");
        }
        assert_eq!(severity_level(b"nonsense"), Level::Info);
    }

    /// A simple implementation of the rules, to compare with.
    fn word_level_plainly(line: &str) -> Level {
        let line = line.to_ascii_lowercase();
        let boundary = |byte: Option<u8>, set: &[u8]| byte.is_none_or(|b| set.contains(&b));
        let words = ["trace", "debug", "fatal", "critical", "error", "err", "warning", "warn", "info"];
        let found = words.into_iter().flat_map(|word| line.match_indices(word)).filter(|(at, word)| {
            let before = at.checked_sub(1).map(|b| line.as_bytes()[b]);
            let after = line.as_bytes().get(at + word.len()).copied();
            boundary(before, b" \t\n[({\"'=|") && boundary(after, b" \t\n[](){}:,!\"'=|")
        });
        let first = found.min_by_key(|(at, _)| *at);
        first.map_or(Level::Unknown, |(_, word)| level_named(word.as_bytes()).unwrap())
    }

    proptest! {
        #[test]
        fn the_fast_word_search_agrees_with_the_simple_one(
            words in proptest::collection::vec(
                "info|INFO|err|Error|warn|warning|debug|trace|fatal|critical|x|[ :,.=|\\[\\]()!\"'_-]{1,2}",
                0..12,
            ),
        ) {
            let line = words.concat();
            prop_assert_eq!(word_level(line.as_bytes()), word_level_plainly(&line), "{}", line);
        }
    }
}
