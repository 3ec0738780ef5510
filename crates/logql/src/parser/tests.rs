//! Tables of queries with their printed form, and of invalid queries with their errors.

use crate::parse;

#[test]
fn printed_queries_parse_to_the_same_tree() {
    for (query, text) in [
        (r#"{app="a",env=~"b.*"}"#, r#"{app="a", env=~"b.*"}"#),
        (r#"({app="a"})"#, r#"{app="a"}"#),
        (r#"{app="a"} |= "x" != `y` |~ "z" !~ "w""#, r#"{app="a"} |= "x" != "y" |~ "z" !~ "w""#),
        (r#"{app="a"} |= "x" or "y" or ip("1.2.3.4")"#, r#"{app="a"} |= "x" or "y" or ip("1.2.3.4")"#),
        (r#"{app="a"} |> "<_>x" !> "y""#, r#"{app="a"} |> "<_>x" !> "y""#),
        (
            r#"{app="a"} | json | logfmt --strict --keep-empty"#,
            r#"{app="a"} | json | logfmt --strict --keep-empty"#,
        ),
        (r#"{app="a"} | json x="a.b", y"#, r#"{app="a"} | json x="a.b",y="y""#),
        (
            r#"{app="a"} | regexp "(?P<x>.)" | pattern "<y>""#,
            r#"{app="a"} | regexp "(?P<x>.)" | pattern "<y>""#,
        ),
        (r#"{app="a"} | unpack | decolorize"#, r#"{app="a"} | unpack | decolorize"#),
        (r#"{app="a"} | drop a, b="c" | keep d"#, r#"{app="a"} | drop a,b="c" | keep d"#),
        (
            r#"{app="a"} | line_format "{{.x}}" | label_format a=b,c="d""#,
            r#"{app="a"} | line_format "{{.x}}" | label_format a=b,c="d""#,
        ),
        (r#"{app="a"} | x>5 and y="z""#, r#"{app="a"} | ( x>5 , y="z" )"#),
        (
            r#"{app="a"} | x>5s or (y<=1KB, z!=ip("::1"))"#,
            r#"{app="a"} | ( x>5s or ( y<=1.0kB , z!=ip("::1") ) )"#,
        ),
        (r#"count_over_time({app="a"}[5m])"#, r#"count_over_time({app="a"}[5m])"#),
        (r#"RATE({app="a"} [1h] offset 5m)"#, r#"rate({app="a"}[1h] offset 5m)"#),
        (
            r#"rate({app="a"}[1h] offset -5m |= "x" | json)"#,
            r#"rate({app="a"} |= "x" | json[1h] offset -5m)"#,
        ),
        (r#"rate({app="a"}[1h] offset 5ns)"#, r#"rate({app="a"}[1h] offset 5ns)"#),
        (
            r#"rate({app="a"}[1h] offset -9223372036854775808ns)"#,
            r#"rate({app="a"}[1h] offset -2562047h47m16.854775808s)"#,
        ),
        (r#"rate(({app="a"} |= "x")[1h])"#, r#"rate({app="a"} |= "x"[1h])"#),
        (r#"rate(({app="a"}[1h]))"#, r#"rate({app="a"}[1h])"#),
        (
            r#"sum_over_time({app="a"}[1h] | json | unwrap x)"#,
            r#"sum_over_time({app="a"} | json | unwrap x[1h])"#,
        ),
        (
            r#"quantile_over_time(0.99, {app="a"} | unwrap duration(x) | __error__="" [1h]) by (a,b)"#,
            r#"quantile_over_time(0.99,{app="a"} | unwrap duration(x) | __error__=""[1h]) by (a,b)"#,
        ),
        (r#"sum by (a) (rate({app="a"}[1m]))"#, r#"sum by (a) (rate({app="a"}[1m]))"#),
        (r#"sum(rate({app="a"}[1m])) without (a)"#, r#"sum without (a) (rate({app="a"}[1m]))"#),
        (r#"topk(5, sum(rate({app="a"}[1m])) by (b))"#, r#"topk(5,sum by (b) (rate({app="a"}[1m])))"#),
        ("1 + 2 * 3", "7"),
        ("2 ^ 3 ^ 2", "512"),
        ("(1 + 2) * 3", "9"),
        ("-5 - 3", "-8"),
        ("1 > 2", "0"),
        ("vector(1) + vector(2)", "(vector(1) + vector(2))"),
        (
            r#"rate({a="b"}[1m]) / on (x) group_left (y) rate({a="b"}[1m])"#,
            r#"(rate({a="b"}[1m]) / on (x) group_left (y) rate({a="b"}[1m]))"#,
        ),
        (
            r#"rate({a="b"}[1m]) > bool ignoring (x) rate({a="b"}[1m]) or rate({a="b"}[1m])"#,
            r#"((rate({a="b"}[1m]) > bool ignoring (x) rate({a="b"}[1m])) or rate({a="b"}[1m]))"#,
        ),
        (
            r#"label_replace(rate({a="b"}[1m]), "x", "$1", "y", "(.*)")"#,
            r#"label_replace(rate({a="b"}[1m]),"x","$1","y","(.*)")"#,
        ),
        ("sum(rate({a=\"b\"}[1m])) # comment\n + 1", r#"(sum(rate({a="b"}[1m])) + 1)"#),
        (r#"{a="b"} | rate = "x" and duration > 5s"#, r#"{a="b"} | ( rate="x" , duration>5s )"#),
    ] {
        let parsed = parse(query).unwrap_or_else(|e| panic!("{query}: {e}"));
        assert_eq!(parsed.to_string(), text, "{query}");
        let again = parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(again.to_string(), text);
    }
}

#[test]
fn errors_have_lokis_texts() {
    for (query, error) in [
        (r#"{foo="bar""#, "parse error at line 1, col 11: syntax error: unexpected $end, expecting } or ,"),
        (
            r#"{foo="bar"} |~"#,
            "parse error at line 1, col 15: syntax error: unexpected $end, expecting STRING or ip",
        ),
        (r#"{foo="bar"} "foo""#, "parse error at line 1, col 13: syntax error: unexpected STRING"),
        (r#"{foo="bar"} foo"#, "parse error at line 1, col 13: syntax error: unexpected IDENTIFIER"),
        (r#"{foo="#, "parse error at line 1, col 6: syntax error: unexpected $end, expecting STRING"),
        (r#"{foo="bar"#, "parse error at line 1, col 6: literal not terminated"),
        ("{foo}", "parse error at line 1, col 5: syntax error: unexpected }, expecting = or =~ or !~ or !="),
        (
            r#"{ foo = "bar" }|logfmt|addr>ip("1.2.3.4")"#,
            "parse error at line 1, col 29: syntax error: unexpected ip",
        ),
        (
            "rate({ foo = \"bar\" }[5minutes])",
            "parse error at line 0, col 21: unknown unit \"minutes\" in duration \"5minutes\"",
        ),
        (r#"rate({ foo = "bar" }[5)"#, "parse error at line 0, col 21: missing closing ']' in duration"),
        (r#"min({ foo = "bar" }[5m])"#, "parse error at line 0, col 20: syntax error: unexpected RANGE"),
        (r#"stddev({ foo = "bar" })"#, "parse error at line 1, col 23: syntax error: unexpected )"),
        (
            r#"bottomk(he,count_over_time({ foo = "bar" }[5h]))"#,
            "parse error at line 1, col 9: syntax error: unexpected IDENTIFIER",
        ),
        (
            r#"bottomk(1.2,count_over_time({ foo = "bar" }[5h]))"#,
            "parse error : invalid parameter bottomk(1.2,",
        ),
        (
            r#"topk(0,count_over_time({ foo = "bar" }[5h]))"#,
            "parse error : invalid parameter (must be greater than 0) topk(0",
        ),
        (
            r#"topk(count_over_time({ foo = "bar" }[5h]))"#,
            "parse error : parameter required for operation topk",
        ),
        (
            r#"sum(3,count_over_time({ foo = "bar" }[5h]))"#,
            "parse error : unsupported parameter for operation sum(3,",
        ),
        (
            r#"label_replace(rate({ foo = "bar" }[5m]),"")"#,
            "parse error at line 1, col 43: syntax error: unexpected ), expecting ,",
        ),
        (
            "vector(abc)",
            "parse error at line 1, col 8: syntax error: unexpected IDENTIFIER, expecting NUMBER",
        ),
        (
            r#"count without (rate({namespace="apps"}[15s]))"#,
            "parse error at line 1, col 16: syntax error: unexpected RATE, expecting IDENTIFIER or )",
        ),
        (
            r#"quantile_over_time(foo,{namespace="tns"} | unwrap latency [5m])"#,
            "parse error at line 1, col 20: syntax error: unexpected IDENTIFIER, expecting NUMBER or { or (",
        ),
        (
            r#"quantile_over_time({a="b"} | unwrap x [5m])"#,
            "parse error : parameter required for operation quantile_over_time",
        ),
        (
            r#"sum_over_time(50,{a="b"} | unwrap x [5m])"#,
            "parse error : parameter 50 not supported for operation sum_over_time",
        ),
        (r#"sum_over_time({a="b"}[5m])"#, "parse error : invalid aggregation sum_over_time without unwrap"),
        (
            r#"count_over_time({a="b"} | unwrap foo [5m])"#,
            "parse error : invalid aggregation count_over_time with unwrap",
        ),
        (
            r#"sum_over_time({a="b"} | unwrap x [5m]) by (foo)"#,
            "parse error : grouping not allowed for sum_over_time aggregation",
        ),
        (
            r#"absent_over_time({ foo = "bar" }[5h]) by (foo)"#,
            "parse error : grouping not allowed for absent_over_time aggregation",
        ),
        (
            r#"sum(rate({a="b"}[1m])) or 1"#,
            "parse error : unexpected literal for right leg of logical/set binary operation (or): 1.000000",
        ),
        (
            r#"{a="b"} / sum(rate({a="b"}[5m]))"#,
            "parse error : unexpected type for left leg of binary operation (/): *syntax.MatchersExpr",
        ),
        (
            r#"sum(rate({a="b"}[5m])) - {a="b"} |= "x""#,
            "parse error : unexpected type for right leg of binary operation (-): *syntax.PipelineExpr",
        ),
        (
            "0x10",
            "parse error : unable to parse literal as a float: \
             strconv.ParseFloat: parsing \"0x10\": invalid syntax",
        ),
        (
            r#"(rate({a="b"}[1m]) > 0x10) or (-3.5)"#,
            "parse error : unexpected literal for right leg of logical/set binary operation (or): -3.500000",
        ),
        (r#"sort(rate({a="b"}[5m])) by (x)"#, "parse error : sort and sort_desc doesn't allow grouping by "),
        (
            r#"{a="b"} | line_format"#,
            "parse error at line 1, col 22: syntax error: unexpected $end, expecting STRING",
        ),
        (r#"{a="b"} | unwrap x"#, "parse error at line 1, col 11: syntax error: unexpected unwrap"),
        ("", "parse error at line 1, col 1: syntax error: unexpected $end"),
        ("{a=\"b\"} |\n  nope", "parse error at line 2, col 7: syntax error: unexpected $end"),
    ] {
        let found = parse(query).map(|e| e.to_string());
        assert_eq!(found.map_err(|e| e.to_string()), Err(error.to_owned()), "{query}");
    }
}

#[test]
fn a_selector_must_not_select_every_stream() {
    for query in [
        "{}",
        r#"{app=~".*"}"#,
        r#"{app!="x"}"#,
        r#"{app=""}"#,
        r#"sum(rate({app!~"a"}[1m]))"#,
        r#"1 + rate({app=~".+"}[1m]) + rate({app=~".*"}[1m])"#,
    ] {
        let error = parse(query).unwrap_err().to_string();
        assert!(
            error.starts_with("parse error : queries require at least one regexp or equality matcher"),
            "{query}: {error}"
        );
    }
    for query in [r#"{app=~".+"}"#, r#"{app="a", b!="c"}"#, r#"{app=~"a|b"}"#] {
        parse(query).unwrap();
    }
    assert_eq!(crate::parse_selector("{}").unwrap().len(), 0);
    assert_eq!(crate::parse_selector(r#"{a!="b"}"#).unwrap().len(), 1);
    assert!(crate::parse_selector(r#"{a="b"} |= "x""#).is_err());
}

#[test]
fn deep_and_long_queries_are_refused() {
    let deep = format!("{}1 + vector(1){}", "1 + (".repeat(5000), ")".repeat(5000));
    assert!(parse(&deep).unwrap_err().to_string().contains("more than 100 levels"));
    let functions = format!("{}vector(1){}", "sum(".repeat(5000), ")".repeat(5000));
    assert!(parse(&functions).unwrap_err().to_string().contains("more than 100 levels"));
    let many = format!("vector(1){}", " + vector(1)".repeat(5000));
    assert!(parse(&many).unwrap_err().to_string().contains("more than 2000 operands"));
    let long = format!(r#"{{a="{}"}}"#, "x".repeat(140_000));
    assert!(parse(&long).unwrap_err().to_string().contains("input size too long"));
}
