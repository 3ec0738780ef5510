//! Evaluates the same groups of rules with our code and with that of Prometheus, and compares.
//!
//! **What it is.** [`draw`] draws a [`case`]: a group of rules in several versions, series, and events, which
//! are evaluations, restarts and changes of the file. [`ours`] runs it with `sandur_rules` over data in
//! memory, [`theirs`] with Prometheus's package `rules` in a Go program (`harness/`). [`compare`] finds how
//! the two [`outcome`]s differ, [`explained`] lists the intended differences with their reasons, and
//! [`reduce`] makes the case of another difference small. [`run`] does all of this.
//!
//! **What it is not.** It is not part of the product, and not part of `cargo xtask test`: it needs the Go
//! program, which `cargo xtask differential rules` builds. It does not compare expressions for their own
//! sake; `sandur-differential` does.
//!
//! **Life of a case.** Seed and number determine it completely. Both sides evaluate it at the same times of
//! a simulated clock. After each evaluation the errors of rules, the states of alerts and what was sent are
//! compared; at the end all samples of all series that rules wrote, bit by bit.
//!
//! **Invariants.** Without a rule in [`explained`] every difference is reported.

pub mod case;
pub mod compare;
pub mod draw;
pub mod explained;
pub mod ours;
pub mod outcome;
pub mod random;
pub mod reduce;
pub mod run;
pub mod theirs;
