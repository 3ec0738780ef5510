//! Advice for a token that is not valid at its place: rules for quotes, selectors, filters and stages. The
//! rules for functions are in [`super::calls`].

use std::ops::Range;

use sandur_base::spelling::nearest;

use super::scene::{Advice, Scene, here, there};
use super::{calls, other_languages};
use crate::lexer::Kind;
use crate::stage::STAGES;

/// Recognizes one common mistake, and returns advice if it was made.
type Rule = fn(&Scene<'_>) -> Option<Advice>;

/// The rules; the first that returns advice decides.
const RULES: &[Rule] = &[
    broken_token,
    selector_without_braces,
    beginning,
    value_without_quotes,
    dotted_name,
    unknown_unit,
    inside_selector,
    calls::labels,
    calls::unknown,
    calls::window,
    filter_without_bar,
    unwrap_without_window,
    unknown_stage,
    calls::parentheses,
];

/// The advice for the token at which parsing stopped.
pub fn find(scene: &Scene<'_>) -> Option<Advice> {
    RULES.iter().find_map(|rule| rule(scene))
}

const QUOTES: &str = "text must be in double quotes, \"…\", or backticks, `…`";

/// Unterminated literals, invalid escapes, invalid windows.
fn broken_token(scene: &Scene<'_>) -> Option<Advice> {
    let token = scene.token();
    if token.kind != Kind::Broken {
        return None;
    }
    let (source, end) = (scene.source(token), token.span.end..token.span.end);
    match token.text.as_str() {
        _ if source.starts_with('\'') => here(QUOTES),
        "literal not terminated" => there(end, "the closing quote is missing"),
        "comment not terminated" => there(end, "the comment is not closed: `*/` is missing"),
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
        return here("in double quotes a backslash must be doubled: \"\\\\d\"");
    };
    let span = token.span.start..token.span.start + inner.len() + 2;
    there(span, format!("in double quotes a backslash must be doubled; in backticks not: `{inner}`"))
}

fn window_text(scene: &Scene<'_>) -> Option<Advice> {
    let token = scene.token();
    let source = scene.source(token);
    let end = source.find(']').map_or(source.len(), |end| end + 1);
    if source[..end].contains(':') {
        return here("LogQL has no subqueries: a function takes the lines of one window, [5m]");
    }
    let span = token.span.start..token.span.start + end;
    there(span, "a window is a number with a unit: [30s], [5m], [1h30m], [7d]")
}

/// Units of durations and of sizes.
const UNITS: &[&str] =
    &["ns", "us", "µs", "ms", "s", "m", "h", "d", "w", "y", "B", "KB", "MB", "GB", "KiB", "MiB", "GiB"];

/// The word around the start of the token, of characters for which `is_inside` holds, and its place.
fn word_around<'a>(scene: &Scene<'a>, is_inside: fn(char) -> bool) -> (Range<usize>, &'a str) {
    let (text, start) = (scene.text, scene.token().span.start);
    let from = text[..start].char_indices().rev().take_while(|(_, c)| is_inside(*c)).last();
    let from = from.map_or(start, |(at, _)| at);
    let to = text[start..].find(|c| !is_inside(c)).map_or(text.len(), |length| start + length);
    (from..to, &text[from..to])
}

/// `| json | request.status >= 500`, `{k8s.pod.name="a"}`
fn dotted_name(scene: &Scene<'_>) -> Option<Advice> {
    let (span, word) = word_around(scene, |c| matches!(c, '_' | '.') || c.is_alphanumeric());
    let is_dotted = word.trim_matches('.').contains('.') && !word.starts_with(|c: char| c.is_ascii_digit());
    if !is_dotted || scene.token().kind == Kind::String {
        return None;
    }
    let written = word.replace('.', "_");
    match scene.in_selector() {
        true => there(span, format!("names of labels have `_` in place of dots: `{written}`")),
        false => there(span, format!("fields of nested objects are joined with `_`: `{written}`")),
    }
}

/// `| took > 100mss`
fn unknown_unit(scene: &Scene<'_>) -> Option<Advice> {
    let (span, word) = word_around(scene, |c| c == '.' || c.is_alphanumeric());
    let digits = word.find(|c: char| c != '.' && !c.is_ascii_digit())?;
    let (number, unit) = word.split_at(digits);
    if number.is_empty() || scene.in_selector() || UNITS.contains(&unit) {
        return None;
    }
    let known = "units of times are ns, us, ms, s, m, h; units of sizes are B, KB, MB, GB, KiB, MiB, GiB";
    match nearest(unit, UNITS.iter().copied()) {
        Some(nearest) => there(span, format!("did you mean `{number}{nearest}`? {known}")),
        None => there(span, known),
    }
}

