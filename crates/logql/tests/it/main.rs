//! Tests of the language through its interface.
//!
//! One binary: each more would be linked with everything once more.

mod oracle;
mod robust;
mod splits;
