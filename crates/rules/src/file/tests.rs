//! Files that are read, and files that are refused with the line of the error.

use std::time::Duration;

use super::reading::ERRORS_MAX;
use super::*;
use crate::spec::{Language, RuleKind};

fn parse(text: &str) -> Result<Vec<GroupSpec>, FileErrors> {
    read(text, &"rules.yml".into(), ReadOptions::default())
}

#[test]
fn a_file_of_prometheus_is_read_unchanged() {
    let text = r#"
groups:
  - name: example
    interval: 30s
    limit: 10
    query_offset: 5s
    labels: {team: core, tier: "1"}
    rules:
      - record: job:up:sum
        expr: sum by (job) (up)
        labels:
          tier: "2"
      - alert: Down
        expr: |
          up == 0
        for: 5m
        keep_firing_for: 1h30m
        labels: {severity: page}
        annotations:
          summary: '{{ $labels.instance }} is down since {{ $value | humanizeDuration }}'
  - name: logs
    language: logql
    rules:
      - record: errors:rate5m
        expr: sum by (app) (rate({app=~".+"} |= "error" [5m]))
      - alert: UpAgain
        language: promql
        expr: vector(1)
"#;
    let groups = parse(text).unwrap();
    let [example, logs] = &groups[..] else { panic!("two groups") };
    assert_eq!((example.interval, example.limit), (Duration::from_secs(30), 10));
    assert_eq!((example.query_offset, logs.interval), (Duration::from_secs(5), Duration::from_secs(60)));
    let [sum, down] = &example.rules[..] else { panic!("two rules") };
    assert_eq!((sum.line, down.line, sum.kind == RuleKind::Recording), (9, 13, true));
    let labels = |rule: &crate::spec::RuleSpec| {
        rule.labels.iter().map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>()
    };
    assert_eq!(labels(sum), ["team=core", "tier=2"]);
    assert_eq!(labels(down), ["team=core", "tier=1", "severity=page"]);
    let RuleKind::Alerting { hold, keep_firing, annotations } = &down.kind else { panic!() };
    assert_eq!((*hold, *keep_firing), (Duration::from_secs(300), Duration::from_secs(5_400)));
    assert_eq!((down.expr.as_str(), annotations.len()), ("up == 0", 1));
    let languages: Vec<_> = logs.rules.iter().map(|rule| rule.language).collect();
    assert_eq!(languages, [Language::Logql, Language::Promql]);
    assert_eq!(parse("groups: []").unwrap(), []);
}

#[test]
fn errors_name_their_line() {
    let rule = |rest: &str| format!("groups:\n- name: g\n  rules:\n  - {rest}");
    for (text, expected) in [
        ("group: []".to_owned(), "line 1: unknown key 'group'; did you mean 'groups'?"),
        ("groups:\n- rules: []".to_owned(), "line 2: Groupname must not be empty"),
        (
            "groups:\n- {name: a, rules: []}\n- {name: a, rules: []}".to_owned(),
            "line 3: groupname: \"a\" is repeated in the same file",
        ),
        ("groups:\n- name: g\n  intervall: 1m".to_owned(), "line 3: unknown key 'intervall'; did you mean"),
        ("groups:\n- name: g\n  interval: soon".to_owned(), "line 3: interval: not a valid duration string"),
        ("groups:\n- name: g\n  limit: many".to_owned(), "line 3: limit: expected a whole number"),
        ("groups:\n- name: g\n  language: sql".to_owned(), "line 3: language: expected promql, logql"),
        (rule("{record: a, expr: b, window: 5m}"), "line 4: window: only rules with `language: graphite`"),
        (rule("{record: a, expr: b, language: graphite, window: 0s}"), "line 4: window: it must be from 1s"),
        (rule("{record: a, expr: 'f(', language: graphite}"), "line 4: could not parse expression"),
        (rule("{expr: up}"), "line 4: one of 'record' or 'alert' must be set"),
        (rule("{expr: up, record: a, alert: b}"), "line 4: only one of 'record' and 'alert' must be set"),
        (rule("{record: a}"), "line 4: field 'expr' must be set in rule"),
        (rule("record: a\n    expr: sum by(up\n"), "line 5: could not parse expression: "),
        (rule("record: a\n    expr: up\n    for: 5m"), "line 4: invalid field 'for' in recording rule"),
        (
            rule("record: a\n    expr: up\n    annotations: {a: b}"),
            "line 4: invalid field 'annotations' in recording rule",
        ),
        (rule("{record: 'a{b=\"c\"}', expr: up}"), "line 4: braces present in the recording rule name"),
        (rule("alert: a\n    expr: up\n    labels:\n      __name__: x"), "line 7: invalid label name"),
        (
            rule("alert: a\n    expr: up\n    annotations:\n      b: '{{ $x }}'"),
            "line 7: annotation \"b\": template: __alert_a:1: undefined variable \"$x\"",
        ),
        (rule("alert: a\n    expr: up\n    labels:\n      b: '{{ .'"), "line 7: label \"b\": template: "),
        (
            rule("alert: a\n    expr: up\n    labels:\n      b: '{{ trunc 3 .Value }}'"),
            "line 7: label \"b\": template: __alert_a:1: function \"trunc\" not defined",
        ),
        (rule("alert: a\n    expr: up\n    for: -5m"), "line 6: for: not a valid duration string"),
        (
            rule("alert: a\n    expr: 'sum(rate({app=\"x\"} |= \"error\" [5m])) > 1'"),
            "line 5: could not parse expression: ",
        ),
        (
            rule("alert: a\n    language: logql\n    expr: '{app=\"x\"}'"),
            "line 6: could not parse expression",
        ),
        ("groups: {a: b}".to_owned(), "line 1: groups: expected a list"),
    ] {
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}\n{error}\nshould be\n{expected}");
    }
}

