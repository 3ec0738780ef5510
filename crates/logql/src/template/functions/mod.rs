//! The functions of templates, grouped by the kind of their arguments. The parser and the documentation are
//! made from the table [`FUNCTIONS`]. To add a function, add a line to the table of its group.

mod arguments;
mod compare;
mod encode;
mod function;
mod numbers;
mod print;
mod regexes;
mod text;
pub mod time;
mod time_methods;

pub use arguments::text_argument;
pub use function::{Function, Host, Site, function};
pub use regexes::RegexCache;
pub use text::regex_replace;
pub use time::NOW;
pub use time_methods::call as time_method;

/// Every function, by group.
pub const FUNCTIONS: &[&[Function]] =
    &[compare::TABLE, print::TABLE, text::TABLE, numbers::TABLE, encode::TABLE, time::TABLE];

/// The function of this name.
pub fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().copied().flatten().find(|function| function.name == name)
}

/// The functions that Go's templates have everywhere.
const OF_GO: &[&str] = &[
    "and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "print", "printf", "println", "len", "index",
    "slice",
];

/// The function of this name that Go's templates have everywhere.
pub fn of_go(name: &str) -> Option<&'static Function> {
    OF_GO.contains(&name).then(|| find(name)).flatten()
}

#[cfg(test)]
mod tests {
    use crate::stage::testing::run;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = super::FUNCTIONS.iter().copied().flatten().map(|f| f.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }

    /// One case per function or construct of the language.
    #[test]
    fn templates_have_gos_output() {
        let line = r#"name=Jane path=/a/b status=503 took=1.5s size=2KiB blank= words="a b c" ts=1700000000"#;
        for (template, expected) in CASES {
            let query = format!("{{app=\"s\"}} | logfmt | line_format `{template}`");
            let out = run(&query, line).unwrap_or_else(|| panic!("{template}"));
            let error = out.parsed.iter().find(|(n, _)| n == "__error__").map(|(_, v)| v.as_str());
            assert_eq!((error, out.line.as_str()), (None, *expected), "{template}");
        }
    }

