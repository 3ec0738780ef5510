//! YAML files of other systems, with the lines of their values.
//!
//! **What it is.** A bounded tree of a file ([`Node`]) and a reader of the keys of a map ([`Keys`]) that
//! reports keys that nobody read. Errors name the line and, for a misspelled key, the key that was meant.
//!
//! **What it is not.** It knows no particular file: `scrape` and `rules` read theirs with it.
//!
//! **Life of a file.** [`Node::parse`] makes the tree. A reader makes [`Keys`] of each map, takes the keys
//! that it knows, and ends with [`Keys::finish`].
//!
//! **Invariants.** The depth of a tree, the number of its nodes and the bytes of its texts are bounded,
//! also if aliases repeat values ([`Bounds`]). Every error has a line.

mod error;
mod keys;
mod node;

pub use error::ConfigError;
pub use keys::Keys;
pub use node::{Bounds, Data, Node};
