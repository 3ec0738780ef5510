//! Fuzz targets: one function for each decoder, parser and codec that accepts any bytes.
//!
//! A target panics when an invariant is violated: a text parses to a different query after it was
//! written, memory is not released, a decoded batch points outside of its arena. `fuzz/` runs the
//! targets with a fuzzer; `tests/it/replay.rs` runs them on the inputs in `fuzz/regressions`.

mod block;
mod carbon;
mod catalog;
mod chains;
mod codec;
mod counted;
mod gossip;
mod graphite;
mod log_block;
mod logql;
mod memcached;
mod otlp;
mod partials;
mod peer_calls;
pub mod promql;
mod push;
mod sample_block;
mod samples;
#[cfg(test)]
mod seeds;
mod stages;
mod template;
mod tsdb;
mod wal;
mod whisper;
pub mod whole;

/// A target: its name and its function.
pub struct Target {
    /// Name of the fuzz target and of its directory of stored inputs.
    pub name: &'static str,
    /// Runs the target on an input.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "logql", run: logql::run },
    Target { name: "promql", run: promql::run },
    Target { name: "template", run: template::run },
    Target { name: "push", run: push::run },
    Target { name: "otlp", run: otlp::run },
    Target { name: "remote_write", run: samples::remote_write_target },
    Target { name: "otlp_metrics", run: samples::otlp_target },
    Target { name: "exposition", run: samples::exposition_target },
    Target { name: "carbon_plaintext", run: carbon::plaintext },
    Target { name: "carbon_pickle", run: carbon::pickle },
    Target { name: "carbon_protobuf", run: carbon::protobuf },
    Target { name: "stages", run: stages::run },
    Target { name: "shapes", run: codec::run },
    Target { name: "chains", run: chains::run },
    Target { name: "wal", run: wal::run },
    Target { name: "graphite_render", run: graphite::render_target },
    Target { name: "graphite_find", run: graphite::find_target },
    Target { name: "tsdb_chunk", run: tsdb::run_chunk },
    Target { name: "tsdb_index", run: tsdb::run_index },
    Target { name: "tsdb_file", run: tsdb::run_file },
    Target { name: "whisper", run: whisper::run },
    Target { name: "whisper_compressed", run: whisper::run_compressed },
    Target { name: "sample_block", run: sample_block::run },
    Target { name: "log_block", run: log_block::run },
    Target { name: "catalog", run: catalog::run },
    Target { name: "memcached", run: memcached::run },
    Target { name: "partials", run: partials::run },
    Target { name: "gossip", run: gossip::run },
    Target { name: "peer_calls", run: peer_calls::run },
];

/// Runs the target with this name on an input.
///
/// # Panics
/// If there is no such target, and if the target has a finding.
pub fn run(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|t| t.name == name);
    (target.unwrap_or_else(|| panic!("no target '{name}'")).run)(input);
}
