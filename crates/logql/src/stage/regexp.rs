//! `regexp "(?P<name>..)"`: extracts the named groups of a regular expression as labels.

use std::fmt;
use std::sync::Arc;

use sandur_model::go_text::quote;
use sandur_model::{BoundedRegex, Slots, group_span};

use crate::error::ParseError;
use crate::go_regex::compile_bytes;
use crate::names::{NameId, Names};
use crate::parser::cursor::Parser;
use crate::row::{Row, Stage};
use crate::stage::keys::append_sanitized;
use crate::stage::node::{Effect, StageNode, StageSpec};

pub const SPEC: StageSpec = StageSpec {
    name: "regexp",
    syntax: "| regexp \"(?P<name>..)\"",
    doc: "Extracts labels from the named groups of a regular expression; keeps a line that does not match.",
    examples: &["| regexp \"(?P<n>[0-9]+)\""],
    parse,
};

fn parse(parser: &mut Parser) -> Result<Arc<dyn StageNode>, ParseError> {
    let text = parser.string()?;
    let invalid = |reason: String| ParseError::whole(format!("invalid regexp parser: {reason}"));
    if let Some(name) = repeated_name(&text) {
        return Err(invalid(format!("duplicate extracted label name '{name}'")));
    }
    let regex = compile_bytes(&text).map_err(invalid)?;
    if regex.group_names().flatten().next().is_none() {
        return Err(invalid("at least one named capture must be supplied".to_owned()));
    }
    Ok(Arc::new(Regexp { text, regex }))
}

/// A group name that occurs twice.
fn repeated_name(text: &str) -> Option<&str> {
    let names = text.split("(?P<").skip(1).filter_map(|rest| rest.split_once('>').map(|(name, _)| name));
    let names: Vec<&str> = names.collect();
    names.iter().enumerate().find(|(n, name)| names[..*n].contains(name)).map(|(_, name)| *name)
}

#[derive(Debug)]
struct Regexp {
    text: String,
    regex: BoundedRegex,
}

impl fmt::Display for Regexp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| regexp {}", quote(&self.text))
    }
}

impl StageNode for Regexp {
    fn effect(&self) -> Effect {
        Effect { reads_line: true, only_extracts: true, changes_labels: true, ..Effect::default() }
    }

    fn memory_bytes(&self) -> u64 {
        self.regex.memory_bytes()
    }

    fn start(&self, names: &mut Names) -> Box<dyn Stage> {
        let mut groups = Vec::new();
        for (group, name) in self.regex.group_names().enumerate() {
            let Some(name) = name else { continue };
            let mut label = Vec::new();
            append_sanitized(&mut label, name.as_bytes());
            groups.push((group, names.id(&String::from_utf8_lossy(&label))));
        }
        // A clone has its own cache, so that workers do not contend for it.
        let regex = self.regex.clone();
        Box::new(Running { slots: vec![None; regex.slot_count()], regex, groups })
    }
}

struct Running {
    regex: BoundedRegex,
    slots: Slots,
    groups: Vec<(usize, NameId)>,
}

impl Stage for Running {
    fn process(&mut self, row: &mut Row<'_>) -> bool {
        if row.wanted().nothing() {
            return true;
        }
        row.with_line(|row, line| {
            // The search also fails in a cancelled job, whose rows are not needed.
            if self.regex.find(line, 0, &mut self.slots) != Ok(true) {
                return;
            }
            for (group, name) in &self.groups {
                let name = row.free_name(*name);
                if row.wants(name) {
                    let (from, to) = group_span(&self.slots, *group).unwrap_or((0, 0));
                    row.set_with(name, to - from, |text| text.extend_from_slice(&line[from..to]));
                    if !row.passes_early(name) {
                        return;
                    }
                }
            }
        });
        !row.is_rejected()
    }
}

#[cfg(test)]
mod tests {
    use crate::stage::testing::labels;

    #[test]
    fn named_groups_become_labels() {
        let query = r#"{app="s"} | regexp `(?P<method>\w+) (?P<path>\S+)( (?P<app>\d+))?`"#;
        assert_eq!(labels(query, "GET /x 200"), "app_extracted=200 method=GET path=/x");
        assert_eq!(
            labels(query, "GET /x"),
            "app_extracted= method=GET path=/x",
            "a group that does not match is empty"
        );
        assert_eq!(labels(query, "nothing"), "");
    }

    #[test]
    fn invalid_expressions_are_refused() {
        let error = crate::parse(r#"{app="s"} | regexp "(a)""#).unwrap_err().to_string();
        assert_eq!(error, "parse error : invalid regexp parser: at least one named capture must be supplied");
        assert!(
            crate::parse(r#"{app="s"} | regexp "(?P<a>""#)
                .unwrap_err()
                .to_string()
                .contains("error parsing regexp")
        );
    }
}
