//! Plain types that every other crate may use: units, ids, error kinds, bounded nesting, small data
//! structures and formats.
//!
//! **What it is.** Types and functions without state and without surroundings. Syntax trees are linked by
//! [`nesting::Nested`], which bounds their height, so that no input can overflow the stack of a recursive
//! walk.
//!
//! **What it is not.** It has no clock, tasks or threads (`sandur_runtime`) and no budgets (`sandur_memory`).
//! It contains no code for logs, stores or protocols, with one exception: it recognises the start of an HTTP
//! request ([`begins_http_request`]). Its only I/O is reading small files ([`small_file`], [`SecretLines`]).

mod address;
mod error;
mod http_request;
mod id;
mod lru_map;
pub mod nesting;
mod python_config;
mod secret_lines;
pub mod small_file;
pub mod spelling;
mod turns;
pub mod units;

pub use address::party_of;
pub use error::ErrorKind;
pub use http_request::begins_http_request;
pub use id::Id;
pub use lru_map::LruMap;
pub use python_config::{ConfigOption, Malformed, PythonConfig, Section};
pub use secret_lines::{BadSecret, SecretLines};
pub use turns::Turns;

/// A boxed future that can cross threads: the return type of async methods in object-safe traits.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
