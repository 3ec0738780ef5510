//! Sends hostile input to running servers and checks that they withstand it.
//!
//! **What it is.** Each attack of [`attacks::ATTACKS`] is one file: chains and nestings, regular
//! expressions, templates, numbers at the limits of their type, compression bombs, slow bodies, idle
//! connections, unread answers, half-sent values, damaged and missing objects. During an attack,
//! [`watch`] acts as a bystander: another tenant at another address that pushes, queries and counts.
//!
//! **What it is not.** It is not part of the product, not a fuzzer (that is `fuzz/`) and not a
//! benchmark. It proves nothing about inputs that are not in its table.
//!
//! **Life of an attack.** [`course::run`] starts the servers of [`victim`] on an empty directory, runs
//! the attack with its [`ground::Ground`], and judges: the processes must be running, resident memory
//! must have stayed within 110 % of the limit, the bystander must have got its answers in time, and
//! every request of the attack an answer other than `500`. After the last attack the server is killed
//! and started again, and every line that was acknowledged to the bystander is counted.
//!
//! **Invariants.** Loops are bounded in count and time. Everything listens on loopback. Everything
//! random is derived from one seed, which is printed.

pub mod attacks;
pub mod cgroup;
pub mod course;
mod draws;
mod free_address;
pub mod ground;
pub mod pause;
pub mod raw;
pub mod victim;
pub mod watch;

pub use free_address::free_address;
