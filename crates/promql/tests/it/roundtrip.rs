//! Goal: the text of an expression parses to the same expression.
//!
//! Method: random expressions from the language's own table of functions.

use proptest::prelude::*;
use sandur_promql::{FUNCTIONS, Type, parse, pretty};

fn selector() -> impl Strategy<Value = String> {
    let matcher = ("[a-z_]{1,3}", prop::sample::select(vec!["=", "!=", "=~", "!~"]), "[a-z.|\"\\\\é ]{0,4}");
    let text = |(name, op, value): (String, &str, String)| {
        // Any text is a valid regular expression once its special characters are removed.
        let value = if op.contains('~') { value.replace(['\\', '"', '|'], "") } else { value };
        format!("{name}{op}{:?}", value.replace('é', "e"))
    };
    let matchers = prop::collection::vec(matcher.prop_map(text), 0..3);
    let offset =
        prop::sample::select(vec!["", " offset 5m", " offset -(1h / 2)", " @ 12.5", " @ end() offset 1s"]);
    ("[a-z]{1,3}_total", matchers, offset).prop_map(|(name, matchers, offset)| {
        let braces = if matchers.is_empty() { String::new() } else { format!("{{{}}}", matchers.join(",")) };
        format!("{name}{braces}{offset}")
    })
}

fn vector() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![selector(), (0u32..1000).prop_map(|n| format!("vector({n}.5)"))];
    leaf.prop_recursive(5, 40, 4, |inner| {
        let op =
            prop::sample::select(vec!["+", "-", "*", "/", "%", "^", "atan2", "and", "or", "unless", "</"]);
        let matching = prop::sample::select(vec!["", "on (a) ", "ignoring (a, b) "]);
        let wrapped = prop::bool::ANY;
        let pair =
            (inner.clone(), op, matching, inner.clone(), wrapped).prop_map(|(a, op, m, b, wrapped)| {
                if wrapped { format!("({a} {op} {m}{b})") } else { format!("{a} {op} {m}{b}") }
            });
        let simple = |f: &&sandur_promql::Function| f.args == [Type::Vector] && f.returns == Type::Vector;
        let names: Vec<&str> = FUNCTIONS.iter().filter(simple).map(|f| f.name).collect();
        let call = (prop::sample::select(names), inner.clone()).prop_map(|(name, a)| format!("{name}({a})"));
        let windows = |f: &&sandur_promql::Function| f.args == [Type::Matrix];
        let names: Vec<&str> = FUNCTIONS.iter().filter(windows).map(|f| f.name).collect();
        let subquery = (prop::sample::select(names), inner.clone())
            .prop_map(|(name, a)| format!("{name}(({a})[1h30m:1m] offset 1m)"));
        let sum =
            (prop::sample::select(vec!["sum by (x, \"y z\")", "max without (q)", "topk"]), inner.clone())
                .prop_map(
                    |(op, a)| if op == "topk" { format!("topk(3, {a})") } else { format!("{op} ({a})") },
                );
        prop_oneof![pair, call, subquery, sum, inner.prop_map(|a| format!("-{a}"))]
    })
}

/// Words and marks of the language.
const TOKENS: &str = "sum by ( ) [ ] { } a 5m 1 + - ^ : , = \"x\" offset @ start step max_of and bool on \
                      group_left fill rate =~ anchored / <";

fn tokens() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(TOKENS.split_whitespace().collect::<Vec<_>>()), 0..14)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn printed_expressions_parse_to_the_same_tree(text in vector()) {
        let expr = parse(&text).map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?;
        let written = expr.to_string();
        for again in [written.clone(), pretty(&expr).unwrap()] {
            let other = parse(&again).map_err(|e| TestCaseError::fail(format!("{text} as {again}: {e}")))?;
            prop_assert_eq!(other.to_string(), written.clone(), "from {}", text);
        }
    }

    #[test]
    fn any_text_parses_or_fails_without_a_panic(text in "\\PC{0,60}") {
        let _ = parse(&text);
    }

    #[test]
    fn any_tokens_parse_or_fail_without_a_panic(tokens in tokens()) {
        let text = tokens.join(" ");
        if let Ok(expr) = parse(&text) {
            let written = expr.to_string();
            let again = parse(&written).map(|expr| expr.to_string()).ok();
            prop_assert_eq!(again, Some(written), "from {}", text);
        }
    }
}
