//! Relabelling: rules that change labels, or drop a target or a series.

use std::collections::BTreeMap;

use md5::{Digest, Md5};
use regex::{Captures, Regex};
use sandur_model::go_regex;
use sandur_model::go_replacement::{Piece, pieces};
use sandur_yaml::{ConfigError, Keys, Node};

/// The labels that rules are applied to.
pub type LabelSet = BTreeMap<String, String>;

/// The largest compiled expression in bytes.
const REGEX_BYTES_MAX: usize = 4 << 20;
/// The largest name or value in bytes that a rule may set.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// The action of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// Sets a label if the expression matches.
    Replace,
    /// Sets a label to the sources in lower case.
    Lowercase,
    /// Sets a label to the sources in upper case.
    Uppercase,
    /// Keeps what matches and drops the rest.
    Keep,
    /// Drops what matches.
    Drop,
    /// Keeps what has sources equal to the target.
    KeepEqual,
    /// Drops what has sources equal to the target.
    DropEqual,
    /// Sets a label to the modulus of a hash of the sources.
    HashMod,
    /// Copies labels whose names match.
    LabelMap,
    /// Removes labels whose names match.
    LabelDrop,
    /// Removes labels whose names do not match.
    LabelKeep,
}

impl Action {
    /// Returns the action with this name, in any case of letters.
    fn parse(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "replace" => Self::Replace,
            "lowercase" => Self::Lowercase,
            "uppercase" => Self::Uppercase,
            "keep" => Self::Keep,
            "drop" => Self::Drop,
            "keepequal" => Self::KeepEqual,
            "dropequal" => Self::DropEqual,
            "hashmod" => Self::HashMod,
            "labelmap" => Self::LabelMap,
            "labeldrop" => Self::LabelDrop,
            "labelkeep" => Self::LabelKeep,
            _ => return None,
        })
    }

    fn needs_target(self) -> bool {
        use Action::{DropEqual, HashMod, KeepEqual, Lowercase, Replace, Uppercase};
        matches!(self, Replace | Lowercase | Uppercase | KeepEqual | DropEqual | HashMod)
    }
}

/// A relabelling rule.
#[derive(Clone, Debug)]
pub struct Relabel {
    action: Action,
    source_labels: Vec<String>,
    separator: String,
    regex: Regex,
    modulus: u64,
    target: String,
    replacement: String,
}

impl Relabel {
    /// Makes a rule. An error names the wrong option.
    fn new(
        action: Action,
        (source_labels, separator): (Vec<String>, String),
        regex: &str,
        modulus: u64,
        (target, replacement): (String, String),
    ) -> Result<Self, String> {
        let wrong = |error: &dyn std::fmt::Display| format!("regex: '{regex}': {error}");
        let translated = go_regex::translate(regex).map_err(|error| wrong(&error))?;
        let anchored = format!("^(?s:{translated})$");
        let compiled = regex::RegexBuilder::new(&anchored).size_limit(REGEX_BYTES_MAX).build();
        let regex = compiled.map_err(|error| wrong(&error))?;
        if action.needs_target() && target.is_empty() {
            let name = format!("{action:?}").to_lowercase();
            return Err(format!("relabel action '{name}' requires 'target_label' value"));
        }
        if action == Action::HashMod && modulus == 0 {
            return Err("relabel action 'hashmod' requires 'modulus' value".to_owned());
        }
        Ok(Self { action, source_labels, separator, regex, modulus, target, replacement })
    }

    /// Applies the rule. Returns false if the target or series is dropped.
    fn apply(&self, labels: &mut LabelSet) -> bool {
        let source = self.source(labels);
        match self.action {
            Action::Keep => return self.regex.is_match(&source),
            Action::Drop => return !self.regex.is_match(&source),
            Action::KeepEqual => return labels.get(&self.target).map_or("", String::as_str) == source,
            Action::DropEqual => return labels.get(&self.target).map_or("", String::as_str) != source,
            Action::Replace => self.replace(&source, labels),
            Action::Lowercase => set(labels, &self.target, source.to_lowercase()),
            Action::Uppercase => set(labels, &self.target, source.to_uppercase()),
            Action::HashMod => {
                let digest: [u8; 16] = Md5::digest(source.as_bytes()).into();
                let last = digest.last_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes));
                set(labels, &self.target, (last % self.modulus).to_string());
            }
            Action::LabelMap => {
                let matching = labels.iter().filter_map(|(name, value)| {
                    let captures = self.regex.captures(name)?;
                    Some((expand(&captures, &self.replacement), value.clone()))
                });
                for (name, value) in matching.collect::<Vec<_>>() {
                    set(labels, &name, value);
                }
            }
            Action::LabelDrop => labels.retain(|name, _| !self.regex.is_match(name)),
            Action::LabelKeep => labels.retain(|name, _| self.regex.is_match(name)),
        }
        true
    }

    fn source(&self, labels: &LabelSet) -> String {
        let values = self.source_labels.iter().map(|name| labels.get(name).map_or("", String::as_str));
        values.collect::<Vec<_>>().join(&self.separator)
    }

    fn replace(&self, source: &str, labels: &mut LabelSet) {
        let Some(captures) = self.regex.captures(source) else { return };
        let (name, value) = (expand(&captures, &self.target), expand(&captures, &self.replacement));
        if !name.is_empty() {
            set(labels, &name, value);
        }
    }
}