#[test]
fn a_logql_expression_in_a_promql_rule_is_recognised() {
    let text =
        "groups:\n- name: g\n  rules:\n  - record: a\n    expr: 'sum(rate({app=\"x\"} |= \"error\" [5m]))'";
    let error = parse(text).unwrap_err().to_string();
    assert!(
        error.contains("it is valid LogQL: add `language: logql` to the rule or its group, or name"),
        "{error}"
    );
}

#[test]
fn all_errors_of_a_file_are_reported_up_to_a_limit() {
    let rules = "  - {expr: up}\n".repeat(500);
    let errors = parse(&format!("groups:\n- name: g\n  rules:\n{rules}")).unwrap_err();
    assert_eq!((errors.0.len(), errors.0[7].line), (ERRORS_MAX, 11));
    assert!(errors.to_string().ends_with("(and 99 more errors)"));
}

#[test]
fn a_change_of_lines_is_no_change_of_a_group() {
    let text = "groups:\n- name: g\n  rules:\n  - {record: a, expr: up}\n";
    let one = parse(text).unwrap();
    let moved = parse(&format!("# comment\n\n{text}")).unwrap();
    assert!(one != moved && one[0].equals(&moved[0]));
    let other = parse(&text.replace("expr: up", "expr: down")).unwrap();
    assert!(!one[0].equals(&other[0]));
}

#[test]
fn a_group_in_its_stored_form_is_the_same_group() {
    let text = r#"
# a comment
name: "a: b"
interval: 30s
limit: 10
language: logql
labels: {team: core, empty: , '"q"': "x\ty"}
rules:
- &first
  alert: 'Down #1'
  expr: |
    sum by (app) (rate({app="x"} |= "a\\b" [5m]))
      > 1
  for: 5m
  labels: {severity: '10'}
  annotations:
    summary: "{{ $labels.app }}: \u00e4 \x07 'q' | {{ $value }}\n- x: y"
- <<: *first
  alert: Other
- {record: r, language: promql, expr: 'vector(1)', for: 0s}
"#;
    let options = ReadOptions::default();
    let (group, stored) = read_group(text, &"f".into(), options).unwrap();
    let (again, same) = read_group(&stored, &"f".into(), options).unwrap();
    assert!(group.equals(&again), "{stored}\n{group:?}\n{again:?}");
    assert_eq!(stored, same);
    let listed: String = std::iter::once("groups:\n".to_owned())
        .chain(
            stored
                .lines()
                .enumerate()
                .map(|(n, l)| format!("{}{l}\n", if n == 0 { "    - " } else { "      " })),
        )
        .collect();
    let groups = read(&listed, &"f".into(), options).unwrap();
    assert!(group.equals(&groups[0]), "{listed}");
    let without = read_group("name: g\nrules: []", &"f".into(), options).unwrap().1;
    assert_eq!(without, "name: \"g\"\nrules: []\n");
}
