//! Converts Graphite's conditions to label matchers.
//!
//! **Invariant.** Label matchers may select more than the condition, never less. Results are compared with
//! the pattern or the expressions afterwards.

use sandur_model::{GRAPHITE_NODES_MAX, MatchOp, Matcher, graphite_level, is_graphite_label};

use crate::glob::{NodePattern, Pattern};
use crate::tags::{Operator, TagExpression};

/// The label of a series name.
pub(super) const NAME: &str = "__name__";

/// The label of a tag; `None` if the tag is a reserved label.
pub(super) fn label_of(tag: &str) -> Option<&str> {
    match tag {
        "name" => Some(NAME),
        tag if tag == NAME || is_graphite_label(tag) => None,
        tag => Some(tag),
    }
}

/// The tag of a label; `None` if the label is not a tag.
pub(super) fn tag_of(label: &str) -> Option<&str> {
    match label {
        NAME => Some("name"),
        // The name of a series takes precedence over a label of that name.
        "name" => None,
        label if is_graphite_label(label) => None,
        label => Some(label),
    }
}

/// The label matchers for a pattern of paths.
#[derive(Clone, Debug)]
pub(super) struct PathMatchers {
    /// The matchers for the levels.
    pub(super) levels: Vec<Matcher>,
    /// The number of levels of matching paths; `None` if it varies.
    pub(super) depth: Option<usize>,
}

/// The matchers for a pattern; `None` if no path can match.
pub(super) fn of_pattern(pattern: &Pattern) -> Option<PathMatchers> {
    let is_fixed = pattern.nodes().iter().all(|node| !matches!(node, NodePattern::Levels));
    let mut levels = Vec::new();
    for (level, node) in pattern.nodes().iter().enumerate() {
        if matches!(node, NodePattern::Levels) {
            break;
        }
        levels.push(of_node(graphite_level(level)?, node)?);
    }
    if levels.is_empty() {
        levels.push(Matcher::new(graphite_level(0)?, MatchOp::NotEqual, "").ok()?);
    }
    Some(PathMatchers { levels, depth: is_fixed.then(|| pattern.nodes().len()) })
}

impl PathMatchers {
    /// The matchers of series whose path matches.
    pub(super) fn of_leaves(&self) -> Vec<Matcher> {
        self.with_end(MatchOp::Equal)
    }

    /// The matchers of series below a matching path; `None` if there can be none.
    pub(super) fn of_branches(&self) -> Option<Vec<Matcher>> {
        (self.depth? < GRAPHITE_NODES_MAX).then(|| self.with_end(MatchOp::NotEqual))
    }

    fn with_end(&self, op: MatchOp) -> Vec<Matcher> {
        let end = self.depth.and_then(graphite_level).and_then(|label| Matcher::new(label, op, "").ok());
        self.levels.iter().cloned().chain(end).collect()
    }
}

/// The matcher for one level, which must exist.
fn of_node(label: &'static str, node: &NodePattern) -> Option<Matcher> {
    let made = match node.exact() {
        Some(names) if names.len() == 1 => Matcher::new(label, MatchOp::Equal, *names.first()?),
        _ => Matcher::new(label, MatchOp::Regex, node.regex()?),
    };
    // An expression that is too large is left to the comparison afterwards.
    made.or_else(|_| Matcher::new(label, MatchOp::NotEqual, "")).ok().filter(|made| !made.matches_empty())
}

/// The matchers of series whose tags match, and whether no further comparison is needed.
pub(super) fn of_expressions(expressions: &[TagExpression]) -> (Vec<Matcher>, bool) {
    let (mut matchers, mut is_exact) = (Vec::new(), true);
    for expression in expressions {
        let Some(label) = label_of(&expression.tag) else {
            is_exact = false;
            continue;
        };
        let (op, value) = match expression.operator {
            Operator::Equal => (MatchOp::Equal, expression.spec.clone()),
            Operator::NotEqual => (MatchOp::NotEqual, expression.spec.clone()),
            Operator::Match => (MatchOp::Regex, format!("(?:{}).*", expression.spec)),
            Operator::NotMatch => (MatchOp::NotRegex, format!("(?:{}).*", expression.spec)),
        };
        let is_regex = matches!(op, MatchOp::Regex | MatchOp::NotRegex);
        let is_alike = !is_regex || means_the_same(&expression.spec);
        let made = is_alike.then(|| Matcher::new(label, op, value).ok()).flatten();
        is_exact &= made.is_some();
        let instead =
            || Matcher::new(label, MatchOp::NotEqual, "").ok().filter(|_| !expression.fits_missing());
        matchers.extend(made.or_else(instead));
    }
    if matchers.iter().all(Matcher::matches_empty) {
        matchers.extend(Matcher::new(NAME, MatchOp::NotEqual, ""));
    }
    (matchers, is_exact)
}

