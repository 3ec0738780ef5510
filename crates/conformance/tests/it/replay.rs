//! Goal: inputs that a fuzzer once found, and its seed inputs, have no findings.
//!
//! Method: every input in `fuzz/regressions/<target>` is run through its target, complete and truncated
//! at several lengths. Every target must have a fuzz binary and a line in the README of `fuzz`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use sandur_conformance::hostile::TARGETS;

#[test]
fn every_kept_input_passes_its_target() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions");
    for target in TARGETS {
        let mut inputs = 0;
        let entries =
            fs::read_dir(directory.join(target.name)).unwrap_or_else(|e| panic!("{}: {e}", target.name));
        for entry in entries {
            let path = entry.unwrap_or_else(|e| panic!("{e}")).path();
            let input = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            println!("{}", path.display());
            (target.run)(&input);
            for part in 1..8 {
                (target.run)(&input[..input.len() * part / 8]);
            }
            inputs += 1;
        }
        assert!(inputs >= 3, "{} has only {inputs} inputs", target.name);
    }
}

#[test]
fn every_target_has_a_fuzzer_and_a_line_in_its_page() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let page = fs::read_to_string(fuzz.join("README.md")).unwrap_or_else(|e| panic!("{e}"));
    let entries = fs::read_dir(fuzz.join("fuzz_targets")).unwrap_or_else(|e| panic!("{e}"));
    let fuzzers: BTreeSet<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    let targets: BTreeSet<_> = TARGETS.iter().map(|t| OsString::from(format!("{}.rs", t.name))).collect();
    assert_eq!(fuzzers, targets);
    for target in TARGETS {
        assert!(page.contains(&format!("\n| `{}` |", target.name)), "{} is not in the page", target.name);
    }
}
