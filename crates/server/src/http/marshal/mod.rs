//! Answers as JSON, byte for byte in the shape that Loki's clients expect.
//!
//! Written straight into one buffer: no tree of JSON values is built for rows. Everything that
//! comes from clients (lines, labels) goes through [`json::string`], which keeps the buffer valid
//! UTF-8 and safe to embed in a page.

pub mod json;
mod legacy;
mod result;
mod stats;

pub use legacy::{legacy_answer, legacy_streams};
pub use result::{Encoding, estimate, query_answer, streams};
