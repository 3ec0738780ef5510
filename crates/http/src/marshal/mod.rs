//! Writes answers as JSON, byte for byte as Loki's clients expect it.
//!
//! Answers are written directly into one buffer, without a tree of JSON values. All data of clients
//! (lines, labels) goes through [`json::string`], which keeps the buffer valid UTF-8 and safe to embed in
//! a page.

pub mod json;
mod legacy;
mod result;
mod stats;

pub use legacy::{legacy_answer, legacy_streams};
pub use result::{Encoding, estimate, query_answer, streams};
