//! Goal: what a fuzzer once found, and what it needs to get anywhere, stays without a finding.
//!
//! Method: every input that is kept in `fuzz/regressions/<target>` goes through its target, then each of them
//! cut off at several lengths.

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