/// `app="api" |= "x"`
fn selector_without_braces(scene: &Scene<'_>) -> Option<Advice> {
    let is_matcher = |name: usize| {
        let kind = |at: usize| scene.tokens.get(at).map(|token| token.kind);
        matches!(kind(name), Some(Kind::Identifier))
            && matches!(kind(name + 1), Some(Kind::Word("=" | "!=" | "=~" | "!~")))
            && kind(name + 2) == Some(Kind::String)
    };
    if scene.at != 0 || !is_matcher(0) {
        return None;
    }
    let mut last = 2;
    while scene.tokens.get(last + 1).is_some_and(|t| t.kind == Kind::Word(",")) && is_matcher(last + 2) {
        last += 4;
    }
    let span = scene.token().span.start..scene.tokens[last].span.end;
    let selector = &scene.text[span.clone()];
    there(span, format!("the braces are missing: did you mean `{{{selector}}}`?"))
}

/// A query with an invalid first token.
fn beginning(scene: &Scene<'_>) -> Option<Advice> {
    if scene.at != 0 || matches!(scene.kind(1), Some(Kind::Word("(" | "{" | "by" | "without"))) {
        return None;
    }
    here("a query begins with a stream selector: {app=\"api\"} |= \"text\"")
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
        return here(format!("`{operator}` must be followed by text in quotes"));
    }
    let mut help = format!("text must be in quotes: {}", sandur_model::go_text::quote(word));
    if scene.in_selector() {
        help.push_str("; in a shell, put the query in single quotes: '{app=\"api\"}'");
    }
    here(help)
}

/// A token that is not valid between `{` and `}`.
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
            here(format!("numbers are compared after the selector: {{…}} | json | {name} > 500"))
        }
        (Kind::Word("{" | ","), Kind::String) => here("label names are not quoted"),
        (Kind::Word(","), Kind::Word("}")) => here("there must be no comma before `}`"),
        (Kind::String, Kind::Identifier | Kind::Word("and")) => {
            here("two matchers are separated by a comma: {app=\"api\", env=\"prod\"}")
        }
        (Kind::String, Kind::Word("or")) => here("a selector has no `or`: use a regex, {app=~\"api|web\"}"),
        (Kind::String, _) => here("`}` is missing"),
        (_, Kind::End) => here("the selector is not closed: {app=\"api\"}"),
        (Kind::Word("{" | ","), Kind::Word(word)) if word.starts_with(char::is_alphabetic) => {
            here(format!("`{word}` is a keyword and cannot be a label name here"))
        }
        _ => None,
    }
}

/// `{…} = "x"`, `{…} "x"`, `{…} | "x"`, `{…} =~ "x"`, `{…} | = "x"`
fn filter_without_bar(scene: &Scene<'_>) -> Option<Advice> {
    let ends_operand = |offset| matches!(scene.kind(offset), Some(Kind::Word("}") | Kind::String));
    let text = |offset| match scene.kind(offset) {
        Some(Kind::String) => scene.near(offset).map(|t| scene.source(t)),
        _ => None,
    };
    match scene.token().kind {
        Kind::Word(operator @ ("=" | "=~")) if ends_operand(-1) => {
            let with_bar = if operator == "=" { "|=" } else { "|~" };
            let text = text(1).unwrap_or("\"text\"");
            here(format!("a line filter is written `{with_bar} {text}`"))
        }
        Kind::Word("=") if scene.is(-1, "|") => here("`|=` is written without a space"),
        Kind::Identifier if scene.is(-1, "|") && scene.is(0, "~") => here("`|~` is written without a space"),
        Kind::Identifier if scene.is(0, "&") => {
            here("filters follow each other without an operator: |= \"a\" |= \"b\"")
        }
        Kind::Word("|") if scene.is(-1, "|") => {
            here("alternatives of a filter are joined by `or`: |= \"a\" or \"b\"")
        }
        Kind::String if ends_operand(-1) || scene.is(-1, "|") || scene.is(-1, "==") => {
            here(format!("a line filter is written `|= {}`", text(0)?))
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
    here(format!("`unwrap` is only valid inside a function: sum_over_time({{…}} | unwrap {label} [5m])"))
}

/// `| jsn`: parsed as a label that is not compared with anything.
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
        format!(
            "there is no such stage. Compare a label with | {name}=\"…\"; search lines with |= \"{name}\""
        ),
    )
}
