//! Files of tests that pass and that fail.

use std::fs;

use super::*;

const RULES: &str = r#"
groups:
  - name: example
    rules:
      - alert: InstanceDown
        expr: up == 0
        for: 5m
        labels: {severity: page}
        annotations:
          summary: 'Instance {{ $labels.instance }} down in {{ $externalLabels.cluster }}'
          link: '{{ $externalURL }}'
      - record: job:up:sum
        expr: sum by (job) (up)
      - record: errors:count5m
        language: logql
        expr: sum by (app) (count_over_time({app=~".+"} |= "error" [5m]))
      - alert: Errors
        expr: errors:count5m > 1
"#;

const TESTS: &str = r#"
rule_files: [rules*.yml]
evaluation_interval: 1m
group_eval_order: [example]
tests:
  - name: down
    interval: 1m
    external_labels: {cluster: c1}
    external_url: http://sandur
    input_series:
      - series: 'up{job="prometheus", instance="localhost:9090"}'
        values: '1 1 0x10'
      - series: up{job="node", instance="n"}
        values: '1+0x6 _x2 stale'
    input_streams:
      - stream: '{app="api"}'
        lines: [ok, error one, _, error two, ok]
    alert_rule_test:
      - eval_time: 6m
        alertname: InstanceDown
      - eval_time: 10m
        alertname: InstanceDown
        exp_alerts:
          - exp_labels: {severity: page, instance: 'localhost:9090', job: prometheus}
            exp_annotations:
              summary: Instance localhost:9090 down in c1
              link: http://sandur
      - eval_time: 4m
        alertname: Errors
        exp_alerts: [{exp_labels: {app: api}}]
    promql_expr_test:
      - expr: job:up:sum
        eval_time: 4m
        exp_samples:
          - {labels: 'job:up:sum{job="prometheus"}', value: 0}
          - {labels: 'job:up:sum{job="node"}', value: 1}
      - expr: ALERTS{alertstate="pending", alertname="InstanceDown"}
        eval_time: 4m
        exp_samples:
          - labels: >-
              ALERTS{alertname="InstanceDown", alertstate="pending", instance="localhost:9090",
              job="prometheus", severity="page"}
            value: 1
      - {expr: 'scalar(vector(2)) * 3', eval_time: 0s, exp_samples: [{value: 6}]}
    logql_expr_test:
      - expr: 'count_over_time({app="api"}[5m])'
        eval_time: 4m
        exp_samples: [{labels: '{app="api"}', value: 4}]
"#;

async fn failures(rules: &str, tests: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("rules1.yml"), rules).unwrap();
    let path = directory.path().join("test.yml");
    fs::write(&path, tests).unwrap();
    let outcome = run(&Env::simulated(1, 0), &path, &[]).await;
    outcome.err().unwrap_or_default().join("\n")
}

#[tokio::test(start_paused = true)]
async fn a_file_of_promtool_passes() {
    assert_eq!(failures(RULES, TESTS).await, "");
}

const GRAPHITE: &str = r#"
groups:
  - name: carbon
    language: graphite
    rules:
      - record: load:avg
        expr: averageSeries(servers.*.load)
      - alert: HighLoad
        expr: currentAbove(aliasByNode(servers.*.load, 1), 5)
        for: 2m
        annotations:
          summary: >-
            {{ $labels.name }} has {{ $value }} of
            {{ query "maxSeries(servers.*.load)" | first | value }}
      - alert: Slow
        expr: currentAbove(seriesByTag('name=latency', 'dc=x'), 1)
      - alert: OldBackup
        expr: currentAbove(backup.age, 10)
        window: 1h
"#;

const GRAPHITE_TESTS: &str = r#"
rule_files: [rules*.yml]
tests:
  - interval: 1m
    input_graphite:
      - {series: servers.a.load, values: '1 2 6 7 8 9'}
      - {series: servers.b.load, values: '1 1 1 1 1 1'}
      - {series: 'latency;dc=x;host=h', values: '_ _ 2 _ _ _ _ _ _ _'}
      - {series: backup.age, values: '11'}
    alert_rule_test:
      - eval_time: 3m
        alertname: HighLoad
      - eval_time: 5m
        alertname: HighLoad
        exp_alerts:
          - exp_labels: {name: a}
            exp_annotations: {summary: a has 9 of 9}
      - eval_time: 6m
        alertname: Slow
        exp_alerts: [{exp_labels: {name: latency;dc=x;host=h, dc: x, host: h}}]
      - {eval_time: 8m, alertname: Slow}
      - {eval_time: 50m, alertname: OldBackup, exp_alerts: [{exp_labels: {name: backup.age}}]}
      - {eval_time: 61m, alertname: OldBackup}
    promql_expr_test:
      - expr: load:avg
        eval_time: 2m
        exp_samples:
          - labels: 'load:avg{name="averageSeries(servers.*.load)", aggregatedBy="average"}'
            value: 3.5
    graphite_expr_test:
      - expr: sumSeries(servers.*.load)
        eval_time: 5m
        exp_samples: [{labels: '{name="sumSeries(servers.*.load)", aggregatedBy="sum"}', value: 10}]
"#;

#[tokio::test(start_paused = true)]
async fn the_language_of_a_rule_file_may_be_named() {
    let rules = GRAPHITE.replace("    language: graphite\n", "");
    let tests = GRAPHITE_TESTS.replace("[rules*.yml]", "['graphite:rules*.yml']");
    assert_eq!(failures(&rules, &tests).await, "");
    assert!(failures(&rules, GRAPHITE_TESTS).await.contains("could not parse expression"));
}

#[tokio::test(start_paused = true)]
async fn rules_of_graphite_have_the_last_value_of_each_series() {
    assert_eq!(failures(GRAPHITE, GRAPHITE_TESTS).await, "");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_as_expected_is_reported() {
    for (from, to, expected) in [
        (
            "summary: Instance localhost",
            "summary: Instances localhost",
            "alertname: InstanceDown, time: 600s",
        ),
        ("value: 4}", "value: 5}", "expr: count_over_time({app=\"api\"}[5m]), time: 240s"),
        ("alertname: Errors", "alertname: Error", "alertname: Error, time: 240s"),
        ("1 1 0x10", "1 1 0x10 x", "'x': "),
        ("rules*.yml", "other*.yml", "no file matches 'other*.yml'"),
        ("input_streams:", "input_stream:", "unknown key 'input_stream'; did you mean 'input_streams'?"),
        ("expr: job:up:sum", "expr: sum(", "parse error"),
        ("evaluation_interval: 1m", "evaluation_interval: 1ms\nx: 1", "unknown key 'x'"),
    ] {
        let found = failures(RULES, &TESTS.replace(from, to)).await;
        assert!(found.contains(expected), "{from}: {found}");
    }
    let found = failures(&RULES.replace("sum by (job) (up)", "up or vector(1) or up * 2"), TESTS).await;
    assert!(found.contains("job:up:sum"), "{found}");
    let found = failures(&RULES.replace("expr: up == 0", "expr: up[5m]"), TESTS).await;
    assert!(
        found.contains("rule: InstanceDown, time: 0ns, err: rule result is not a vector or scalar"),
        "{found}"
    );
}

#[tokio::test(start_paused = true)]
async fn endless_tests_are_refused() {
    let tests = TESTS.replace("evaluation_interval: 1m", "evaluation_interval: 1ms").replace("10m", "100y");
    assert!(failures(RULES, &tests).await.contains("more than 1000000 evaluations"));
}
