//! Tests of the parser: trees are printed in Prometheus's form, and errors have its texts.

#![allow(clippy::unwrap_used)] // tests may panic

use super::*;

fn written(text: &str) -> String {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).to_string()
}

#[test]
fn expressions_are_printed_as_in_prometheus() {
    for (text, expected) in [
        ("1 + 2 * 3 ^ -2", "1 + 2 * 3 ^ -2"),
        ("-a ^ 2", "-a ^ 2"),
        ("sum  by(job) (rate(x{a='b'}[5m]))", "sum by (job) (rate(x{a=\"b\"}[5m]))"),
        ("sum(x) without (a, b)", "sum without (a, b) (x)"),
        ("topk(5, x)", "topk(5, x)"),
        ("a / on(x) group_left(y) b", "a / on (x) group_left (y) b"),
        ("a and b or c", "a and b or c"),
        ("foo offset -1h @ 10.5", "foo @ 10.500 offset -1h"),
        ("foo[5m] anchored @ start() offset 1m", "foo[5m] anchored @ start() offset 1m"),
        ("rate(foo[5m:1m])[1h:]", "rate(foo[5m:1m])[1h:]"),
        ("foo[(1h / 2) + step()]", "foo[(1h / 2) + step()]"),
        ("foo offset -(1m * 2)", "foo offset -(1m * 2)"),
        ("foo offset -2 * 2", "foo offset -2s * 2"),
        ("{\"a b\", c!~\"d\"}", "{__name__=\"a b\",c!~\"d\"}"),
        ("a == bool fill_left(-1) b", "a == bool fill_left (-1) b"),
        ("foo </ 2 >/ 1", "foo </ 2 >/ 1"),
        ("info(a, {b=~\"c\"})", "info(a, {b=~\"c\"})"),
        ("1h30m", "1h30m"),
        ("Inf + -Inf", "+Inf + -Inf"),
        ("sum", "sum"),
        ("fill + fill", "fill + fill"),
        ("max_of(1, 2)", "max_of(1, 2)"),
    ] {
        assert_eq!(written(text), expected, "{text}");
        assert_eq!(written(expected), expected);
    }
}

#[test]
fn errors_have_the_texts_and_places_of_prometheus() {
    for (text, expected) in [
        ("", "unknown position: parse error: no expression found in input"),
        ("1 +", "1:4: parse error: unexpected end of input"),
        ("(1", "1:3: parse error: unclosed left parenthesis"),
        ("foo bar", "1:5: parse error: unexpected identifier \"bar\""),
        ("sum(1)", "1:5: parse error: expected type instant vector in aggregation expression, got scalar"),
        ("nope(1)", "1:1: parse error: unknown function with name \"nope\""),
        (
            "rate(foo)",
            "1:6: parse error: expected type range vector in call to function \"rate\", got instant vector",
        ),
        ("{}", "1:1: parse error: vector selector must contain at least one non-empty matcher"),
        ("1 == 1", "1:3: parse error: comparisons between scalars must use BOOL modifier"),
        ("foo + bool bar", "1:5: parse error: bool modifier can only be used on comparison operators"),
        ("1 and foo", "1:1: parse error: set operator \"and\" not allowed in binary scalar expression"),
        ("foo[5m] offset 1m offset 2m", "1:1: parse error: offset may not be set multiple times"),
        ("foo[0m]", "1:5: parse error: duration must be greater than 0"),
        ("foo{a=}", "1:7: parse error: unexpected \"}\" in label matching, expected string"),
        ("abs(a, b)", "1:1: parse error: expected 1 argument(s) in call to \"abs\", got 2"),
        ("\nsum by a (x)", "2:8: parse error: unexpected identifier \"a\" in grouping opts, expected \"(\""),
        (
            "topk(x)",
            "1:1: parse error: wrong number of arguments for aggregate expression provided, expected 2, \
             got 1",
        ),
        ("START()", "1:1: parse error: unknown function with name \"START\""),
        (
            "a + on (b) group_left",
            "1:22: parse error: unexpected end of input in grouping opts, expected \"(\"",
        ),
        ("foo 'éééééé'", "1:5: parse error: unexpected string \"'éééééé'\"..."),
        ("foo offset NaN", "1:12: parse error: duration out of range"),
        ("99999999999999999999y", "1:1: parse error: not a valid duration string: \"99999999999999999999y\""),
        (
            "foo{a=~\"a**\"}",
            "1:5: parse error: error parsing regexp: invalid nested repetition operator: `**`",
        ),
        (
            "foo smoothed anchored",
            "1:1: parse error: anchored and smoothed modifiers cannot be used together",
        ),
    ] {
        assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text}");
    }
}

