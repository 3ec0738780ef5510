//! The cache: one engine over RAM and flash, and a memcached server over it.
//!
//! **What it is.** A library that keeps values by key in memory and in log-structured segments on
//! flash, survives restarts, and says what it dropped and why.
//!
//! **What it is not.** It is no store of record: everything in it can be had again elsewhere. It
//! knows no blocks, tenants' limits or query languages.
//!
//! **Life of a call.** A read asks the RAM tier, then the index of the flash tier, and at most one
//! place on the device.
//!
//! **Parts.** [`policy`] decides what stays in RAM, what may be written to flash and what is written
//! again; it counts what had to go.
//!
//! **Invariants.** Never a wrong byte: what a checksum or the key does not confirm is a miss.
//! Nothing is unbounded, and every drop is counted with its reason.

mod hint;
pub mod policy;

pub use hint::Hint;
