//! Converts OTLP names to names of metrics and labels, by the rules of OpenTelemetry's compatibility
//! specification as Prometheus applies them.

use sandur_model::TranslationStrategy;

/// The kind of a metric, as far as its name depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Naming {
    Gauge,
    MonotonicCounter,
    Other,
}

/// Words for units.
const UNITS: [(&str, &str); 26] = [
    ("d", "days"),
    ("h", "hours"),
    ("min", "minutes"),
    ("s", "seconds"),
    ("ms", "milliseconds"),
    ("us", "microseconds"),
    ("ns", "nanoseconds"),
    ("By", "bytes"),
    ("KiBy", "kibibytes"),
    ("MiBy", "mebibytes"),
    ("GiBy", "gibibytes"),
    ("TiBy", "tibibytes"),
    ("KBy", "kilobytes"),
    ("MBy", "megabytes"),
    ("GBy", "gigabytes"),
    ("TBy", "terabytes"),
    ("m", "meters"),
    ("V", "volts"),
    ("A", "amperes"),
    ("J", "joules"),
    ("W", "watts"),
    ("g", "grams"),
    ("Cel", "celsius"),
    ("Hz", "hertz"),
    ("1", ""),
    ("%", "percent"),
];
/// Words for units after a slash.
const PER_UNITS: [(&str, &str); 7] = [
    ("s", "second"),
    ("m", "minute"),
    ("h", "hour"),
    ("d", "day"),
    ("w", "week"),
    ("mo", "month"),
    ("y", "year"),
];

/// Returns the name of a metric; `None` when the translation leaves no character.
pub(super) fn metric_name(
    name: &str,
    unit: &str,
    naming: Naming,
    strategy: TranslationStrategy,
) -> Option<String> {
    let built = match (strategy.escapes(), strategy.adds_suffixes()) {
        (true, true) => normalized(name, unit, naming),
        (true, false) => {
            let kept = name.split(|c: char| !(is_metric_character(c) || c == '_'));
            guarded(kept.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("_"))
        }
        (false, true) => with_suffixes(name, unit, naming),
        (false, false) => name.to_owned(),
    };
    let means_something = built == name || built.chars().any(|c| c != '_');
    (!built.is_empty() && means_something).then_some(built)
}

/// Returns the name of a label; `None` when the translation leaves no character.
pub(super) fn label_name(key: &str, strategy: TranslationStrategy) -> Option<String> {
    let name = match strategy.escapes() {
        false => key.to_owned(),
        true => {
            let keep = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
            let name: String = key.chars().map(keep).collect();
            match name.as_bytes() {
                [b'0'..=b'9', ..] => format!("key_{name}"),
                [b'_', b'_', ..] => name,
                [b'_', ..] => format!("key{name}"),
                _ => name,
            }
        }
    };
    name.chars().any(|c| c != '_').then_some(name)
}

/// Returns the unit in words, for the description of a metric.
pub(super) fn unit_name(unit: &str) -> String {
    let (main, per) = unit_suffixes(unit);
    let (main, per) = (cleaned(&main), cleaned(&per));
    let both = if main.is_empty() || per.is_empty() { main + &per } else { format!("{main}_{per}") };
    let both = both.strip_prefix('_').unwrap_or(&both);
    both.strip_suffix('_').unwrap_or(both).to_owned()
}

fn is_metric_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == ':'
}

/// Puts `_` in front of a name that begins with a digit.
fn guarded(name: String) -> String {
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name }
}

fn normalized(name: &str, unit: &str, naming: Naming) -> String {
    let tokens = name.split(|c| !is_metric_character(c)).filter(|token| !token.is_empty());
    let mut tokens: Vec<String> = tokens.map(str::to_owned).collect();
    let (main, per) = unit_suffixes(unit);
    let (mut main, mut per) = (cleaned(&main), cleaned(&per));
    if tokens.contains(&main) {
        main.clear();
    }
    per = if per == "per_" { String::new() } else { per.strip_suffix('_').unwrap_or(&per).to_owned() };
    if tokens.contains(&per) {
        per.clear();
    }
    if !per.is_empty() {
        main = main.strip_suffix('_').unwrap_or(&main).to_owned();
    }
    tokens.extend([main, per].into_iter().filter(|suffix| !suffix.is_empty()));
    let mut end_with = |last: &str| {
        tokens.retain(|token| token != last);
        tokens.push(last.to_owned());
    };
    match naming {
        Naming::MonotonicCounter => end_with("total"),
        Naming::Gauge if unit == "1" => end_with("ratio"),
        Naming::Gauge | Naming::Other => {}
    }
    guarded(tokens.join("_"))
}

