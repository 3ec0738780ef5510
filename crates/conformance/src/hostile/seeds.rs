//! Helpers for the tests of targets: run valid inputs and changed ones, and write the seed inputs of the
//! fuzzer.

use std::path::Path;

/// Runs each input, then variants of it: at every `step`th position from `from` on, one byte is changed,
/// or the input is truncated there.
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

/// Writes the seed inputs of a target as `NAME-0`, `NAME-1` and so on.
pub(super) fn write(target: &str, name: &str, inputs: Vec<Vec<u8>>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions").join(target);
    std::fs::create_dir_all(&folder).unwrap();
    for (n, input) in inputs.into_iter().enumerate() {
        std::fs::write(folder.join(format!("{name}-{n}")), input).unwrap();
    }
}
