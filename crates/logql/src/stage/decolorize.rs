//! `decolorize`: removes ANSI colour sequences from the line.

use std::fmt;
use std::sync::{Arc, LazyLock};

use regex::bytes::Regex;

use crate::error::ParseError;
use crate::names::Names;
use crate::parser::cursor::Parser;
use crate::row::{Row, Stage};
use crate::stage::node::{Effect, StageNode, StageSpec};

pub const SPEC: StageSpec = StageSpec {
    name: "decolorize",
    syntax: "| decolorize",
    doc: "Removes ANSI colour sequences.",
    examples: &["| decolorize"],
    parse,
};

/// A control sequence: an introducer, parameters and a final letter, or a title that ends with BEL.
const SEQUENCE: &str = "(?:\u{1b}|\u{9b})[\\[\\]()#;?]*(?:(?:(?:[a-zA-Z0-9]*(?:;[a-zA-Z0-9]*)*)?\u{7})|\
    (?:(?:[0-9]{1,4}(?:;[0-9]{0,4})*)?[0-9A-PRZcf-ntqry=><~]))";

/// Compiled once, because a query may have any number of these stages, and each worker starts all of them.
static COMPILED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(SEQUENCE).expect("a constant expression compiles"));

fn parse(_parser: &mut Parser) -> Result<Arc<dyn StageNode>, ParseError> {
    Ok(Arc::new(Decolorize))
}

#[derive(Debug)]
struct Decolorize;

impl fmt::Display for Decolorize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("| decolorize")
    }
}

impl StageNode for Decolorize {
    fn effect(&self) -> Effect {
        Effect { reads_line: true, changes_line: true, ..Effect::default() }
    }

    fn start(&self, _names: &mut Names) -> Box<dyn Stage> {
        // A clone shares the automaton and has its own buffers.
        Box::new(Running(COMPILED.clone()))
    }
}

struct Running(Regex);

impl Stage for Running {
    fn process(&mut self, row: &mut Row<'_>) -> bool {
        // The first byte of both introducers.
        if memchr::memchr2(0x1b, 0xc2, row.line()).is_none() {
            return true;
        }
        row.with_line(|row, line| {
            row.replace_line(line.len(), |_, out| {
                let mut end = 0;
                for sequence in self.0.find_iter(line) {
                    out.extend_from_slice(&line[end..sequence.start()]);
                    end = sequence.end();
                }
                out.extend_from_slice(&line[end..]);
            });
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::stage::testing::run;

    #[test]
    fn colours_are_removed_and_text_is_kept() {
        for (line, plain) in [
            ("\u{1b}[31mred\u{1b}[0m text", "red text"),
            ("\u{1b}[1;32mgreen\u{1b}[m", "green"),
            ("no colour à", "no colour à"),
        ] {
            assert_eq!(run(r#"{app="s"} | decolorize"#, line).unwrap().line, plain);
        }
    }
}
