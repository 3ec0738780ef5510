//! Commands that ship data to a server.
//!
//! **What it is.** `push` ships files, followed files and samples ([`push`]); `import` ships the history of
//! other databases ([`import`]): whisper files, blocks of Prometheus, exports of VictoriaMetrics. All resume
//! where they stopped and report what was refused.
//!
//! **What it is not.** It has no engine, and it reads no store of the server: `import` reads blocks of other
//! databases from buckets. It does not decode what the server can decode: it sends texts of metrics
//! unchanged.
//!
//! **Life of a line.** A reader of `push` splits its input into lines with timestamps. An assembler gathers
//! lines into batches of one request body each. A sender repeats a batch until the server has acknowledged or
//! refused it. Only then the position in the input is recorded.

#[macro_use]
extern crate sandur_terminal;

pub mod import;
pub mod push;
