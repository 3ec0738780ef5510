//! Draws texts of labels and annotations, most of them with templates.

use crate::random::Random;

const CONSTANT: &[&str] = &["page", "warn", "info", "", "x y", "ü", "100%"];

const TEMPLATES: &[&str] = &[
    "{{ $value }}",
    "{{ .Value }}",
    "{{ $labels.job }}",
    "{{ .Labels.instance }}",
    "{{ $labels.missing }}",
    "{{ $labels }}",
    "{{ $value | humanize }}",
    "{{ $value | humanize1024 }}",
    "{{ $value | humanizeDuration }}",
    "{{ $value | humanizePercentage }}",
    r#"{{ printf "%.2f" $value }}"#,
    r#"{{ printf "%v-%s" $value $labels.job }}"#,
    "{{ $externalLabels.replica_of }}",
    "{{ externalURL }}{{ pathPrefix }}",
    "{{ if gt $value 4.0 }}high{{ else }}low{{ end }}",
    "{{ with $labels.code }}code {{ . }}{{ end }}",
    r#"{{ with query "up" }}{{ . | first | value }}{{ end }}"#,
    r#"{{ range query "sum by (job) (load)" }}{{ .Labels.job }}={{ .Value }};{{ end }}"#,
    r#"{{ query "load" | len }}"#,
    "{{ $labels.job | title | toUpper }}",
    r#"{{ reReplaceAll "[a-c]:" "host-" $labels.instance }}"#,
    r#"{{ if match "a.*" $labels.instance }}yes{{ end }}"#,
    "{{ $labels.instance | stripPort }}",
    "{{ $labels.job | humanize }}",
    "{{ $value | toTime }}",
    r#"{{ query "sum(" | first | value }}"#,
    r#"{{ query "nothing_here" | first | value }}"#,
    "{{ $value | humanizeTimestamp }}",
    "{{ tableLink \"up == 0\" }}",
    "{{ parseDuration \"1h\" }}",
    "{{ now | toTime }}",
];

/// The value of a label of an alert.
pub fn of_label(random: &mut Random) -> String {
    // Labels with a value change their series with each value.
    if random.chance(60) { random.pick(CONSTANT).to_owned() } else { random.pick(TEMPLATES).to_owned() }
}

/// The value of a label of a recording rule, in which templates are plain text.
pub fn plain(random: &mut Random) -> String {
    if random.chance(90) { random.pick(CONSTANT).to_owned() } else { random.pick(TEMPLATES).to_owned() }
}

/// An annotation.
pub fn of_annotation(random: &mut Random) -> String {
    let mut text = random.pick(TEMPLATES).to_owned();
    while random.chance(30) {
        text = format!("{text} {}", of_label(random));
    }
    text
}
