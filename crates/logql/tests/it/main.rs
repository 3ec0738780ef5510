//! Tests of the language through its public interface.
//!
//! All are in one binary, because each further one would link all dependencies again.

mod oracle;
mod robust;
mod splits;