fn with_suffixes(name: &str, unit: &str, naming: Naming) -> String {
    let last = match naming {
        Naming::MonotonicCounter => "total",
        Naming::Gauge if unit == "1" => "ratio",
        Naming::Gauge | Naming::Other => "",
    };
    let (main, per) = unit_suffixes(unit);
    let mut name = without(without(name, last), &per).to_owned();
    if !main.is_empty() && !name.ends_with(&main) {
        name = format!("{name}_{main}");
    }
    for suffix in [per.as_str(), last] {
        if !suffix.is_empty() {
            name = format!("{name}_{suffix}");
        }
    }
    name
}

/// Removes a suffix and the separator before it from a name.
fn without<'n>(name: &'n str, suffix: &str) -> &'n str {
    if suffix.is_empty() || name.len() <= suffix.len() + 1 {
        return name;
    }
    let cut =
        name.strip_suffix(suffix).and_then(|rest| rest.char_indices().next_back().map(|(at, _)| &rest[..at]));
    cut.unwrap_or(name)
}

/// Returns the words for a unit: those for the part before the slash, and those for the part after it
/// with `per_`.
fn unit_suffixes(unit: &str) -> (String, String) {
    let (main, per) = unit.split_once('/').unwrap_or((unit, ""));
    let words = |unit: &str, table: &[(&str, &str)]| {
        let unit = unit.trim();
        if unit.contains(['{', '}']) {
            return String::new();
        }
        let known = table.iter().find(|(short, _)| *short == unit);
        known.map_or(unit, |(_, long)| long).to_owned()
    };
    let per = words(per, &PER_UNITS);
    let per = if per.is_empty() { per } else { format!("per_{per}") };
    (words(main, &UNITS), per)
}

/// Replaces runs of characters that are invalid in names by one `_` each, and drops a leading one.
fn cleaned(unit: &str) -> String {
    let mut clean = String::with_capacity(unit.len());
    for c in unit.chars() {
        let c = if is_metric_character(c) { c } else { '_' };
        if !(c == '_' && clean.ends_with('_')) {
            clean.push(c);
        }
    }
    clean.strip_prefix('_').map_or_else(|| clean.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use TranslationStrategy::*;

    #[test]
    fn names_follow_the_strategy() {
        let cases = [
            ("system.filesystem.usage", "By", Naming::Gauge, "system_filesystem_usage_bytes"),
            ("system.network.io", "By", Naming::MonotonicCounter, "system_network_io_bytes_total"),
            ("http.total.requests", "{request}", Naming::MonotonicCounter, "http_requests_total"),
            ("cpu.utilization", "1", Naming::Gauge, "cpu_utilization_ratio"),
            ("speed", "m/s", Naming::Gauge, "speed_meters_per_second"),
            ("broken.speed", "km/h", Naming::Gauge, "broken_speed_km_per_hour"),
            ("duration.seconds", "s", Naming::Other, "duration_seconds"),
            ("3.14", "", Naming::Gauge, "_3_14"),
            ("a__b", "", Naming::Gauge, "a_b"),
        ];
        for (name, unit, naming, expected) in cases {
            let built = metric_name(name, unit, naming, UnderscoreEscapingWithSuffixes);
            assert_eq!(built.as_deref(), Some(expected), "{name}");
        }
        let name = |strategy| metric_name("a.b__c", "By/s", Naming::MonotonicCounter, strategy).unwrap();
        assert_eq!(name(UnderscoreEscapingWithoutSuffixes), "a_b__c");
        assert_eq!(name(NoUTF8EscapingWithSuffixes), "a.b__c_bytes_per_second_total");
        assert_eq!(name(NoTranslation), "a.b__c");
        let again = metric_name("x.bytes.total", "By", Naming::MonotonicCounter, NoUTF8EscapingWithSuffixes);
        assert_eq!(again.as_deref(), Some("x.bytes_total"));
        for name in ["", "...", "__._"] {
            assert_eq!(metric_name(name, "", Naming::Gauge, UnderscoreEscapingWithSuffixes), None, "{name}");
        }
    }

    #[test]
    fn labels_follow_the_strategy() {
        let escaped = |key| label_name(key, UnderscoreEscapingWithSuffixes);
        for (key, expected) in [
            ("http.method", "http_method"),
            ("0day", "key_0day"),
            ("_private", "key_private"),
            ("__reserved__", "__reserved__"),
            ("a..b", "a__b"),
            ("größe", "gr__e"),
            ("_", "key_"),
        ] {
            assert_eq!(escaped(key).as_deref(), Some(expected), "{key}");
        }
        assert_eq!(label_name("http.method", NoTranslation).as_deref(), Some("http.method"));
        assert_eq!((escaped(""), escaped("__"), label_name("_", NoTranslation)), (None, None, None));
    }

    #[test]
    fn units_are_translated_to_words() {
        for (unit, expected) in
            [("s", "seconds"), ("By/s", "bytes_per_second"), ("1", ""), ("{x}/s", "per_second"), ("°F", "F")]
        {
            assert_eq!(unit_name(unit), expected, "{unit}");
        }
    }
}
