//! `line_format` and `label_format` with every template function.

use super::words;
use crate::random::Random;

pub(super) fn line_format(random: &mut Random) -> String {
    let parts: String = (0..=random.below(3)).map(|_| part(random)).collect();
    written("| line_format ", &parts)
}

pub(super) fn label_format(random: &mut Random) -> String {
    let mut all: Vec<String> = Vec::new();
    for _ in 0..=random.below(2) {
        let name = random.pick(&["new", "level", "app", "status", "word", "msg_new", "detected_level"]);
        if all.iter().any(|other| other.starts_with(&format!("{name}="))) {
            continue;
        }
        all.push(if random.chance(40) {
            format!("{name}={}", random.pick(words::NAMES))
        } else {
            written(&format!("{name}="), &part(random))
        });
    }
    format!("| label_format {}", all.join(", "))
}

/// Templates contain double quotes, so they are in backticks unless they contain backticks too.
fn written(before: &str, template: &str) -> String {
    if template.contains('`') {
        return format!("{before}{:?}", template);
    }
    format!("{before}`{template}`")
}

fn part(random: &mut Random) -> String {
    match random.below(12) {
        0 => random.pick(&["text", " ", "ü ", "[", "}", "\\"]).to_owned(),
        1..=3 => format!("{{{{.{}}}}}", random.pick(words::NAMES)),
        4 => format!("{{{{ {} }}}}", random.pick(WHOLE)),
        5 => {
            let (name, then) = (field(random), random.pick(words::VALUES));
            format!("{{{{ if {} }}}}{then}{{{{ else }}}}-{{{{ end }}}}", condition(random, &name))
        }
        6 => random.pick(BLOCKS).to_owned(),
        _ => format!("{{{{ {} }}}}", pipeline(random)),
    }
}

fn field(random: &mut Random) -> String {
    match random.below(8) {
        0 => "__line__".to_owned(),
        _ => format!(".{}", random.pick(words::NAMES)),
    }
}

fn condition(random: &mut Random, name: &str) -> String {
    match random.below(6) {
        0 => name.to_owned(),
        1 => format!("eq {name} \"info\""),
        2 => format!("and {name} (ne .level \"error\")"),
        3 => format!("not {name}"),
        4 => format!("or (hasPrefix \"e\" {name}) (contains \"o\" {name})"),
        _ => format!("gt (len {name}) 4"),
    }
}

fn pipeline(random: &mut Random) -> String {
    let mut text = field(random);
    for _ in 0..=random.below(2) {
        text += &format!(" | {}", random.pick(PIPED));
    }
    text
}

/// Functions with a string as last argument and as result, so that they can be combined in any order.
const PIPED: &[&str] = &[
    "ToLower",
    "ToUpper",
    "lower",
    "upper",
    "title",
    "trunc 5",
    "trunc -3",
    "substr 1 4",
    "trim",
    "trimAll \"e\"",
    "trimSuffix \"o\"",
    "trimPrefix \"i\"",
    "TrimSpace",
    "repeat 2",
    "indent 2",
    "nindent 1",
    "replace \"e\" \"E\"",
    "default \"none\"",
    "b64enc",
    "urlencode",
    "urldecode",
    "alignLeft 6",
    "alignRight 6",
    "printf \"%q\"",
    "printf \"%5s|\"",
    "printf \"%-8.3s\"",
    "printf \"%x\"",
    "printf \"%v\"",
    "printf \"%d\"",
    "regexReplaceAll \"e.\" \"<$0>\"",
    "regexReplaceAllLiteral \"[0-9]+\" \"$0\"",
    "count \"e\"",
    "len",
    "html",
    "js",
    "urlquery",
    "print",
    "println",
    "int",
    "float64",
    "b64dec",
    "quote",
    "contains \"e\"",
    "hasPrefix \"e\"",
    "hasSuffix \"o\"",
    "index \"a\"",
];

