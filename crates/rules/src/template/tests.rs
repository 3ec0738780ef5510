//! Texts that Prometheus's templates make.

use std::sync::Arc;
use std::time::Duration;

use sandur_logql::template::Template;
use sandur_model::Labels;
use sandur_runtime::Env;

use super::data::AlertData;
use super::expand::{Job, QUERIES_MAX, Surroundings, expand};
use super::parse;
use crate::data::{Data, Instant, Number};
use crate::error::EvaluationError;
use crate::external::External;
use crate::memory_data::MemoryData;
use crate::spec::{Expression, Language};

fn data() -> MemoryData {
    let data = MemoryData::new(Env::simulated(1, 0));
    for (instance, value) in [("a", 11.0), ("b", 21.0)] {
        let labels = Labels::from_pairs([("__name__", "metric"), ("instance", instance)]);
        data.add(&labels, 0, Number::Float(value));
    }
    data
}

fn external() -> Arc<External> {
    let labels = vec![("cluster".to_owned(), "one".to_owned())];
    Arc::new(External { labels, url: "http://testhost:3100/path/prefix".to_owned() })
}

async fn all_of(data: &MemoryData, texts: &[&str], value: f64) -> Result<Vec<String>, EvaluationError> {
    let external = external();
    let labels = Labels::from_pairs([("instance", "host:80"), ("job", "a<b")]);
    let seen = Arc::new(AlertData::new(&labels, value, &external));
    let job = |text: &&str| {
        let template: Result<Template, String> = parse("test", text);
        Job {
            template: Arc::new(template.unwrap_or_else(|why| panic!("{text}: {why}"))),
            data: Arc::clone(&seen),
        }
    };
    let surroundings = Surroundings {
        data,
        external: &external,
        at: Instant::of_seconds(0),
        expression: Expression::new(Language::Promql, ""),
        alert: "test",
    };
    let context = data.context(Duration::from_secs(60));
    Ok(expand(&context, &surroundings, texts.iter().map(job).collect()).await?.0)
}

async fn one(text: &str, value: f64) -> String {
    all_of(&data(), &[text], value).await.unwrap().remove(0)
}

