//! Goal: rule files and unit tests that others publish get the verdicts of promtool.
//!
//! Method: the files lie beside the repository, in `../shared/conformance/rules`: `promtool` has the test
//! data of promtool, `rulefmt` those of Prometheus's reader, `awesome` the collection
//! awesome-prometheus-alerts.
//! Without them the tests say that they are skipped.

#![allow(clippy::unwrap_used)] // a test

use std::path::{Path, PathBuf};

use sandur_rules::file::{ReadOptions, read};
use sandur_rules::{list_files, unit_tests};
use sandur_runtime::Env;

/// The folder of a corpus, if it is there.
fn corpus(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance/rules").join(name);
    if !root.is_dir() {
        eprintln!("skipped: no conformance data in {}", root.display());
        return None;
    }
    Some(root)
}

fn is_valid(path: &Path) -> bool {
    let text = std::fs::read_to_string(path).unwrap();
    read(&text, &path.display().to_string().into(), ReadOptions::default()).is_ok()
}

/// Files with promtool's verdicts.
const RULES: &[(&str, bool)] = &[
    ("bad-rules-error.yml", true),
    ("bad-rules-syntax.yml", false),
    ("prometheus-rules.lint.yml", true),
    ("rules-bad.yml", false),
    ("rules.yml", true),
    ("rules_duplicates.yml", true),
    ("rules_extrafields.yml", false),
    ("rules_large.yml", true),
];

#[test]
fn rule_files_get_the_verdict_of_promtool() {
    let Some(folder) = corpus("promtool") else { return };
    for (name, expected) in RULES {
        assert_eq!(is_valid(&folder.join(name)), *expected, "{name}");
    }
}

#[test]
fn files_of_prometheus_reader_get_its_verdict() {
    let Some(folder) = corpus("rulefmt") else { return };
    let files = list_files(&folder).unwrap();
    assert!(files.len() >= 16, "{files:?}");
    for path in files {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // Names of annotations may be any text, as with Prometheus's default scheme of names.
        let expected = !name.contains(".bad.") || name.starts_with("legacy_validation_");
        assert_eq!(is_valid(&path), expected, "{name}");
    }
}

#[test]
fn all_alerts_of_the_collection_are_valid() {
    let Some(folder) = corpus("awesome") else { return };
    let mut rules = 0;
    for path in list_files(&folder).unwrap() {
        let text = std::fs::read_to_string(&path).unwrap();
        let groups = read(&text, &path.display().to_string().into(), ReadOptions::default());
        let groups = groups.unwrap_or_else(|errors| panic!("{}: {errors}", path.display()));
        rules += groups.iter().map(|group| group.rules.len()).sum::<usize>();
    }
    assert!(rules >= 954, "{rules}");
}

/// Files of unit tests, and whether promtool says that they pass.
const TESTS: &[(&str, bool)] = &[
    ("unittest.yml", true),
    ("long-period.yml", true),
    ("bad-input-series.yml", false),
    ("bad-promql.yml", false),
    ("bad-rules-syntax-test.yml", false),
    ("bad-rules-error-test.yml", false),
    ("failing.yml", false),
    ("at-modifier-test.yml", true),
    ("negative-offset-test.yml", true),
    ("no-test-group-interval.yml", true),
    ("start-time-test.yml", true),
    ("rules_run.yml", false),
    ("rules_run_extrafields.yml", false),
    ("rules_run_fuzzy.yml", false),
    ("rules_run_no_fuzzy.yml", false),
];

#[tokio::test(start_paused = true)]
async fn unit_tests_pass_and_fail_as_with_promtool() {
    let Some(folder) = corpus("promtool") else { return };
    let env = Env::simulated(1, 0);
    for (name, expected) in TESTS {
        let outcome = unit_tests::run(&env, &folder.join(name), &[]).await;
        assert_eq!(outcome.is_ok(), *expected, "{name}: {outcome:?}");
    }
    let only = |name: &str| vec![name.to_owned()];
    for (file, test, expected) in [
        ("rules_run.yml", "correct test", true),
        ("rules_run.yml", "wrong test", false),
        ("rules_run_fuzzy.yml", "correct fuzzy match", true),
    ] {
        let outcome = unit_tests::run(&env, &folder.join(file), &only(test)).await;
        assert_eq!(outcome.is_ok(), expected, "{file}: {outcome:?}");
    }
}
