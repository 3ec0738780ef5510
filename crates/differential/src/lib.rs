//! Sends the same requests to Loki, Prometheus or graphite-web and to Sandur, and compares the answers.
//!
//! **What it is.** [`corpus`] generates logs; [`servers`] starts both servers on loopback and pushes the
//! logs to both; [`ask`] generates requests, with queries from [`grammar`] or from [`templates`] that
//! are read from a folder; [`compare`] finds how two answers differ; [`rules`] lists the intended
//! differences with their reasons; [`controls`] verifies a reason with other requests; and [`shrink`]
//! reduces the query of a difference. [`prometheus`] has the same parts for metrics, [`graphite`] for
//! Graphite.
//!
//! Answers of the originals to some of these requests are recorded in this repository; [`recorded`]
//! records them, and its tests compare them with ours.
//!
//! **What it is not.** It is not part of the product. Except for the recorded answers, it is not part of
//! `cargo xtask test` either: it needs a Loki, which `cargo xtask differential loki` builds. It does not
//! measure speed.
//!
//! **Life of a case.** Seed and number determine the request completely. It is sent to both servers at
//! the same time; equal answers are discarded. If no rule explains a difference, the request is sent
//! again, because Loki's own answers may vary. The query of a persistent difference is reduced and
//! printed with seed and number.
//!
//! **Invariants.** A rule explains one kind of difference for one reason and is listed in
//! `docs/reference/loki-compatibility.md`. Without a rule every difference is reported.

pub mod ask;
pub mod compare;
pub mod controls;
pub mod corpus;
pub mod endpoints;
pub mod grammar;
pub mod graphite;
pub mod in_memory;
pub mod in_process;
pub mod peer;
pub mod prometheus;
pub mod random;
pub mod recorded;
mod refusals;
pub mod rules;
pub mod run;
pub mod servers;
pub mod shrink;
pub mod templates;