    const CASES: &[(&str, &str)] = &[
        ("plain", "plain"),
        ("{{.name}}", "Jane"),
        ("{{ .name }}-{{.missing}}-", "Jane--"),
        ("a {{- .name -}} b", "aJaneb"),
        ("{{/* nothing */}}x", "x"),
        ("{{if .missing}}a{{else if .name}}b{{else}}c{{end}}", "b"),
        ("{{if eq .name \"Jane\"}}yes{{end}}", "yes"),
        ("{{if and (eq .name \"x\") .status}}a{{else}}b{{end}}", "b"),
        ("{{with .name}}{{.}}!{{end}}", "Jane!"),
        ("{{with $x := .name}}{{$x}}{{$.status}}{{end}}", "Jane503"),
        ("{{$x := 1}}{{if .name}}{{$x = 2}}{{end}}{{$x}}", "2"),
        ("{{range $i, $w := fromJson \"[\\\"a\\\",\\\"b\\\"]\"}}{{$i}}{{$w}};{{end}}", "0a;1b;"),
        ("{{range fromJson \"[]\"}}x{{else}}none{{end}}", "none"),
        ("{{range $i, $w := fromJson \"[1,2,3]\"}}{{if eq $i 1}}{{continue}}{{end}}{{$w}}{{end}}", "13"),
        ("{{.name | lower | printf \"%s-%s\" \"x\"}}", "x-jane"),
        ("{{__line__ | trunc 4}}", "name"),
        ("{{ToUpper .name}}{{ToLower .name}}{{upper .name}}", "JANEjaneJANE"),
        ("{{title \"hello world\"}}", "Hello World"),
        ("{{Replace .path \"/\" \"-\" 1}}{{replace \"/\" \"-\" .path}}", "-a/b-a-b"),
        ("{{Trim \"xxaxx\" \"x\"}}{{TrimLeft \"xa\" \"x\"}}{{TrimRight \"ax\" \"x\"}}", "aaa"),
        ("{{TrimPrefix .path \"/a\"}}{{TrimSuffix .path \"/b\"}}{{TrimSpace \" a \"}}", "/b/aa"),
        (
            "{{trim \" a \"}}{{trimAll \"$\" \"$5$\"}}{{trimPrefix \"-\" \"-x\"}}{{trimSuffix \"-\" \"x-\"}}",
            "a5xx",
        ),
        ("{{trunc 2 .name}}{{trunc -2 .name}}{{substr 1 3 .name}}", "Janean"),
        ("{{contains \"an\" .name}}{{hasPrefix \"J\" .name}}{{hasSuffix \"x\" .name}}", "truetruefalse"),
        ("{{indent 2 \"a\"}}{{nindent 2 \"a\"}}", "  a\n  a"),
        ("{{repeat 3 \"ab\"}}", "ababab"),
        (
            "{{alignLeft 6 .name}}|{{alignRight 6 .name}}|{{alignLeft 2 .name}}{{alignRight 2 .name}}",
            "Jane  |  Jane|Jane",
        ),
        ("{{default \"d\" .blank}}{{default \"d\" .name}}", "dJane"),
        ("{{regexReplaceAll \"a(.)\" .name \"<$1>\"}}", "J<n>e"),
        ("{{regexReplaceAllLiteral \"a(.)\" .name \"$1\"}}", "J$1e"),
        ("{{count \"/\" .path}}{{__line__ | count \"=\"}}", "28"),
        ("{{add 1 2 3}} {{sub 5 3}} {{mul 2 3 4}} {{div 7 2}} {{mod 7 3}}", "6 2 24 3 1"),
        ("{{addf 1.5 2}} {{subf 3 1.5}} {{mulf 2 1.5}} {{divf 3 2}}", "3.5 1.5 3 1.5"),
        ("{{max 1 3 2}} {{min 3 1 2}} {{maxf 1.5 2}} {{minf 1.5 2}}", "3 1 2 1.5"),
        ("{{divf 1 3}} {{addf 0.1 0.2}}", "0.3333333333333333 0.3"),
        ("{{float64 \"2000000\"}} {{trunc 3 \"a\"}}", "2e+06 a"),
        ("{{int \"0x1f\"}} {{int \"007\"}} {{int \"x\"}}", "31 7 0"),
        (
            "{{fromJson \"[null]\"}} {{fromJson \"null\"}} {{$m := fromJson \"x\"}}{{$m.a}}",
            "[<nil>] <no value> <no value>",
        ),
        ("{{ceil 1.2}} {{floor 1.8}} {{round 1.2345 2}}", "2 1 1.23"),
        ("{{int \"42\"}} {{int 1.9}} {{float64 \"1.5\"}} {{add .status 1}}", "42 1 1.5 504"),
        ("{{bytes .size}} {{duration .took}} {{duration_seconds .took}}", "2048 1.5 1.5"),
        ("{{b64enc .name}} {{b64dec \"SmFuZQ\"}}", "SmFuZQ== Jane"),
        ("{{urlencode \"a b/c\"}} {{urldecode \"a+b%2Fc\"}}", "a+b%2Fc a b/c"),
        (
            "{{printf \"%05d|%-5s|%5.2f|%x|%q|%v|%t|%%\" 42 \"a\" 1.234 255 \"q\" .name true}}",
            "00042|a    | 1.23|ff|\"q\"|Jane|true|%",
        ),
        ("{{printf \"%.3f|%8.2e|%f\" 1.5 1234.5 (divf -1 0)}}", "1.500|1.23e+03|-Inf"),
        (
            "{{printf \"%-8.3s|%8.3s|%5d\" 0.0 \"abcdef\" \"x\"}}",
            "%!s(float64=0       )|     abc|%!d(string=    x)",
        ),
        (
            "{{printf \"%.3g|%.3g|%.2v|%.3g|%g\" 1234.5 0.00001234 2.5 100.0 2.5}}",
            "1.23e+03|1.23e-05|2.5|100|2.5",
        ),
        ("{{printf \"%*d|%-*d|%.*f\" 4 7 -4 7 1 2.25}}", "   7|7   |2.2"),
        ("{{printf \"%*d\" .name 7}} {{printf \"%.*f\" -1 2.5}}", "%!(BADWIDTH)7 %!(BADPREC)2.500000"),
        ("{{printf \"a%1000001d\" 7}}", "a%!(NOVERB)%!(EXTRA int=7)"),
        ("{{printf \"%.70000f\" 0.5 | len}} {{printf \"%.70000e\" 0.5 | trunc -5}}", "70002 0e-01"),
        ("{{print 1 2 \"a\" \"b\"}}{{println \"x\"}}", "1 2abx\n"),
        ("{{len .name}}{{index (fromJson \"{\\\"k\\\":[5,6]}\") \"k\" 1}}{{slice .name 1 3}}", "46an"),
        (
            "{{not .blank}}{{or .blank .name}}{{ne 1 2}}{{lt 1 2}}{{le 2 2}}{{gt 1 2}}{{ge 2 2}}",
            "trueJanetruetruetruefalsetrue",
        ),
        ("{{(fromJson \"{\\\"a\\\":{\\\"b\\\":1}}\").a.b}}", "1"),
        ("{{__timestamp__ | unixEpoch}} {{__timestamp__ | unixEpochMillis}}", "1700000000 1700000000000"),
        ("{{__timestamp__ | unixEpochNanos}}", "1700000000000000000"),
        ("{{unixToTime .ts | date \"2006-01-02T15:04:05Z07:00\"}}", "2023-11-14T22:13:20Z"),
        ("{{date \"Mon Jan _2 3:04:05.000 PM\" __timestamp__}}", "Tue Nov 14 10:13:20.000 PM"),
        ("{{toDate \"2006-01-02\" \"2023-11-14\" | unixEpoch}}", "1699920000"),
        ("{{toDateInZone \"2006-01-02 15:04\" \"UTC\" \"2023-11-14 01:02\" | unixEpoch}}", "1699923720"),
    ];

