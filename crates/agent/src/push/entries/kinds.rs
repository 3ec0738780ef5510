//! The kinds of entries of several lines, and of lines that continue any entry.
//!
//! To add a kind: one row here, and a text of it in the tests. The rows make the reference page, in which
//! their order is that of the tests that a line passes.

use serde::{Deserialize, Serialize};

use super::lines::{
    is_at_frame, is_cause, is_closing, is_closing_tag, is_end_of_dotnet_trace, is_exception, is_goroutine,
    is_numbered_frame, is_ruby_error, is_ruby_frame, is_traceback, last_of,
};
use super::words::Words;

/// A form of lines that continue the entry before them, whatever it is.
pub struct LineKind {
    /// Its name in the reference.
    pub name: &'static str,
    /// A line.
    pub example: &'static str,
    /// Whether a line has this form.
    pub is: fn(&[u8]) -> bool,
}

/// Forms of lines that continue any entry. Indented lines, which also do, are recognised by the joiner.
pub static MARKS: &[LineKind] = &[
    LineKind {
        name: "frames of Java, .NET and Node",
        example: "at com.example.A.run(A.java:7)",
        is: is_at_frame,
    },
    LineKind { name: "causes in Java", example: "Caused by: java.io.IOException: text", is: is_cause },
    LineKind {
        name: "ends of traces in .NET",
        example: "--- End of inner exception stack trace ---",
        is: is_end_of_dotnet_trace,
    },
    LineKind { name: "frames of PHP, C and C++", example: "#0 /app/a.php(3): f()", is: is_numbered_frame },
    LineKind { name: "frames of Ruby", example: "app/a.rb:12:in 'call'", is: is_ruby_frame },
    LineKind { name: "closing brackets", example: "});", is: is_closing },
    LineKind { name: "closing tags", example: "</item>", is: is_closing_tag },
];

/// Forms of lines that begin an entry, even if they have no time and others have one.
pub static HEADS: &[LineKind] = &[
    LineKind {
        name: "uncaught exceptions of Java and .NET",
        example: "Exception in thread \"main\" java.io.IOException: text",
        is: |line| {
            let starts = [&b"Exception in thread \""[..], b"Unhandled exception", b"Unhandled Exception"];
            starts.iter().any(|start| line.starts_with(start))
        },
    },
    LineKind {
        name: "errors of PHP",
        example: "PHP Fatal error:  Uncaught Exception: text in /app/a.php:3",
        is: |line| line.starts_with(b"PHP "),
    },
    LineKind {
        name: "uncaught errors of Ruby",
        example: "app.rb:3:in 'call': text (RuntimeError)",
        is: is_ruby_error,
    },
];

/// Whether the line has one of [`MARKS`]. Most lines are told from them by their first and last bytes.
pub fn has_mark(line: &[u8]) -> bool {
    let first = line.trim_ascii_start().first().is_some_and(|b| b"aCSWs.-#[}])<".contains(b));
    let last = line.trim_ascii_end().last().is_some_and(|b| b"'`\"".contains(b));
    (first || last) && MARKS.iter().any(|mark| (mark.is)(line))
}

/// A kind of entries with lines of its own.
pub struct EntryKind {
    /// The kind.
    pub id: Kind,
    /// Its name in the reference.
    pub name: &'static str,
    /// Which lines belong to it.
    pub about: &'static str,
    /// By which of its bytes a line may begin an entry of the kind.
    mark: Mark,
    /// Whether an entry with this first line is of the kind.
    pub begins: fn(&[u8]) -> bool,
    /// Whether such a line continues an entry that has a time or a level, whose text so far is given first,
    /// and which then becomes one of this kind. Otherwise the line begins an entry.
    pub may_follow: fn(&[u8], &[u8]) -> bool,
    /// Whether the line continues the entry, whose text so far is given.
    pub continues: fn(&mut Inside, &[u8], &[u8]) -> bool,
}

/// The identity of a kind, which a resume point stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Pretty-printed JSON.
    Json,
    /// Python's traces.
    Python,
    /// Go's panics and dumps.
    Go,
    /// Uncaught errors of Node.
    Node,
    /// Panics of Rust.
    Rust,
    /// Thread dumps of Java.
    ThreadDump,
    /// Records of `java.util.logging`.
    JavaLogging,
    /// Documents in YAML.
    Yaml,
    /// Statements in SQL.
    Sql,
}