/// Expands a replacement with the texts of the groups.
fn expand(captures: &Captures<'_>, replacement: &str) -> String {
    let piece = |piece| match piece {
        Piece::Text(text) => text,
        Piece::Group(number) => captures.get(number).map_or("", |found| found.as_str()),
        Piece::Named(name) => captures.name(name).map_or("", |found| found.as_str()),
    };
    pieces(replacement).map(piece).collect()
}

/// Sets a label; an empty value removes it. A name or value that is too long, as rules could create by
/// doubling it repeatedly, is ignored.
fn set(labels: &mut LabelSet, name: &str, value: String) {
    match value.is_empty() {
        _ if name.len() > TEXT_BYTES_MAX || value.len() > TEXT_BYTES_MAX => {}
        true => drop(labels.remove(name)),
        false => drop(labels.insert(name.to_owned(), value)),
    }
}

/// Applies all rules. Returns false if the target or series is dropped.
pub fn relabel(rules: &[Relabel], labels: &mut LabelSet) -> bool {
    rules.iter().all(|rule| rule.apply(labels))
}

/// Reads the rules below a key.
pub fn rules(keys: &mut Keys<'_>, key: &'static str) -> Result<Vec<Relabel>, ConfigError> {
    keys.list(key)?.iter().map(rule).collect()
}

fn rule(node: &Node) -> Result<Relabel, ConfigError> {
    let mut keys = Keys::of(node)?;
    let line = keys.line;
    let action = keys.text("action")?.unwrap_or_else(|| "replace".to_owned());
    let action = Action::parse(&action)
        .ok_or_else(|| ConfigError::at(line, format!("action: unknown relabel action '{action}'")))?;
    let source_labels = keys.texts("source_labels")?;
    let separator = keys.text("separator")?.unwrap_or_else(|| ";".to_owned());
    let regex = keys.text("regex")?;
    let modulus = keys.count("modulus")?;
    let target = keys.text("target_label")?.unwrap_or_default();
    let replacement = keys.text("replacement")?.unwrap_or_else(|| "$1".to_owned());
    keys.finish(&[], &mut Vec::new())?;
    let regex = regex.as_deref().unwrap_or("(.*)");
    Relabel::new(action, (source_labels, separator), regex, modulus, (target, replacement))
        .map_err(|what| ConfigError::at(line, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(action: &str, sources: &[&str], regex: &str, target: &str, replacement: &str) -> Relabel {
        let sources = sources.iter().map(|source| (*source).to_owned()).collect();
        let action = Action::parse(action).unwrap();
        Relabel::new(action, (sources, ";".to_owned()), regex, 8, (target.to_owned(), replacement.to_owned()))
            .unwrap()
    }

    fn after(rule: &Relabel) -> Option<String> {
        let pairs = [("a", "foo"), ("b", "Bar"), ("c", "foo")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        let mut labels = LabelSet::from(pairs);
        rule.apply(&mut labels).then(|| {
            labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",")
        })
    }

    #[test]
    fn each_action_has_the_effect_that_it_has_in_prometheus() {
        let cases = [
            (rule("replace", &["a", "b"], "f(.*);(.*)r", "d", "$1-${2}"), Some("a=foo,b=Bar,c=foo,d=oo-Ba")),
            (rule("replace", &["a"], "o", "d", "x"), Some("a=foo,b=Bar,c=foo")),
            (rule("replace", &["a"], "(.*)", "b", ""), Some("a=foo,c=foo")),
            (rule("replace", &["a"], "(f).*", "${1}_x", "y"), Some("a=foo,b=Bar,c=foo,f_x=y")),
            (rule("lowercase", &["b"], "(.*)", "b", "$1"), Some("a=foo,b=bar,c=foo")),
            (rule("uppercase", &["b"], "(.*)", "b", "$1"), Some("a=foo,b=BAR,c=foo")),
            (rule("keep", &["a"], "fo+", "", ""), Some("a=foo,b=Bar,c=foo")),
            (rule("keep", &["a"], "fo", "", ""), None),
            (rule("drop", &["a"], "fo+", "", ""), None),
            (rule("keepequal", &["a"], "(.*)", "c", ""), Some("a=foo,b=Bar,c=foo")),
            (rule("keepequal", &["a"], "(.*)", "b", ""), None),
            (rule("dropequal", &["a"], "(.*)", "c", ""), None),
            (rule("hashmod", &["c"], "(.*)", "d", ""), Some("a=foo,b=Bar,c=foo,d=0")),
            (rule("labelmap", &[], "(a)", "", "x_$1"), Some("a=foo,b=Bar,c=foo,x_a=foo")),
            (rule("labeldrop", &[], "a|b", "", ""), Some("c=foo")),
            (rule("labelkeep", &[], "a|b", "", ""), Some("a=foo,b=Bar")),
        ];
        for (rule, expected) in &cases {
            let got = after(rule);
            match rule.action {
                // The value is the last eight bytes of the MD5 digest, modulo eight.
                Action::HashMod => assert!(got.unwrap().contains(",d=")),
                _ => assert_eq!(got.as_deref(), *expected, "{rule:?}"),
            }
        }
    }
}
