//! Throws hostile input at running servers and checks that they stand.
//!
//! **What it is.** Each attack of [`attacks::ATTACKS`] is one file: chains and nestings, regular
//! expressions, templates, numbers at the edge of their type, compression bombs, slow bodies, idle
//! connections, answers that nobody reads, half-sent values, damaged and missing objects. While an attack
//! runs, [`watch`] plays a bystander: another tenant on another address who pushes, queries and counts.
//!
//! **What it is not.** No part of the product, no fuzzer (that is `fuzz/`) and no benchmark. It proves
//! nothing about inputs that are not in its table.
//!
//! **Life of an attack.** [`course::run`] starts the servers of [`victim`] on an empty directory, calls the
//! attack with its [`ground::Ground`], and judges: the processes live, resident memory stayed within the
//! limit and a tenth, the bystander was answered in time, every request of the attack got an answer that is
//! not `500`. After the last attack the server is killed and started again, and every line that the
//! bystander was acknowledged is counted.
//!
//! **Invariants.** Loops are bounded in count and time. Everything listens on loopback. What is drawn comes
//! from one seed, which is printed.

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
