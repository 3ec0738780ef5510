//! Fuzzes the target `tsdb_chunk` of `sandur_conformance::hostile`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sandur_conformance::hostile::run("tsdb_chunk", input));