#[tokio::test(start_paused = true)]
async fn templates_have_the_output_that_they_have_in_prometheus() {
    for (text, expected) in [
        ("plain text", "plain text"),
        ("{{ 1 }}", "1"),
        ("{{ $labels.instance }} {{ .Labels.job }} {{ $labels.missing }}.", "host:80 a<b ."),
        ("{{ $value }} {{ .Value }} {{ printf \"%.2f\" $value }}", "1.5 1.5 1.50"),
        ("{{ $externalLabels.cluster }} {{ .ExternalLabels.cluster }}", "one one"),
        (
            "{{ $externalURL }} {{ externalURL }}",
            "http://testhost:3100/path/prefix http://testhost:3100/path/prefix",
        ),
        ("{{ pathPrefix }}", "/path/prefix"),
        ("{{ query \"metric{instance='a'}\" | first | value }}", "11"),
        ("{{ query \"metric{instance='a'}\" | first | label \"instance\" }}", "a"),
        ("{{ (query \"metric{instance='a'}\" | first).Labels.instance }}", "a"),
        ("{{ query \"metric{instance='none'}\" | first | value }}", "<error expanding template: "),
        (
            "{{ range query \"metric\" | sortByLabel \"instance\" }}{{.Labels.instance}}:{{.Value}}: {{end}}",
            "a:11: b:21: ",
        ),
        ("{{ range query \"metric\" | sortByLabel \"instance\" }}{{ . | value }}{{end}}", "1121"),
        ("{{ with query \"metric{instance='none'}\" }}some{{ else }}none{{ end }}", "none"),
        ("{{ query \"metric\" | len }}", "2"),
        ("{{ query \"scalar(count(metric))\" | first | value }}", "2"),
        ("{{ query \"metric{__value__='a'}\" | len }}", "0"),
        ("{{ with query \"metric{instance='b'}\" }}{{ . | first | value | humanize }}{{ end }}", "21"),
        (
            "{{ range $i, $s := query \"metric\" | sortByLabel \"job\" }}{{ $i }}={{ $s.Value }};{{ end }}",
            "0=11;1=21;",
        ),
        ("{{ if gt $value 1.0 }}high{{ else if eq $value 1.0 }}same{{ else }}low{{ end }}", "high"),
        ("{{ if eq $value 1 }}x{{ end }}", "<error expanding template: "),
        ("{{ define \"x\" }}{{ . }}!{{ end }}{{ template \"x\" $value }}", "1.5!"),
        ("{{ define \"x\" }}{{ .arg0 }}-{{ .arg1 }}{{ end }}{{ template \"x\" (args 1 \"b\") }}", "1-b"),
        ("{{ reReplaceAll \"(a)b\" \"x$1\" \"ab\" }}", "xa"),
        ("{{ if match \"[0-9]+\" $labels.instance }}yes{{ end }}", "yes"),
        (
            "{{ title \"hello big World\" }} {{ toUpper \"ab\" }} {{ toLower \"AB\" }}",
            "Hello Big World AB ab",
        ),
        ("{{ stripPort $labels.instance }} {{ stripDomain \"a.b.c:1\" }}", "host a:1"),
        (
            "{{ graphLink \"up\" }} {{ tableLink \"up == 0\" }}",
            "/graph?g0.expr=up&g0.tab=0 /graph?g0.expr=up+%3D%3D+0&g0.tab=1",
        ),
        ("{{ parseDuration \"1h2m10ms\" }}", "3720.01"),
        ("{{ humanizeTimestamp 1435065584.128 }}", "2015-06-23 13:19:44.128 +0000 UTC"),
        ("{{ 1435065584.128 | toTime }}", "2015-06-23 13:19:44.128 +0000 UTC"),
        ("{{ (1435065584.128 | toTime).Year }}", "2015"),
        (
            "{{ \"NaN\" | toTime }}",
            "<error expanding template: error executing template __alert_test: template: __alert_test:1:123: \
             executing \"__alert_test\" at <toTime>: error calling toTime: value is NaN or Inf>",
        ),
        (
            "{{ with query \"vector(NaN)\" | first | value }}{{ gt . 1.0 }} {{ le . 1.0 }}{{ end }}",
            "true false",
        ),
        ("{{ 95.5 | toDuration }}", "1m35.5s"),
        ("{{ html \"<a>\" }} {{ safeHtml \"<a>\" }} {{ urlquery \"a b\" }}", "&lt;a&gt; <a> a+b"),
        ("{{ now }}", "0"),
        ("{{ $labels }}", "map[instance:host:80 job:a<b]"),
        (
            "{{ .Valu }}",
            "<error expanding template: error executing template __alert_test: template: __alert_test:1:",
        ),
        ("{{ humanize \"x\" }}", "<error expanding template: "),
    ] {
        let made = one(text, 1.5).await;
        match expected.starts_with("<error") {
            true => assert!(made.starts_with(expected), "{text}: {made}"),
            false => assert_eq!(made, expected, "{text}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn numbers_are_humanised_as_in_prometheus() {
    let cases: &[(&str, f64, &str)] = &[
        ("humanize", 0.0, "0"),
        ("humanize", 1.0, "1"),
        ("humanize", 1_234_567.0, "1.235M"),
        ("humanize", 0.12, "120m"),
        ("humanize", -1_000.0, "-1k"),
        ("humanize", f64::INFINITY, "+Inf"),
        ("humanize", f64::NAN, "NaN"),
        ("humanize", 1e27, "1000Y"),
        ("humanize1024", 0.5, "0.5"),
        ("humanize1024", 1_048_576.0, "1Mi"),
        ("humanize1024", 1e6, "976.6ki"),
        ("humanizeDuration", 0.0, "0s"),
        ("humanizeDuration", 1.0, "1s"),
        ("humanizeDuration", 60.0, "1m 0s"),
        ("humanizeDuration", 3_600.0, "1h 0m 0s"),
        ("humanizeDuration", 86_400.0 + 3_600.0 + 60.0 + 1.0, "1d 1h 1m 1s"),
        ("humanizeDuration", -86_400.0, "-1d 0h 0m 0s"),
        ("humanizeDuration", 899.99, "14m 59s"),
        ("humanizeDuration", 0.1, "100ms"),
        ("humanizeDuration", 0.0001, "100us"),
        ("humanizeDuration", 12.345678, "12.35s"),
        ("humanizeDuration", f64::NEG_INFINITY, "-Inf"),
        ("humanizePercentage", 0.1234567, "12.35%"),
        ("humanizePercentage", 1.23456789, "123.5%"),
        ("humanizeTimestamp", f64::INFINITY, "+Inf"),
    ];
    for (name, value, expected) in cases {
        assert_eq!(one(&format!("{{{{ $value | {name} }}}}"), *value).await, *expected, "{name} {value}");
    }
}

#[tokio::test(start_paused = true)]
async fn hostile_templates_end_and_say_why() {
    let nested = "{{define \"r\"}}{{template \"r\"}}{{end}}{{template \"r\"}}";
    let loops = "{{define \"l\"}}x{{template \"l\" .}}{{template \"l\" .}}{{end}}{{template \"l\" .}}";
    let grows = format!(
        "{{{{ $x := \"{}\" }}}}{}{{{{ $x }}}}",
        "y".repeat(1_000),
        "{{ $x = print $x $x }}".repeat(40)
    );
    for text in [nested, loops, &grows, "{{ printf \"%9999999d\" 1 }}{{ query \"(\" }}"] {
        let made = one(text, 1.0).await;
        assert!(made.starts_with("<error expanding template: "), "{}", &made[..made.len().min(200)]);
        assert!(made.len() < 1_000, "{}", made.len());
    }
    assert!(parse("a", &"{{if 1}}".repeat(100_000)).is_err());
    assert!(parse("a", &format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000))).is_err());
}

#[tokio::test(start_paused = true)]
async fn queries_of_templates_are_bounded_and_run_once() {
    let many: String = (0..=QUERIES_MAX).map(|n| format!("{{{{ query \"vector({n})\" | len }}}}")).collect();
    let made = one(&many, 1.0).await;
    assert!(made.contains("may run at most 1000 queries"), "{}", &made[..made.len().min(300)]);
    let few = "{{ query \"metric\" | len }}{{ query \"metric\" | len }}";
    assert_eq!(all_of(&data(), &[few, few], 1.0).await.unwrap(), ["22", "22"]);
}

#[tokio::test(start_paused = true)]
async fn expanded_texts_are_reserved_from_the_memory_of_the_evaluation() {
    let data = data().with_memory(1 << 20);
    let text = "{{ printf \"%100000d\" 1 }}";
    let error = all_of(&data, &[text; 20], 1.0).await.unwrap_err();
    assert!(matches!(error, EvaluationError::Memory(_)), "{error}");
    assert_eq!(data.budget().used(), 0);
    assert_eq!(all_of(&data, &[text; 2], 1.0).await.unwrap()[1].len(), 100_000);
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_answer_of_a_template_fails_the_evaluation() {
    let data = data();
    data.fail(Some(EvaluationError::Incomplete("a block is missing".to_owned())));
    let error = all_of(&data, &["{{ query \"metric\" | len }}"], 1.0).await.unwrap_err();
    assert!(error.is_incomplete());
    data.fail(Some(EvaluationError::Query("no".to_owned())));
    let made = all_of(&data, &["{{ query \"metric\" | len }}"], 1.0).await.unwrap();
    assert!(made[0].ends_with("error calling query: no>"), "{made:?}");
}