/// What is known of the entry of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inside {
    /// The kind.
    pub kind: Kind,
    /// Number of open brackets in JSON; of an error of Node, number of lines after the first.
    pub depth: u32,
    /// Whether the last line that the kind requires was seen.
    pub is_complete: bool,
}

impl Inside {
    /// At the first line of an entry, if it is of a kind.
    pub fn at(first: &[u8]) -> Option<Self> {
        let bytes = Bytes::of(first);
        let kind = KINDS.iter().find(|kind| kind.may_begin(bytes) && (kind.begins)(first))?;
        Some(Self::new(kind.id, first))
    }

    /// At a line that continues a statement whose start is somewhere in the first line of the entry.
    pub fn in_statement(first: &[u8], entry: &[u8], line: &[u8]) -> Option<Self> {
        let mut inside = Self { kind: Kind::Sql, depth: 0, is_complete: false };
        let last = if entry.len() == first.len() { first } else { last_of(entry) };
        (continues_statement(&mut inside, last, line) && contains_statement(first)).then_some(inside)
    }

    /// Whether the line, which is at the start of the kind, continues an entry with a time or level.
    pub fn may_follow(&self, entry: &[u8], line: &[u8]) -> bool {
        KINDS.iter().any(|kind| kind.id == self.kind && (kind.may_follow)(entry, line))
    }

    fn new(kind: Kind, first: &[u8]) -> Self {
        let depth = if kind == Kind::Json { depth_after(0, first) } else { 0 };
        Self { kind, depth, is_complete: false }
    }

    /// Whether lines of the entry may begin with a level.
    pub fn has_levels(&self) -> bool {
        self.kind == Kind::JavaLogging
    }

    /// Whether other lines than its own can be told from it: a message of an exception may have any.
    pub fn has_clear_end(&self) -> bool {
        !matches!(self.kind, Kind::Python | Kind::JavaLogging | Kind::Rust)
    }

    /// Whether the line continues the entry, whose text so far is given.
    pub fn continues(&mut self, entry: &[u8], line: &[u8]) -> bool {
        KINDS.iter().find(|kind| kind.id == self.kind).is_some_and(|kind| (kind.continues)(self, entry, line))
    }
}

