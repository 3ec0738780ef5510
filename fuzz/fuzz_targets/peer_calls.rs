//! Fuzzes the target `peer_calls` of `sandur_conformance::hostile`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sandur_conformance::hostile::run("peer_calls", input));
