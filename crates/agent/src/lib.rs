//! Commands that ship data to a server.
//!
//! **What it is.** `push` ships files, followed files and samples ([`push`]); `import` ships whisper files
//! ([`import`]). Each resumes where it stopped and reports what was refused.
//!
//! **What it is not.** It has no engine and no store, and it decodes nothing that the server can decode: text
//! of metrics is sent as it is.
//!
//! **Life of a line.** A reader of `push` splits its input into lines with their time, an assembler gathers
//! them into batches of one body each, a sender ships a batch until the server has acknowledged or refused
//! it, and the position is written down only then.

#[macro_use]
extern crate sandur_terminal;

pub mod import;
pub mod push;