/// The bytes by which a line may begin an entry of a kind. Most lines are told from all kinds by them.
enum Mark {
    /// One of these is the first byte.
    First(&'static [u8]),
    /// This is the last byte that is not a space.
    Last(u8),
    /// A digit is the last one.
    LastDigit,
    /// Any bytes.
    Any,
}

/// The first byte of a line, and its last one that is not a space.
#[derive(Clone, Copy)]
struct Bytes {
    first: u8,
    last: u8,
}

impl Bytes {
    /// Of an empty line they are zeros.
    fn of(line: &[u8]) -> Self {
        let last = line.trim_ascii_end().last().copied().unwrap_or_default();
        Self { first: line.first().copied().unwrap_or_default(), last }
    }
}

impl EntryKind {
    fn may_begin(&self, Bytes { first, last }: Bytes) -> bool {
        match self.mark {
            Mark::First(any) => any.contains(&first),
            Mark::Last(byte) => byte == last,
            Mark::LastDigit => last.is_ascii_digit(),
            Mark::Any => true,
        }
    }
}

/// All kinds.
pub static KINDS: &[EntryKind] = &[
    EntryKind {
        id: Kind::Json,
        name: "pretty-printed JSON",
        about: "from a line that begins with `{`, or is `[`, to the bracket that closes it",
        mark: Mark::First(b"{["),
        begins: |line| (line.starts_with(b"{") || line == b"[") && depth_after(0, line) > 0,
        may_follow: |_, _| false,
        continues: continues_json,
    },
    EntryKind {
        id: Kind::Python,
        name: "traces of Python",
        about: "from `Traceback (most recent call last):` to the line with the exception, with the traces \
                that the exception names as its cause",
        mark: Mark::Last(b':'),
        begins: is_traceback,
        may_follow: |_, _| true,
        continues: continues_python,
    },
    EntryKind {
        id: Kind::Go,
        name: "panics and dumps of goroutines in Go",
        about: "from `panic: `, `fatal error: ` or `goroutine N [..]:`: functions with their places, \
                registers, `created by`, `exit status`",
        mark: Mark::First(b"pfg"),
        begins: |line| {
            line.starts_with(b"panic: ") || line.starts_with(b"fatal error: ") || is_goroutine(line)
        },
        may_follow: |_, line| is_goroutine(line),
        continues: continues_go,
    },
    EntryKind {
        id: Kind::Node,
        name: "uncaught errors of Node",
        about: "from the place of the error to `Node.js v..`",
        mark: Mark::LastDigit,
        begins: is_place_of_script,
        may_follow: |_, _| false,
        continues: continues_node,
    },
    EntryKind {
        id: Kind::Rust,
        name: "panics of Rust",
        about: "`thread '..' panicked at ..`, the message, notes and frames",
        mark: Mark::First(b"t"),
        begins: |line| {
            line.starts_with(b"thread '") && memchr::memmem::find(line, b" panicked at ").is_some()
        },
        may_follow: |_, _| false,
        continues: |_, entry, line| {
            let is_message = !entry.contains(&b'\n') && entry.ends_with(b":");
            is_message || line.starts_with(b"note: ") || line.starts_with(b"stack backtrace:")
        },
    },
    EntryKind {
        id: Kind::ThreadDump,
        name: "thread dumps of Java",
        about: "from `Full thread dump`, also after a line with only a time: threads with their frames, \
                found deadlocks, the heap",
        mark: Mark::First(b"F"),
        begins: |line| line.starts_with(b"Full thread dump"),
        may_follow: |entry, _| entry.iter().all(|b| b.is_ascii_digit() || b" -:.,TZ[]/+".contains(b)),
        continues: continues_thread_dump,
    },
    EntryKind {
        id: Kind::JavaLogging,
        name: "records of java.util.logging",
        about: "`Jan 14, 2026 6:01:43 AM ..` and the line after it",
        mark: Mark::Any,
        begins: is_java_logging,
        may_follow: |_, _| false,
        continues: |inside, _, _| !std::mem::replace(&mut inside.is_complete, true),
    },
    EntryKind {
        id: Kind::Yaml,
        name: "documents in YAML",
        about: "from `---` to the next one, or to `...`",
        mark: Mark::First(b"-"),
        begins: |line| line == b"---" || line.starts_with(b"--- #"),
        may_follow: |_, _| false,
        continues: continues_yaml,
    },
    EntryKind {
        id: Kind::Sql,
        name: "statements in SQL",
        about: "from a statement's first word, at the start of the line or after a time, to a semicolon: \
                lines that begin with a word of SQL, or follow a comma or an opening bracket",
        mark: Mark::First(b"SIUDWCAMREsid"),
        begins: |line| is_statement_at(line, 0) || starts_with_statement_in_lower_case(line),
        may_follow: |_, _| false,
        continues: continues_sql,
    },
];

/// `Jan 14, 2026 6:01:43 AM com.example.Main run`.
fn is_java_logging(line: &[u8]) -> bool {
    /// Bytes of the longest such time.
    const TIME_BYTES_MAX: usize = 28;
    let is_date = line.get(3) == Some(&b' ') && matches!(line.get(5..7), Some([b',', _] | [_, b',']));
    let time = &line[..line.len().min(TIME_BYTES_MAX)];
    is_date && time.windows(4).any(|w| matches!(w, [b' ', b'A' | b'P', b'M', b' ']))
}

/// The number of brackets that are open after a line of JSON; strings do not continue on the next line.
fn depth_after(mut depth: u32, line: &[u8]) -> u32 {
    let (mut is_string, mut is_escaped) = (false, false);
    for byte in line {
        match (is_string, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => is_string = !is_string,
            (false, b'{' | b'[') => depth = depth.saturating_add(1),
            (false, b'}' | b']') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    depth
}

fn continues_json(inside: &mut Inside, entry: &[u8], line: &[u8]) -> bool {
    let follows_opening = || last_of(entry).trim_ascii_end().last().is_some_and(|b| b"[,:".contains(b));
    let is_part = match line.first() {
        Some(b' ' | b'\t' | b'}' | b']' | b'"') => true,
        // Without indentation, elements of an array.
        Some(b'{' | b'[' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => follows_opening(),
        _ => false,
    };
    if inside.depth == 0 || !is_part {
        return false;
    }
    inside.depth = depth_after(inside.depth, line);
    true
}

fn continues_python(inside: &mut Inside, _: &[u8], line: &[u8]) -> bool {
    const CHAINS: [&[u8]; 2] = [
        b"During handling of the above exception, another exception occurred:",
        b"The above exception was the ",
    ];
    if line.starts_with(b" ") || line.starts_with(b"\t") {
        return true;
    }
    if CHAINS.iter().any(|chain| line.starts_with(chain)) {
        inside.is_complete = false;
        return true;
    }
    if is_traceback(line) {
        return !inside.is_complete;
    }
    // The first line without indentation is the exception.
    !std::mem::replace(&mut inside.is_complete, true)
}

fn continues_go(_: &mut Inside, _: &[u8], line: &[u8]) -> bool {
    const STARTS: [&str; 10] = [
        "created by ",
        "panic(",
        "exit status ",
        "[signal ",
        "runtime stack:",
        "[originating from ",
        "PC=",
        "SIG",
        "...additional frames elided...",
        "goroutine running on other thread",
    ];
    let is_register = || {
        let word = line.iter().take_while(|b| b.is_ascii_alphanumeric()).count();
        (2..=6).contains(&word) && line[word..].trim_ascii().starts_with(b"0x")
    };
    let is_call = || {
        let name = line.iter().position(|b| *b == b'(');
        name.is_some_and(|at| at > 0 && !line[..at].contains(&b' ') && line[..at].contains(&b'.'))
            && line.ends_with(b")")
    };
    STARTS.iter().any(|start| line.starts_with(start.as_bytes()))
        || is_goroutine(line)
        || is_call()
        || is_register()
}

fn continues_thread_dump(_: &mut Inside, _: &[u8], line: &[u8]) -> bool {
    const STARTS: [&str; 9] = [
        "\"",
        "JNI global ref",
        "Found ",
        "====",
        "Java stack information",
        "Threads class SMR info",
        "0x",
        "Heap",
        "_java_thread_list",
    ];
    STARTS.iter().any(|start| line.starts_with(start.as_bytes()))
}

/// `/app/index.js:3`, `node:internal/modules/cjs/loader:1078`.
fn is_place_of_script(line: &[u8]) -> bool {
    let digits = line.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let Some(path) = line[..line.len() - digits].strip_suffix(b":").filter(|_| digits > 0) else {
        return false;
    };
    let is_script = || [".js", ".mjs", ".cjs", ".ts"].iter().any(|end| path.ends_with(end.as_bytes()));
    !path.contains(&b' ') && (path.starts_with(b"node:internal/") || is_script())
}

fn continues_node(inside: &mut Inside, _: &[u8], line: &[u8]) -> bool {
    if line.starts_with(b"Node.js v") {
        return true;
    }
    if inside.is_complete {
        return false;
    }
    // The quoted source and a mark below it, then the error, whatever was thrown. Of carried lines, the text
    // has the first and the last one only, so the lines are counted here.
    inside.depth = inside.depth.saturating_add(1);
    inside.is_complete = is_exception(line) || inside.depth > 2;
    true
}

fn continues_yaml(inside: &mut Inside, _: &[u8], line: &[u8]) -> bool {
    if inside.is_complete || line == b"---" || line.starts_with(b"--- ") {
        return false;
    }
    if line == b"..." {
        inside.is_complete = true;
        return true;
    }
    let is_key = || {
        let colon = memchr::memchr(b':', line);
        colon.is_some_and(|at| at > 0 && matches!(line.get(at + 1), None | Some(b' ')))
            && !line[..colon.unwrap_or(0)].contains(&b' ')
    };
    line.starts_with(b"- ") || line == b"-" || line.starts_with(b"#") || is_key()
}

/// First words of statements.
const STATEMENTS: [&str; 10] =
    ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "CREATE", "ALTER", "MERGE", "REPLACE", "EXPLAIN"];

/// Whether a first word of a statement, in capitals, is at this place.
fn is_statement_at(line: &[u8], at: usize) -> bool {
    STATEMENTS.iter().any(|word| {
        line[at..].starts_with(word.as_bytes())
            && line.get(at + word.len()).is_none_or(|b| matches!(b, b' ' | b'\t' | b'('))
    })
}

fn starts_with_statement_in_lower_case(line: &[u8]) -> bool {
    ["select ", "insert into ", "delete from "].iter().any(|start| line.starts_with(start.as_bytes()))
}

/// Whether a statement in capitals begins after a time, a colon or a quote.
fn contains_statement(line: &[u8]) -> bool {
    /// Number of bytes in which a statement is searched.
    const LOOK_BYTES: usize = 256;
    let line = &line[..line.len().min(LOOK_BYTES)];
    let is_start = |at: &usize| line[*at].is_ascii_uppercase() && b" :\"'=".contains(&line[*at - 1]);
    (1..line.len()).filter(is_start).any(|at| is_statement_at(line, at))
}

fn continues_sql(inside: &mut Inside, entry: &[u8], line: &[u8]) -> bool {
    continues_statement(inside, last_of(entry), line)
}

/// Whether a line continues a statement whose last line so far is given.
fn continues_statement(inside: &mut Inside, last: &[u8], line: &[u8]) -> bool {
    /// Words with which lines of a statement begin.
    const WORDS: Words<34> = Words::new([
        "FROM",
        "WHERE",
        "AND",
        "OR",
        "JOIN",
        "LEFT",
        "RIGHT",
        "INNER",
        "OUTER",
        "FULL",
        "CROSS",
        "ON",
        "USING",
        "GROUP",
        "ORDER",
        "HAVING",
        "LIMIT",
        "OFFSET",
        "SET",
        "VALUES",
        "RETURNING",
        "UNION",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "AS",
        "INTO",
        "FETCH",
        "FOR",
        "WINDOW",
        "EXCEPT",
        "INTERSECT",
    ]);
    let before = last.trim_ascii_end();
    if inside.is_complete || before.ends_with(b";") {
        inside.is_complete = true;
        return false;
    }
    let letters = line.iter().take_while(|b| b.is_ascii_alphabetic()).count();
    let word = &line[..letters];
    let is_one_case = || word.iter().all(u8::is_ascii_uppercase) || word.iter().all(u8::is_ascii_lowercase);
    let follows = || match before.last().map(u8::to_ascii_lowercase) {
        Some(b',' | b'(') => true,
        Some(b'l' | b'n' | b's' | b't') => {
            [&b"ALL"[..], b"UNION", b" AS", b"EXCEPT", b"INTERSECT"].iter().any(|end| {
                before.len() >= end.len() && before[before.len() - end.len()..].eq_ignore_ascii_case(end)
            })
        }
        _ => false,
    };
    let is_open_insert = before.starts_with(b"INSERT") || before.ends_with(b")");
    (WORDS.have(word) && is_one_case())
        || line.starts_with(b"(")
        || line.starts_with(b"--")
        || line.starts_with(b"/*")
        || follows()
        || (is_open_insert && word.eq_ignore_ascii_case(b"SELECT") && is_one_case())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::entries::corpus::file;

    /// Goal: the bytes by which lines are told from the kinds exclude no line that begins one.
    #[test]
    fn a_line_that_begins_a_kind_has_its_bytes() {
        let mut lines: Vec<String> = Vec::new();
        for seed in 0..200 {
            let texts = file(seed).entries.into_iter().map(|entry| entry.text);
            lines.extend(texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()));
        }
        for word in STATEMENTS {
            lines.extend([word.to_owned(), format!("{word} x"), format!("{word}("), format!(" {word}")]);
        }
        let single = [
            "{",
            "[",
            "---",
            "--- # x",
            "panic: x",
            "fatal error: x",
            "goroutine 7 [running]:",
            "/app/a.js:3",
            "node:internal/modules/cjs/loader:1078",
            "thread 'main' panicked at a.rs:3",
            "Full thread dump x",
            "Jan 14, 2026 6:01:43 AM a.B run",
            "ene 14, 2026 6:01:43 AM a.B run",
            "select x",
            "insert into x",
            "delete from x",
            "Traceback (most recent call last):",
            "x Traceback (most recent call last): ",
            "ExceptionGroup Traceback (most recent call last):",
        ];
        lines.extend(single.map(str::to_owned));
        let mut begun = 0;
        for line in &lines {
            for end in ["", " ", "\t"] {
                let line = format!("{line}{end}");
                for kind in KINDS.iter().filter(|kind| (kind.begins)(line.as_bytes())) {
                    begun += 1;
                    assert!(kind.may_begin(Bytes::of(line.as_bytes())), "{}: {line}", kind.name);
                }
            }
        }
        assert!(begun > 500, "{begun}");
    }
}
