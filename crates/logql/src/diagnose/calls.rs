//! Advice for mistakes in a function call: its name, window, labels or parentheses.

use sandur_base::spelling::nearest;

use super::other_languages;
use super::scene::{Advice, Scene, here};
use crate::lexer::{FUNCTIONS, Kind};
use crate::{range, vector};

/// `sum by app (…)`, `by ("app")`
pub fn labels(scene: &Scene<'_>) -> Option<Advice> {
    let token = scene.token();
    let groups = |offset| matches!(scene.kind(offset), Some(Kind::Word("by" | "without")));
    if token.kind == Kind::Identifier && groups(1) && scene.kind(2) == Some(Kind::Identifier) {
        let (word, label) = (scene.source(scene.near(1)?), scene.source(scene.near(2)?));
        return here(format!("labels must be in parentheses: {} {word} ({label}) (…)", scene.source(token)));
    }
    if token.kind == Kind::Identifier && groups(-1) {
        return here(format!("labels must be in parentheses: ({})", scene.source(token)));
    }
    let list = scene.open_parenthesis()?;
    let before = &scene.tokens.get(list.checked_sub(1)?)?.kind;
    let is_list = matches!(before, Kind::Word("by" | "without" | "on" | "ignoring" | "group_left"));
    if is_list && token.kind == Kind::String {
        return here("label names are not quoted");
    }
    None
}

/// A name before a parenthesis or a selector that is not a function.
pub fn unknown(scene: &Scene<'_>) -> Option<Advice> {
    let token = scene.token();
    if token.kind != Kind::Identifier || scene.in_selector() {
        return None;
    }
    let name = scene.source(token);
    let known = FUNCTIONS.iter().find(|function| function.eq_ignore_ascii_case(name));
    match (scene.kind(1), known) {
        (Some(Kind::Word("{")), Some(function)) => {
            here(format!("the argument must be in parentheses: {function}({{…}} [5m])"))
        }
        (Some(Kind::Word("{")), None) => {
            here("LogQL has no metric names: a query begins with {, as in {app=\"api\"}")
        }
        (Some(Kind::Word("(" | "by" | "without")), _) => here(not_a_function(name)),
        _ if scene
            .open_call()
            .is_some_and(|(function, open)| open + 1 == scene.at && range::find(function).is_some()) =>
        {
            here("a function over a window takes a selector, such as {app=\"api\"}")
        }
        _ => None,
    }
}

fn not_a_function(name: &str) -> String {
    if let Some(help) = other_languages::find(other_languages::FUNCTIONS, name) {
        return help.to_owned();
    }
    match nearest(name, FUNCTIONS.iter().copied()) {
        Some(function) => format!("did you mean `{function}`?"),
        None => "there is no such function; docs/reference/logql.md lists all".to_owned(),
    }
}

/// `rate({…})`, `sum({…})`, `{…}[5m]`
pub fn window(scene: &Scene<'_>) -> Option<Advice> {
    let call = scene.open_call();
    match (scene.token().kind, call) {
        (Kind::Range, None) => here("a window is only valid inside a function: count_over_time({…} [5m])"),
        (Kind::Word(")") | Kind::Range, Some((function, _))) if vector::find(function).is_some() => {
            here(format!("{function} takes numbers, not lines: {function}(count_over_time({{…}} [5m]))"))
        }
        (Kind::Word(")"), Some((function, open))) if range::find(function).is_some() => {
            let windows = scene.tokens[open..scene.at].iter().any(|t| t.kind == Kind::Range);
            if windows { None } else { here(format!("the window is missing: {function}({{…}} [5m])")) }
        }
        _ => None,
    }
}

/// Unbalanced parentheses, or an end after an operator.
pub fn parentheses(scene: &Scene<'_>) -> Option<Advice> {
    let open = scene.open_parenthesis();
    match (scene.token().kind, scene.kind(-1)) {
        (Kind::Word(")"), _) if open.is_none() => here("this `)` has no matching `(`"),
        (Kind::End, Some(Kind::Word(operator @ ("+" | "-" | "*" | "/" | "%" | "^" | "or" | "and")))) => {
            here(format!("`{operator}` must be followed by an operand"))
        }
        (Kind::End, Some(Kind::Word("|"))) => here("`|` must be followed by a stage or a condition"),
        (Kind::End, _) if open.is_some() => here("a closing `)` is missing"),
        _ => None,
    }
}