/// Whether an expression of Python has the same meaning in Go: it consists of characters, wildcards,
/// repetitions, alternatives, groups and plain classes.
fn means_the_same(spec: &str) -> bool {
    let mut chars = spec.chars().peekable();
    while let Some(character) = chars.next() {
        let is_plain = match character {
            '\\' => chars.next().is_some_and(|next| next.is_ascii_punctuation()),
            '(' => chars.peek() != Some(&'?'),
            '[' => {
                let class: String = chars.by_ref().take_while(|character| *character != ']').collect();
                let inner = class.strip_prefix('^').unwrap_or(&class);
                !inner.is_empty()
                    && inner
                        .chars()
                        .all(|character| character.is_ascii_alphanumeric() || "-_.".contains(character))
                    && !inner.starts_with('-')
                    && !inner.contains("--")
            }
            '{' | '}' | ']' | '\n' => false,
            _ => true,
        };
        if !is_plain {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pattern: &str) -> String {
        let Some(matchers) = of_pattern(&Pattern::parse(pattern).unwrap()) else { return "none".to_owned() };
        let texts: Vec<String> = matchers.of_leaves().iter().map(Matcher::to_string).collect();
        texts.join(" ")
    }

    #[test]
    fn a_pattern_has_a_matcher_for_each_level() {
        for (pattern, expected) in [
            ("a.b", r#"__g0__="a" __g1__="b" __g2__="""#),
            ("a.*", r#"__g0__="a" __g1__=~".+" __g2__="""#),
            ("{a,b}.w?b*", r#"__g0__=~"b|a" __g1__=~"w.b.*" __g2__="""#),
            ("a.[a-c][!x^]", r#"__g0__="a" __g1__=~"[a-c][^x\\x{5e}]" __g2__="""#),
            ("a.**", r#"__g0__="a""#),
            ("**.a", r#"__g0__!="""#),
            ("a..b", "none"),
            ("a.[z-a]", "none"),
        ] {
            assert_eq!(shown(pattern), expected, "{pattern}");
        }
        assert_eq!(shown(&["a"; 65].join(".")), "none");
        assert_eq!(of_pattern(&Pattern::parse(&["a"; 64].join(".")).unwrap()).unwrap().of_leaves().len(), 64);
    }

    /// These were too large for an automaton, so every name was compared with each of them.
    #[test]
    fn thousands_of_alternatives_become_a_matcher() {
        let nodes: Vec<String> = (0..3_000).map(|n| format!("*z{n}*")).collect();
        let conditions = of_pattern(&Pattern::parse(&format!("{{{}}}", nodes.join(","))).unwrap()).unwrap();
        let matcher = &conditions.levels[0];
        assert_eq!(
            (matcher.op(), matcher.matches("xz2999y"), matcher.matches("xy")),
            (MatchOp::Regex, true, false)
        );
        let spec = (0..1_200).map(|n| format!(".*z{n}")).collect::<Vec<_>>().join("|");
        let expressions = TagExpression::parse_all([format!("name=~{spec}").as_str()]).unwrap();
        assert!(expressions[0].fits("az1199b") && !expressions[0].fits("z"));
        let (matchers, is_exact) = of_expressions(&expressions);
        assert!(is_exact && matchers[0].matches("az1199b") && !matchers[0].matches("z"));
    }

    #[test]
    fn expressions_with_another_meaning_in_python_are_compared_afterwards() {
        let of = |texts: &[&str]| {
            let (matchers, is_exact) = of_expressions(&TagExpression::parse_all(texts.to_vec()).unwrap());
            (matchers.iter().map(Matcher::to_string).collect::<Vec<_>>().join(" "), is_exact)
        };
        assert_eq!(of(&["name=a", "b!=~c|d"]), (r#"__name__="a" b!~"(?:c|d).*""#.to_owned(), true));
        assert_eq!(of(&[r"a=~\d+"]), (r#"a!="""#.to_owned(), false));
        assert_eq!(of(&["a=x", r"b!=~\w"]), (r#"a="x""#.to_owned(), false));
        assert_eq!(of(&["__graphite__!=x", "a=b"]), (r#"a="b""#.to_owned(), false));
        for (spec, is_same) in
            [("a.*[0-9]$", true), (r"a\.b", true), ("(?i)a", false), ("a{2}", false), ("[[]", false)]
        {
            assert_eq!(means_the_same(spec), is_same, "{spec}");
        }
    }
}