#[test]
fn metrics_and_selectors_parse_by_themselves() {
    assert_eq!(parse_metric("a{b=\"c\",}").unwrap().to_string(), r#"{__name__="a", b="c"}"#);
    assert_eq!(parse_metric("{\"x.y\"}").unwrap().get("__name__"), Some("x.y"));
    assert_eq!(parse_metric("a{\"b\"}").unwrap().get("__name__"), Some("a"));
    assert_eq!(parse_selector("a{b!=\"c\"}").unwrap().len(), 2);
    assert!(parse_selector("a[5m]").is_err());
}

#[test]
fn an_offset_in_parentheses_continues_with_operators() {
    for (text, expected) in [
        ("foo offset (1h) / 2", "foo offset (1h) / 2"),
        ("foo offset +-5m", "foo offset -5m"),
        ("foo offset +step()", "foo offset step()"),
    ] {
        let expr = parse(text).unwrap();
        assert!(matches!(expr, Expr::Selector(_)), "{text}");
        assert_eq!(expr.to_string(), expected);
    }
    for text in ["foo offset 1h / 2", "foo offset -(1h) / 2", "foo offset step() / 2"] {
        assert!(matches!(parse(text).unwrap(), Expr::Chain(_)), "{text}");
    }
    let error = parse("foo offset (1h) + bar").unwrap_err().to_string();
    let expected = "1:19: parse error: unexpected identifier \"bar\" in offset, expected number, duration, \
                    step(), or range()";
    assert_eq!(error, expected);
    // A duration that begins with two signs is printed in parentheses; without them it would end before the
    // operator.
    for (text, expected) in [
        ("foo offset --5m * 2", "foo offset (5m * 2)"),
        ("foo offset +-step() ^ 2", "foo offset (-step() ^ 2)"),
        ("foo offset --step() ^ 2", "foo offset --step() ^ 2"),
        ("foo offset -(5m * 2)", "foo offset -(5m * 2)"),
        ("foo offset -max_of(1m, 2)", "foo offset -max_of(1m, 2)"),
    ] {
        assert_eq!(written(text), expected, "{text}");
        assert!(matches!(parse(expected).unwrap(), Expr::Selector(_)), "{text}");
    }
    let far = parse("foo offset -1e10").unwrap_err().to_string();
    assert_eq!(far, "1:12: parse error: duration out of range");
}

#[test]
fn a_lexer_error_is_reported_before_an_error_to_its_left() {
    for (text, expected) in [
        ("foo[-5m$]", "1:8: parse error: unexpected character: '$'"),
        ("foo[5m / 0$]", "1:11: parse error: unexpected character: '$'"),
        ("sum()$", "1:6: parse error: unexpected character: '$'"),
        ("sum by (a) ()$", "1:1: parse error: no arguments for aggregate expression provided"),
        (
            "topk(a{}, 1)",
            "1:11: parse error: expected type instant vector in aggregation expression, got scalar",
        ),
        (
            "topk(a{__name__='b'}, 1)",
            "1:23: parse error: expected type instant vector in aggregation expression, got scalar",
        ),
    ] {
        assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text}");
    }
}

#[test]
fn matching_is_not_printed_if_a_side_is_a_scalar() {
    assert_eq!(written("1 + on () foo"), "1 + foo");
    assert_eq!(written("foo * on () group_left 2"), "foo * 2");
    assert_eq!(written("foo * on () group_left bar"), "foo * on () group_left () bar");
}

#[test]
fn names_must_be_utf_8() {
    let error = parse(r#"sum by ("\xff") (foo)"#).unwrap_err().to_string();
    assert_eq!(error, r#"1:9: parse error: invalid label name for grouping: "\xff""#);
    let error = parse("foo{a=\"\u{fffd}\"}").unwrap_err().to_string();
    assert_eq!(error, "1:7: parse error: invalid UTF-8 rune");
    assert_eq!(written(r#"foo{a="\ufffd"}"#), r#"foo{a="\ufffd"}"#);
    assert_eq!(written(r#"foo{a="\xe2\x82"}"#), r#"foo{a="\ufffd\ufffd"}"#);
}

#[test]
fn long_durations_keep_their_units() {
    assert_eq!(written("2562047h"), "106751d23h");
    assert_eq!(written("1s1ms"), "1s1ms");
}
