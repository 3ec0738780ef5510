//! Advice for errors about a complete expression. The parser's message names no place, so this module finds
//! the place.

use std::ops::Range;

use sandur_base::spelling::nearest;

use super::scene::{Advice, Scene, here, there};
use crate::ast::Expr;
use crate::lexer::Kind;
use crate::parser::matchers::validate_matchers;
use crate::parser::parse_unchecked;
use crate::template;

/// The advice for an error message without a place.
pub fn find(scene: &Scene<'_>, message: &str) -> Option<Advice> {
    if message.starts_with("queries require at least one") {
        return every_stream(scene);
    }
    if message.starts_with("unexpected type for") {
        return lines_as_numbers(scene);
    }
    if message.contains("regex") || message.contains("template") {
        return inside_text(scene, message);
    }
    call(scene, message)
}

/// Locates the selector that selects every stream.
fn every_stream(scene: &Scene<'_>) -> Option<Advice> {
    let span = selectors(scene).find(|span| match parse_unchecked(&scene.text[span.clone()]) {
        Ok(Expr::Log(log)) => validate_matchers(&log.matchers).is_err(),
        _ => false,
    });
    match span {
        Some(span) => there(
            span,
            "add a matcher for a label that all wanted streams have: {app=\"api\"}, or \
             {service_name=~\".+\"} for almost all",
        ),
        None => here("an aggregation takes the result of a query, not a number"),
    }
}

fn selectors<'a>(scene: &'a Scene<'_>) -> impl Iterator<Item = Range<usize>> + 'a {
    let opened = scene.tokens.iter().enumerate().filter(|(_, t)| t.kind == Kind::Word("{"));
    opened.filter_map(|(at, open)| {
        let close = scene.tokens[at..].iter().find(|t| t.kind == Kind::Word("}"))?;
        Some(open.span.start..close.span.end)
    })
}

fn lines_as_numbers(scene: &Scene<'_>) -> Option<Advice> {
    let help = "operators take numbers: count lines first, count_over_time({…} [5m])";
    match selectors(scene).next() {
        Some(span) => there(span, help),
        None => here(help),
    }
}

/// The last string before the place where parsing stopped: a regex or a template.
fn inside_text(scene: &Scene<'_>, message: &str) -> Option<Advice> {
    let text = scene.tokens[..=scene.at].iter().rev().find(|t| t.kind == Kind::String)?;
    let strange = message
        .split_once("function \"")
        .and_then(|(_, rest)| rest.split_once("\" not defined"))
        .map(|(name, _)| name);
    let functions = template::FUNCTIONS.iter().copied().flatten().map(|function| function.name);
    let help = match strange {
        Some(name) => Some(match nearest(name, functions) {
            Some(function) => format!("did you mean `{function}`?"),
            None => "there is no such template function; docs/reference/logql.md lists all".to_owned(),
        }),
        None if ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|group| text.text.contains(group)) => Some(
            "regexes run in linear time and have no look-around: chain filters, |~ \"a\" !~ \"ab\""
                .to_owned(),
        ),
        None => None,
    };
    Some(Advice { span: Some(text.span.clone()), help })
}

/// An invalid use of a function.
fn call(scene: &Scene<'_>, message: &str) -> Option<Advice> {
    let word = |name: &str| message.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == name);
    let token = scene.tokens[..=scene.at].iter().rev().find(|t| match t.kind {
        Kind::Function(name) => word(name),
        _ => false,
    })?;
    let Kind::Function(name) = token.kind else { return None };
    let help = if message.ends_with("without unwrap") {
        format!("unwrap the label that has the number: {name}({{…}} | json | unwrap LABEL [5m])")
    } else if message.ends_with("with unwrap") {
        format!("{name} takes lines, not numbers: remove `| unwrap`, or use sum_over_time")
    } else if message.starts_with("grouping not allowed") {
        format!("group in an outer function: sum {} ({name}(…))", grouping(scene))
    } else if message.starts_with("parameter required") {
        let example = if name == "quantile_over_time" { "0.99" } else { "10" };
        format!("the number comes first: {name}({example}, …)")
    } else if message.contains("parameter") && message.contains("not supported") {
        format!("{name} takes no number: {name}({{…}} [5m])")
    } else {
        return Some(Advice { span: Some(token.span.clone()), help: None });
    };
    there(token.span.clone(), help)
}

/// The text of the last list of labels: `by (app)`.
fn grouping<'a>(scene: &Scene<'a>) -> &'a str {
    let tokens = &scene.tokens[..=scene.at];
    let by = tokens.iter().rposition(|t| matches!(t.kind, Kind::Word("by" | "without")));
    let written = by.and_then(|by| {
        let close = tokens[by..].iter().find(|t| t.kind == Kind::Word(")"))?;
        scene.text.get(tokens[by].span.start..close.span.end)
    });
    written.unwrap_or("by (LABEL)")
}
