//! Tests of the server through its interfaces: over HTTP in this process, and of the real binary.
//!
//! One binary: each more would be linked with everything once more.

mod attack;
mod auth;
mod carbon;
mod carbon_faults;
mod carbon_memory;
mod carbon_v2;
mod clients;
mod cluster;
mod commands;
mod crash;
mod deletes;
mod delta_temporality;
mod demo;
mod explain;
mod faults;
mod grafana;
mod graphite_api;
mod harness;
mod http2_hostile;
mod http_contract;
mod import_whisper;
mod large_pushes;
mod listeners;
mod logcli;
mod memcached_clients;
mod memory;
mod operations;
mod otlp_grpc;
mod process;
mod prometheus_api;
mod promtool;
mod push;
mod pushgateway;
mod query_admission;
mod reaching_a_server;
mod relay;
mod repair;
mod retention;
mod rollups;
mod scrape;
mod tail_load;
mod two_signals;
mod write_routes;
