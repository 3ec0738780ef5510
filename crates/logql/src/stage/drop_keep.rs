//! `drop a, b="x"` removes labels; `keep a, b="x"` removes all others.

use std::fmt;
use std::sync::Arc;

use sandur_model::Matcher;

use crate::ast::MatcherText;
use crate::error::ParseError;
use crate::names::{NameId, Names};
use crate::parser::cursor::Parser;
use crate::parser::matchers::NamedMatcher;
use crate::row::{ERROR_DETAILS_ID, ERROR_ID, Row, Stage};
use crate::stage::node::{Effect, StageNode, StageSpec};

pub const DROP: StageSpec = StageSpec {
    name: "drop",
    syntax: "| drop label[=\"value\"], ..",
    doc: "Removes labels, or labels with a given value. Also removes `__error__` if it is named.",
    examples: &["| drop m", "| drop m=\"x\""],
    parse: |parser| parse(parser, false),
};

pub const KEEP: StageSpec = StageSpec {
    name: "keep",
    syntax: "| keep label[=\"value\"], ..",
    doc: "Removes all other labels except `__error__`.",
    examples: &["| keep n", "| keep n=\"1\""],
    parse: |parser| parse(parser, true),
};

fn parse(parser: &mut Parser, keep: bool) -> Result<Arc<dyn StageNode>, ParseError> {
    Ok(Arc::new(DropKeep { keep, labels: parser.named_matchers()? }))
}

#[derive(Debug)]
struct DropKeep {
    keep: bool,
    labels: Vec<NamedMatcher>,
}

impl fmt::Display for DropKeep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.keep { "| keep " } else { "| drop " })?;
        for (n, label) in self.labels.iter().enumerate() {
            f.write_str(if n == 0 { "" } else { "," })?;
            match label {
                NamedMatcher::Name(name) => f.write_str(name)?,
                NamedMatcher::Matcher(matcher) => MatcherText(matcher).fmt(f)?,
            }
        }
        Ok(())
    }
}

impl StageNode for DropKeep {
    fn effect(&self) -> Effect {
        Effect { changes_labels: true, removes_labels: true, ..Effect::default() }
    }

    fn memory_bytes(&self) -> u64 {
        self.labels.iter().map(NamedMatcher::memory_bytes).sum()
    }

    fn start(&self, names: &mut Names) -> Box<dyn Stage> {
        let labels = self.labels.iter().map(|label| match label {
            NamedMatcher::Name(name) => (names.id(name), None),
            NamedMatcher::Matcher(matcher) => (names.id(matcher.name()), Some(matcher.clone())),
        });
        let labels = labels.collect();
        if self.keep { Box::new(Keep { labels, leaving: Vec::new() }) } else { Box::new(Drop { labels }) }
    }
}

struct Drop {
    labels: Vec<(NameId, Option<Matcher>)>,
}

impl Stage for Drop {
    fn process(&mut self, row: &mut Row<'_>) -> bool {
        for (name, matcher) in &self.labels {
            if matcher.as_ref().is_some_and(|m| !m.matches(row.value(*name))) {
                continue;
            }
            match *name {
                ERROR_ID => row.clear_error(),
                ERROR_DETAILS_ID => row.clear_error_details(),
                name => {
                    if row.get(name).is_some() {
                        row.delete(name);
                    }
                }
            }
        }
        true
    }
}

struct Keep {
    labels: Vec<(NameId, Option<Matcher>)>,
    leaving: Vec<NameId>,
}

impl Stage for Keep {
    fn process(&mut self, row: &mut Row<'_>) -> bool {
        self.leaving.clear();
        row.for_each_label(|_, name, value| {
            let kept = |(n, matcher): &(NameId, Option<Matcher>)| {
                *n == name && matcher.as_ref().is_none_or(|m| m.matches(value))
            };
            let is_error = matches!(name, ERROR_ID | ERROR_DETAILS_ID);
            if !is_error && !self.labels.iter().any(kept) {
                self.leaving.push(name);
            }
        });
        for name in &self.leaving {
            row.delete(*name);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::stage::testing::run;

    fn left(stages: &str) -> String {
        let out = run(&format!(r#"{{app="s",env="prod"}} | logfmt | {stages}"#), "a=1 b=2").unwrap();
        let all = out.stream.iter().chain(&out.parsed).map(|(n, v)| format!("{n}={v}"));
        all.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn labels_are_dropped_or_kept() {
        for (stages, expected) in [
            ("drop a", "app=s env=prod b=2"),
            ("drop app, b", "env=prod a=1"),
            (r#"drop a="2", b="2""#, "app=s env=prod a=1"),
            (r#"drop env=~"p.*""#, "app=s a=1 b=2"),
            ("drop none", "app=s env=prod a=1 b=2"),
            ("keep a, app", "app=s a=1"),
            (r#"keep a="2", b="2""#, "b=2"),
            ("keep none", ""),
        ] {
            assert_eq!(left(stages), expected, "{stages}");
        }
    }

    #[test]
    fn errors_are_dropped_by_name_and_survive_keep() {
        let parsed = |stages: &str| {
            let out = run(&format!(r#"{{app="s"}} | json | {stages}"#), "broken").unwrap();
            out.parsed.iter().map(|(n, _)| n.clone()).collect::<Vec<_>>()
        };
        assert!(parsed("drop __error__").is_empty());
        assert_eq!(parsed(r#"drop __error__="other""#), ["__error__"]);
        assert_eq!(parsed("keep x"), ["__error__"]);
    }
}
