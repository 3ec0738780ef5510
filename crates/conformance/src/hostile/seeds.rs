//! What tests of targets share: sound inputs, as they are and changed, and where a fuzzer finds them.

use std::path::Path;

/// Runs every input, then each with bytes changed and cut off at every `step`th place from `from` on.
pub(super) fn run_changed(run: fn(&[u8]), inputs: Vec<Vec<u8>>, from: usize, step: impl Fn(usize) -> usize) {
    for input in inputs {
        run(&input);
        for at in (from..input.len()).step_by(step(input.len())) {
            let mut hostile = input.clone();
            hostile[at] ^= 1 << (at % 8);
            run(&hostile);
            hostile[at] = 0xff;
            run(&hostile);
            run(&input[..at]);
        }
    }
}

/// Writes the inputs that a fuzzer of the target begins with, as `NAME-0` and so on.
pub(super) fn write(target: &str, name: &str, inputs: Vec<Vec<u8>>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions").join(target);
    std::fs::create_dir_all(&folder).unwrap();
    for (n, input) in inputs.into_iter().enumerate() {
        std::fs::write(folder.join(format!("{name}-{n}")), input).unwrap();
    }
}
