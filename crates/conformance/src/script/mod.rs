//! Reads test scripts: rows to load, queries to run, answers to expect.
//!
//! The form is that of Loki's `.logqltest` files. Times are offsets from [`EPOCH_NS`]. A `#` outside of
//! quotes begins a comment. A block of indented lines belongs to the command before it:
//!
//! ```text
//! clear
//! load
//!   {app="a"} "line {{.i}}" @ 10s [repeat every 10s for 6] [metadata k="v"]
//! eval instant at 60s count_over_time({app="a"}[1m])
//!   {app="a", k="v"} 6
//! eval range from 0s to 60s step 30s rate({app="a"}[30s])
//!   {app="a", k="v"} _ 0.1 0.1
//! eval instant at 60s count_over_time({})
//!   expect fail msg: queries require at least one
//! ```
//!
//! Our own additions: `e"…"` in place of a line is a text with escapes (`
//!
//! `, `\"`, `\xff`, `\u{e9}`); `eval aligned` is a range query whose steps are multiples of the step, as
//! Loki's frontend sends it; `expect fail text:` gives the complete error text; and `eval logs` runs a
//! log query. Each row of its answer is written as time, labels of the stream, structured metadata,
//! labels added by stages, line. Empty label sets at the end of this list may be omitted.
//!
//! ```text
//! eval logs from 0s to 60s limit 2 forward {app="a"} |= "line" | label_format x="y"
//!   10s {app="a"} {k="v"} {x="y"} "line 0"
//!   20s {app="a"} {k="v"} {x="y"} "line 1"
//! ```

mod eval;
mod expected;
mod load;
mod text;
mod time;

use sandur_logql::Request;
use sandur_query::MemoryRow;

pub use expected::{Expected, ExpectedRow, Match, Pairs};
pub use text::quote;
pub use time::EPOCH_NS;

/// A script that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ScriptError {
    /// Line number, one-based.
    pub line: usize,
    /// The error message.
    pub what: String,
}

/// A command of a script.
#[derive(Debug)]
pub enum Command {
    /// Removes all rows.
    Clear,
    /// Adds rows in this order of arrival.
    Load(Vec<MemoryRow>),
    /// Runs a query.
    Eval(Box<Eval>),
}

/// A query and its expected answer.
#[derive(Debug)]
pub struct Eval {
    /// Line number in the script, one-based.
    pub line: usize,
    /// The query and its times.
    pub request: Request,
    /// Whether the steps are aligned to multiples of the step.
    pub aligned: bool,
    /// The expected answer.
    pub expected: Expected,
}

/// Reads a script.
pub fn parse(text: &str) -> Result<Vec<Command>, ScriptError> {
    let mut commands = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        let number = at + 1;
        let head = text::strip_comment(lines[at]).trim_end();
        at += 1;
        if head.is_empty() {
            continue;
        }
        let mut block = Vec::new();
        while at < lines.len() && lines[at].starts_with([' ', '\t']) {
            let line = text::strip_comment(lines[at]).trim();
            if !line.is_empty() {
                block.push((at + 1, line));
            } else if lines[at].trim().is_empty() {
                break;
            }
            at += 1;
        }
        commands.push(command(number, head, &block)?);
    }
    Ok(commands)
}

/// The lines of a block with their line numbers.
type Block<'a> = [(usize, &'a str)];

fn command(number: usize, head: &str, block: &Block<'_>) -> Result<Command, ScriptError> {
    let fail = |line: usize, what: String| ScriptError { line, what };
    match head.split_whitespace().next() {
        Some("clear") => Ok(Command::Clear),
        Some("load") => {
            let mut rows = Vec::new();
            for (line, text) in block {
                rows.extend(load::rows(text).map_err(|what| fail(*line, what))?);
            }
            Ok(Command::Load(rows))
        }
        Some("eval") => {
            let (request, form) = eval::request(head).map_err(|what| fail(number, what))?;
            let lines = block.iter().map(|(_, line)| *line);
            let expected = expected::parse(lines, form == eval::Form::Logs);
            let expected = expected.map_err(|what| fail(number, what))?;
            let aligned = form == eval::Form::Aligned;
            Ok(Command::Eval(Box::new(Eval { line: number, request, aligned, expected })))
        }
        _ => Err(fail(number, format!("unknown command: {head}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_with_errors_are_refused() {
        let query = "eval instant at 1s vector(1)\n";
        for (script, what) in [
            ("  {a=\"b\"} \"x\" @ 1s", "line 1: unknown command"),
            ("load\n  {a=\"b\"} \"x\"", "line 2: missing '@ <time>'"),
            ("load\n  {a=\"b\"} \"x\" @ 1s [repaet every 1s for 2]", "line 2: unknown option"),
            ("load\n  {a=\"b\"} \"x @ 1s", "line 2: unterminated text"),
            (query, "line 1: exactly one kind of answer"),
            (&format!("{query}  1\n  expect empty"), "line 1: exactly one kind of answer"),
            (&format!("{query}  expect nothing"), "line 1: unknown expectation"),
            (&format!("{query}  expect fail mesg: x"), "line 1: unknown qualifier"),
            (&format!("{query}  {{a=\"b\"}}"), "line 1: no values"),
            ("eval later at 1s 1\n  1", "line 1: unknown form"),
        ] {
            let error = parse(script).unwrap_err().to_string();
            assert!(error.contains(what), "{script:?}: {error}");
        }
    }

    #[test]
    fn rows_are_loaded_as_they_are_written() {
        let script = "load # some rows\n  {a=\"b # c\"} e\"x\\xff\\n\\u{e9}\" @ 1m0.5s [metadata k=\"v\"]\n\
                      \u{20}\u{20}{a=\"b\"} `{\"n\":{{.i}}}` @ 1s [repeat every 2s for 3]";
        let commands = parse(script).unwrap();
        let Command::Load(rows) = &commands[0] else { panic!("{commands:?}") };
        assert_eq!(rows.len(), 4);
        assert_eq!(&*rows[0].line, b"x\xff\n\xc3\xa9");
        assert_eq!(rows[0].timestamp - EPOCH_NS, 60_500_000_000);
        assert_eq!(rows[0].metadata, [("k".into(), "v".into())]);
        assert_eq!(&*rows[3].line, b"{\"n\":2}");
        assert_eq!(rows[3].timestamp - EPOCH_NS, 5_000_000_000);
    }
}
