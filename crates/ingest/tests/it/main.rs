//! Tests of the decoders through their interface.
//!
//! One binary, because every further one is linked with all crates again.

mod hostile_input;
mod import_text;
mod in_parts;
mod loki_push;
mod otlp;
mod otlp_delta;
mod otlp_metrics;
mod remote_write;
mod remote_write_2;
mod wire;