/// Complete actions.
const WHOLE: &[&str] = &[
    "__line__",
    "__timestamp__",
    "__timestamp__ | date \"2006-01-02T15:04:05.000Z07:00\"",
    "__timestamp__ | unixEpoch",
    "__timestamp__ | unixEpochMillis",
    "__timestamp__ | unixEpochNanos",
    "add 1 2 3",
    "sub 5 .n",
    "mul .n 2",
    "div 7 2",
    "div .n 0",
    "mod 7 3",
    "addf 1.5 .latency",
    "subf .latency 1",
    "mulf .latency_ms 0.001",
    "divf .latency 3",
    "max 1 .n 3",
    "min .n 2",
    "maxf 1.5 .latency",
    "minf .latency 2.5",
    "ceil .latency",
    "floor .latency_ms",
    "round .latency 2",
    "round 3.14159 3",
    "int .status",
    "float64 .latency",
    "duration .duration",
    "duration_seconds .dur",
    "bytes .bytes",
    "bytes .size",
    ".msg | lower | trunc 7 | upper",
    "Replace .msg \"e\" \"3\" -1",
    "Replace .msg \"e\" \"3\" 1",
    "Trim .msg \"rd\"",
    "TrimLeft .msg \"r\"",
    "TrimRight .msg \"d\"",
    "TrimPrefix .msg \"re\"",
    "TrimSuffix .msg \"ed\"",
    "substr 0 3 .msg",
    "printf \"%s-%s\" .level .method",
    "printf \"%05.1f\" (float64 .latency)",
    "printf \"%d\" (int .status)",
    "printf \"%T\" .level",
    "printf \"%s\"",
    "toDateInZone \"2006-01-02\" \"UTC\" \"2026-01-05\"",
    "toDate \"2006-01-02\" \"2026-01-05\" | unixEpoch",
    "unixToTime \"1767603600\"",
    "unixToTime \"1767603600000\"",
    "fromJson __line__",
    "(fromJson __line__).level",
    "date \"15:04\" __timestamp__",
    "eq .level \"info\"",
    "ne .level .app",
    "lt 1 2",
    "len .msg",
    "index .msg 0",
    "slice .msg 1 3",
    "regexReplaceAll `(\\w)(\\w+)` .msg `${2}${1}`",
    "contains \"e\" .msg",
    "and .level .msg",
    "or .absent \"x\"",
    "not .absent",
    ".",
    "$.level",
    "`raw`",
    "\"text\"",
    "1",
    "1.5",
    "true",
    "nil | print",
    "/* remark */",
    "- .level -",
    "\"\\u00fc\"",
    "'a'",
    "print .level .n 1",
    "html __line__",
    "js .msg",
    "call .level",
    "timeago",
    "repeat 3 .level",
    "alignLeft 4 .msg",
    "__timestamp__.Year",
    "__timestamp__.Unix",
    "lt .n \"5\"",
    "eq .status 200",
    "gt (int .status) 300",
    "ge (int .status) 404",
    "le .level \"info\"",
];

/// Blocks.
const BLOCKS: &[&str] = &[
    "{{ range $k, $v := fromJson __line__ }}{{ $k }};{{ end }}",
    "{{ range $i, $e := (fromJson __line__).list }}{{ $i }}={{ $e }};{{ else }}none{{ end }}",
    "{{ with .level }}<{{ . }}>{{ else }}none{{ end }}",
    "{{ with $x := .msg }}{{ $x | upper }}{{ end }}",
    "{{ $a := .level }}{{ $a }}/{{ $a = \"b\" }}{{ $a }}",
    "{{ if .level }}{{ if .absent }}a{{ else if .status }}b{{ else }}c{{ end }}{{ end }}",
    "{{ range $i, $c := .absent }}x{{ end }}",
    "{{- .level -}} x {{- .msg }}",
    "{{ define \"t\" }}T{{ . }}{{ end }}{{ template \"t\" .level }}",
    "{{ range 3 }}x{{ end }}",
    "{{ if and (eq .level \"error\") (ne .status \"200\") }}bad{{ else }}good{{ end }}",
    "{{ range (fromJson __line__).list }}{{ if eq . 1.0 }}{{ continue }}{{ end }}{{ . }}{{ break }}{{ end }}",
];
