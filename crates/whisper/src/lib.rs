//! Reads files of whisper, Graphite's store: one file per metric, with several archives of points.
//!
//! **What it is.** [`Whisper`] reads a file of whisper (rings of points of twelve bytes) or of
//! go-carbon's compressed form (blocks of encoded points), and detects which it is. [`History`] merges
//! the archives so that no time is covered twice. [`metric_of`] returns the metric that a file's name
//! stands for.
//!
//! **What it is not.** It does not write, is no server, and does not depend on where points are stored.
//! Its only I/O is [`ReadAt`].
//!
//! **Life of a call.** [`Whisper::open`] reads the header and refuses inconsistent archives: those that
//! overlap, extend beyond the file's end, or whose steps do not divide each other.
//! [`Whisper::memory_bytes`] returns how much memory [`Whisper::history`] needs, so that the caller can
//! reserve it first. [`Whisper::open_with`] can skip damaged archives and blocks instead; the history
//! then reports them.
//!
//! ```
//! use sandur_whisper::{Checks, Whisper};
//!
//! let mut file: Vec<u8> = Vec::new();
//! for word in [1, 180, 0.5f32.to_bits(), 1, 28, 60, 3] {
//!     file.extend(u32::to_be_bytes(word)); // average, 180 s, xFilesFactor; one archive of 3 points of 60 s
//! }
//! for (time, value) in [(1_795_176_000u32, 1.5f64), (0, 0.0), (1_795_175_940, 2.5)] {
//!     file.extend(time.to_be_bytes());
//!     file.extend(value.to_be_bytes());
//! }
//! let whisper = Whisper::open(&file[..], Checks::All).unwrap();
//! let history = whisper.history(1_795_176_030).unwrap();
//! let points: Vec<(u32, f64)> = history.archives[0].points.iter().map(|p| (p.time, p.value)).collect();
//! assert_eq!(points, [(1_795_175_940, 2.5), (1_795_176_000, 1.5)]);
//! ```
//!
//! **Invariants.** Memory is proportional to the contents of the file, and within the announced bound.
//! The times of an archive's points increase, are multiples of its step, and are within its retention
//! before the newest. No input makes a function panic.

mod archive;
mod classic;
mod compressed;
mod error;
mod field;
mod file;
mod form;
mod header;
mod history;
mod method;
mod name;
mod point;
mod reading;
mod source;

pub use archive::Archive;
pub use error::Error;
pub use file::Whisper;
pub use form::Form;
pub use history::{History, Kept, Left};
pub use method::Method;
pub use name::{NameError, metric_of};
pub use point::Point;
pub use reading::{Checks, Damage};
pub use source::ReadAt;
