//! `unpack`: reverses Promtail's `pack` stage. The line is a JSON object of strings; `_entry` becomes the
//! line, and the other members become labels.

use std::fmt;
use std::sync::Arc;

use crate::error::ParseError;
use crate::names::{NameId, Names};
use crate::parser::cursor::Parser;
use crate::row::{Row, Stage};
use crate::stage::json_scan::{Flow, Malformed, Value, append_unescaped, each_member};
use crate::stage::json_value::JSON_ERROR;
use crate::stage::keys::key_name;
use crate::stage::node::{Effect, StageNode, StageSpec};

pub const SPEC: StageSpec = StageSpec {
    name: "unpack",
    syntax: "| unpack",
    doc: "Reverses the `pack` stage of Promtail: extracts labels from the members of the line, and \
          the line from `_entry`.",
    examples: &["| unpack"],
    parse,
};

const ENTRY: &[u8] = b"_entry";

fn parse(_parser: &mut Parser) -> Result<Arc<dyn StageNode>, ParseError> {
    Ok(Arc::new(Unpack))
}

#[derive(Debug)]
struct Unpack;

impl fmt::Display for Unpack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("| unpack")
    }
}

impl StageNode for Unpack {
    fn effect(&self) -> Effect {
        Effect { reads_line: true, changes_line: true, changes_labels: true, ..Effect::default() }
    }

    fn start(&self, _names: &mut Names) -> Box<dyn Stage> {
        Box::new(Running::default())
    }
}

#[derive(Default)]
struct Running {
    labels: Vec<(NameId, Vec<u8>)>,
    entry: Vec<u8>,
}

impl Stage for Running {
    fn process(&mut self, row: &mut Row<'_>) -> bool {
        if row.line().is_empty() || row.wanted().nothing() || row.has_all_wanted() {
            return true;
        }
        let packed = row.with_line(|row, line| {
            if line[0] != b'{' {
                row.fail(JSON_ERROR, "expecting json object(6), but it is not");
                return false;
            }
            match self.read(row, line) {
                Ok(packed) => packed,
                Err(reason) => {
                    row.fail(JSON_ERROR, reason);
                    false
                }
            }
        });
        if packed {
            for (name, value) in self.labels.drain(..) {
                row.set_with(name, value.len(), |text| text.extend_from_slice(&value));
                if !row.passes_early(name) {
                    return false;
                }
            }
            row.replace_line(self.entry.len(), |_, out| out.extend_from_slice(&self.entry));
        }
        true
    }
}

impl Running {
    /// Collects the labels and the entry; returns whether there was an entry.
    fn read(&mut self, row: &mut Row<'_>, line: &[u8]) -> Result<bool, Malformed> {
        self.labels.clear();
        self.entry.clear();
        let mut packed = false;
        each_member(line, &mut |key, value| {
            let Value::String(raw) = value else { return Ok(Flow::Continue) };
            let key = key.raw;
            if key == ENTRY {
                self.entry.clear();
                if !append_unescaped(&mut self.entry, raw) {
                    return Err(Malformed("Malformed string escape"));
                }
                packed = true;
            } else if let Some(name) = key_name(row, key) {
                let name = row.free_name(name);
                if row.wants(name) {
                    let mut value = Vec::with_capacity(raw.len());
                    append_unescaped(&mut value, raw);
                    self.labels.push((name, value));
                }
            }
            Ok(Flow::Continue)
        })?;
        Ok(packed)
    }
}

#[cfg(test)]
mod tests {
    use crate::stage::testing::run;

    #[test]
    fn a_packed_line_is_unpacked() {
        let out =
            run(r#"{app="s"} | unpack"#, r#"{"pod":"p1","app":"x","n":1,"_entry":"the \"line\""}"#).unwrap();
        assert_eq!(out.line, "the \"line\"");
        let labels: Vec<String> = out.parsed.iter().map(|(n, v)| format!("{n}={v}")).collect();
        assert_eq!(labels, ["app_extracted=x", "pod=p1"]);
    }

    #[test]
    fn other_lines_are_kept() {
        let plain = run(r#"{app="s"} | unpack"#, r#"{"pod":"p1"}"#).unwrap();
        assert_eq!((plain.line.as_str(), plain.parsed.len()), (r#"{"pod":"p1"}"#, 0));
        let text = run(r#"{app="s"} | unpack"#, "text").unwrap();
        assert_eq!((text.line.as_str(), text.parsed[0].1.as_str()), ("text", "JSONParserErr"));
        assert!(run(r#"{app="s"} | unpack"#, "").unwrap().parsed.is_empty());
    }
}