    #[test]
    fn comparisons_with_nan_are_those_of_go() {
        for (name, expected) in [("lt", "false"), ("le", "false"), ("gt", "true"), ("ge", "true")] {
            let query = format!("{{app=\"s\"}} | logfmt | line_format `{{{{{name} (float64 .n) 1.0}}}}`");
            assert_eq!(run(&query, "n=NaN").unwrap().line, expected, "{name}");
        }
    }

    #[test]
    fn a_failed_template_marks_the_row() {
        for template in [
            "{{.name.x}}",
            "{{add}}",
            "{{trunc .name .name}}",
            "{{regexReplaceAll \"(\" .name \"\"}}",
            "{{bytes \"x\"}}",
            "{{unixToTime \"x\"}}",
            "{{nil | print}}",
            "{{if nil}}{{end}}",
        ] {
            let query = format!("{{app=\"s\"}} | logfmt | line_format `{template}`");
            let out = run(&query, "name=a").unwrap();
            let error = out.parsed.iter().find(|(n, _)| n == "__error__").map(|(_, v)| v.as_str());
            assert_eq!((error, out.line.as_str()), (Some("TemplateFormatErr"), "name=a"), "{template}");
        }
    }

    #[test]
    fn invalid_templates_are_refused() {
        for (template, reason) in [
            ("{{.a", "unclosed action"),
            ("{{if .a}}x", "unexpected EOF"),
            ("{{end}}", "unexpected {{end}}"),
            ("{{nofunc .a}}", "function \"nofunc\" not defined"),
            ("{{$x}}", "undefined variable \"$x\""),
            ("{{.a | .b}}", "non executable command"),
            ("{{}}", "missing value for command"),
            ("{{break}}", "outside {{range}}"),
            ("{{\"a}}", "unterminated quoted string"),
        ] {
            let query = format!("{{app=\"s\"}} | line_format `{template}`");
            let error = crate::parse(&query).unwrap_err().to_string();
            assert!(
                error.contains(reason) && error.contains("invalid line template: template: line:1:"),
                "{error}"
            );
        }
    }

    #[test]
    fn endless_loops_are_stopped() {
        let nested =
            "{{range $a := 100000}}{{range $b := 100000}}{{range $c := 100000}}x{{end}}{{end}}{{end}}";
        let out = run(&format!("{{app=\"s\"}} | line_format `{nested}`"), "line").unwrap();
        assert_eq!(out.line, "line");
        let out = run(r#"{app="s"} | line_format `{{repeat 100000000 "abc"}}`"#, "line").unwrap();
        assert_eq!(out.line, "line");
    }
}
