//! Writes a group as YAML in one form: known keys in a fixed order, texts quoted, no anchors.
//!
//! The form is what is stored and what clients get. A group without an interval has none in it either, so
//! that tools that compare a file with the stored groups find no difference.
//!
//! **Invariant.** The text is read as the group that it was made from, and its lines can be indented.

use sandur_model::go_text::quote;
use sandur_yaml::{Data, Node};

/// How the value of a key is written.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Number,
    Pairs,
    Rules,
}

const GROUP: [(&str, Form); 7] = [
    ("name", Form::Text),
    ("interval", Form::Text),
    ("query_offset", Form::Text),
    ("limit", Form::Number),
    ("language", Form::Text),
    ("labels", Form::Pairs),
    ("rules", Form::Rules),
];

const RULE: [(&str, Form); 9] = [
    ("record", Form::Text),
    ("alert", Form::Text),
    ("expr", Form::Text),
    ("for", Form::Text),
    ("keep_firing_for", Form::Text),
    ("language", Form::Text),
    ("window", Form::Text),
    ("labels", Form::Pairs),
    ("annotations", Form::Pairs),
];

/// The text of a group that was read without errors.
pub(super) fn text_of(group: &Node) -> String {
    let mut text = lines_of(group, &GROUP).join("\n");
    text.push('\n');
    text
}

fn lines_of(map: &Node, keys: &[(&str, Form)]) -> Vec<String> {
    let Data::Map(pairs) = &map.data else { return Vec::new() };
    let mut lines = Vec::new();
    for (key, form) in keys {
        let Some((.., value)) = pairs.iter().find(|(name, ..)| name == key) else { continue };
        match (form, &value.data) {
            (Form::Text, Data::Scalar(text)) => lines.push(format!("{key}: {}", quote(text))),
            (Form::Number, Data::Scalar(text)) => lines.push(format!("{key}: {text}")),
            (Form::Pairs, Data::Map(pairs)) if !pairs.is_empty() => {
                lines.push(format!("{key}:"));
                lines.extend(pairs.iter().map(pair));
            }
            (Form::Rules, Data::List(rules)) => {
                lines.push(if rules.is_empty() { format!("{key}: []") } else { format!("{key}:") });
                lines.extend(rules.iter().flat_map(|rule| indented(lines_of(rule, &RULE))));
            }
            _ => {}
        }
    }
    lines
}

fn pair((name, _, value): &(String, usize, Node)) -> String {
    let text = match &value.data {
        Data::Scalar(text) => text.as_str(),
        _ => "",
    };
    format!("    {}: {}", quote(name), quote(text))
}

/// The lines of an item of a list.
fn indented(lines: Vec<String>) -> impl Iterator<Item = String> {
    lines
        .into_iter()
        .enumerate()
        .map(|(n, line)| format!("{}{line}", if n == 0 { "    - " } else { "      " }))
}
