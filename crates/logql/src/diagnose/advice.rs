//! What to write where a token does not fit: rules for quotes, selectors, filters and stages. Those for
//! functions are in [`super::calls`].

use sandur_base::spelling::nearest;

use super::{Advice, Scene, calls, here, other_languages, there};
use crate::lexer::Kind;
use crate::stage::STAGES;

/// A usual mistake: the advice if it was made.
type Rule = fn(&Scene<'_>) -> Option<Advice>;

/// The rules; the first that knows something is taken.
const RULES: &[Rule] = &[
    broken_token,
    beginning,
    value_without_quotes,
    inside_selector,
    calls::labels,
    calls::unknown,
    calls::window,
    filter_without_bar,
    unwrap_without_window,
    unknown_stage,
    calls::parentheses,
];

/// The advice for the token at which reading stopped.
pub fn find(scene: &Scene<'_>) -> Option<Advice> {
    RULES.iter().find_map(|rule| rule(scene))
}

const QUOTES: &str = "text stands in double quotes, \"…\", or backticks, `…`";

/// Literals that do not end, wrong escapes, windows that are none.
fn broken_token(scene: &Scene<'_>) -> Option<Advice> {
    let token = scene.token();
    if token.kind != Kind::Broken {
        return None;
    }
    let (source, end) = (scene.source(token), token.span.end..token.span.end);
    match token.text.as_str() {
        _ if source.starts_with('\'') => here(QUOTES),
        "literal not terminated" => there(end, "the closing quote is missing"),
        "comment not terminated" => there(end, "the comment does not end: `*/` is missing"),
        "invalid char escape" => escape(scene),
        _ if source.starts_with('[') => window_text(scene),
        _ => None,
    }
}

fn escape(scene: &Scene<'_>) -> Option<Advice> {
    let token = scene.token();
    let source = scene.source(token);
    let mut escaped = false;
    let end = source[1..].find(|c: char| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    let Some(inner) = end.map(|end| &source[1..=end]).filter(|inner| !inner.contains('`')) else {
        return here("in double quotes a backslash is written twice: \"\\\\d\"");
    };
    let span = token.span.start..token.span.start + inner.len() + 2;
    there(span, format!("in double quotes a backslash is written twice; in backticks once: `{inner}`"))
}

fn window_text(scene: &Scene<'_>) -> Option<Advice> {
    let token = scene.token();
    let source = scene.source(token);
    let end = source.find(']').map_or(source.len(), |end| end + 1);
    if source[..end].contains(':') {
        return here("LogQL has no subqueries: a function works on the lines of one window, [5m]");
    }
    let span = token.span.start..token.span.start + end;
    there(span, "a window is a number with a unit: [30s], [5m], [1h30m], [7d]")
}

/// A query that begins with something that begins none.
fn beginning(scene: &Scene<'_>) -> Option<Advice> {
    if scene.at != 0 || matches!(scene.kind(1), Some(Kind::Word("(" | "{" | "by" | "without"))) {
        return None;
    }
    here("a query begins with a selector of streams: {app=\"api\"} |= \"text\"")
}

/// `{app=api}`, `|= error`, `| level=error`
fn value_without_quotes(scene: &Scene<'_>) -> Option<Advice> {
    let Some(Kind::Word(operator)) = scene.kind(-1) else { return None };
    let filters = matches!(operator, "|=" | "|~" | "!~" | "|>" | "!>");
    let compares = matches!(operator, "=" | "!=" | "=~") && scene.kind(-2) == Some(Kind::Identifier);
    let follows_lines = operator == "!=" && matches!(scene.kind(-2), Some(Kind::Word("}") | Kind::String));
    if !filters && !compares && !follows_lines {
        return None;
    }
    let start = scene.token().span.start;
    let rest = &scene.text[start..];
    let word = rest.split(|c: char| c.is_whitespace() || "{},()[]|\"'`".contains(c)).next()?;
    if scene.token().kind == Kind::String {
        return None;
    }
    if word.is_empty() {
        return here(format!("behind `{operator}` stands a text in quotes"));
    }
    let mut help = format!("text stands in quotes: {}", crate::units::quote(word));
    if scene.in_selector() {
        help.push_str("; in a shell the whole query stands in single quotes: '{app=\"api\"}'");
    }
    here(help)
}

/// What does not fit between `{` and `}`.
fn inside_selector(scene: &Scene<'_>) -> Option<Advice> {
    if !scene.in_selector() {
        return None;
    }
    let previous = scene.near(-1)?;
    let name = scene.source(previous);
    match (previous.kind, scene.token().kind) {
        (Kind::Identifier, _) if scene.is(0, ":") => {
            here(format!("a selector compares with `=`: {name}=\"…\""))
        }
        (Kind::Identifier, Kind::Word("==")) => here(format!("a selector compares with `=`: {name}=\"…\"")),
        (Kind::Identifier, Kind::Word(">" | ">=" | "<" | "<=")) => {
            here(format!("numbers are compared behind the selector: {{…}} | json | {name} > 500"))
        }
        (Kind::Word("{" | ","), Kind::String) => here("names of labels stand without quotes"),
        (Kind::Word(","), Kind::Word("}")) => here("no comma stands before `}`"),
        (Kind::String, Kind::Identifier | Kind::Word("and")) => {
            here("a comma stands between two conditions: {app=\"api\", env=\"prod\"}")
        }
        (Kind::String, Kind::Word("or")) => here("a selector has no `or`: use a regex, {app=~\"api|web\"}"),
        (Kind::String, _) => here("`}` is missing"),
        (_, Kind::End) => here("the selector does not end: {app=\"api\"}"),
        (Kind::Word("{" | ","), Kind::Word(word)) if word.starts_with(char::is_alphabetic) => {
            here(format!("`{word}` is a word of the language and cannot name a label here"))
        }
        _ => None,
    }
}

/// `{…} = "x"`, `{…} "x"`, `{…} | "x"`, `{…} =~ "x"`, `{…} | = "x"`
fn filter_without_bar(scene: &Scene<'_>) -> Option<Advice> {
    let behind = |offset| matches!(scene.kind(offset), Some(Kind::Word("}") | Kind::String));
    let text = |offset| match scene.kind(offset) {
        Some(Kind::String) => scene.near(offset).map(|t| scene.source(t)),
        _ => None,
    };
    match scene.token().kind {
        Kind::Word(operator @ ("=" | "=~")) if behind(-1) => {
            let with_bar = if operator == "=" { "|=" } else { "|~" };
            let text = text(1).unwrap_or("\"text\"");
            here(format!("a filter of lines is written `{with_bar} {text}`"))
        }
        Kind::Word("=") if scene.is(-1, "|") => here("`|=` is written without a blank"),
        Kind::Identifier if scene.is(-1, "|") && scene.is(0, "~") => here("`|~` is written without a blank"),
        Kind::Identifier if scene.is(0, "&") => here("filters stand one after the other: |= \"a\" |= \"b\""),
        Kind::Word("|") if scene.is(-1, "|") => {
            here("alternatives of a filter are joined by `or`: |= \"a\" or \"b\"")
        }
        Kind::String if behind(-1) || scene.is(-1, "|") || scene.is(-1, "==") => {
            here(format!("a filter of lines is written `|= {}`", text(0)?))
        }
        _ => None,
    }
}

/// `{…} | unwrap took` outside of a function.
fn unwrap_without_window(scene: &Scene<'_>) -> Option<Advice> {
    if scene.token().kind != Kind::Word("unwrap") {
        return None;
    }
    let label = scene.near(1).filter(|t| t.kind == Kind::Identifier).map_or("LABEL", |t| scene.source(t));
    here(format!("numbers are unwrapped for a function: sum_over_time({{…}} | unwrap {label} [5m])"))
}

/// `| jsn`: read as a label that nothing compares.
fn unknown_stage(scene: &Scene<'_>) -> Option<Advice> {
    let word = scene.near(-1).filter(|t| t.kind == Kind::Identifier)?;
    if !scene.is(-2, "|") {
        return None;
    }
    let (name, span) = (scene.source(word), word.span.clone());
    if let Some(help) = other_languages::find(other_languages::STAGES, name) {
        return there(span, help);
    }
    let stages = STAGES.iter().map(|stage| stage.name).chain(["unwrap"]);
    if let Some(stage) = nearest(name, stages) {
        return there(span, format!("did you mean `{stage}`?"));
    }
    there(
        span,
        format!("no stage is called so. A label is compared, | {name}=\"…\"; a line searched, |= \"{name}\""),
    )
}
