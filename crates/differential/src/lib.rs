//! Asks Loki, Prometheus or graphite-web and Sandur the same questions and compares the answers.
//!
//! **What it is.** [`corpus`] makes logs, [`servers`] starts both servers on loopback and pushes the logs to
//! both, [`ask`] makes requests (with queries from [`grammar`] or from [`templates`] read from a folder),
//! [`compare`] finds out how two answers differ, [`rules`] knows the differences that are meant, with the
//! reason, [`controls`] checks with other requests that it is the reason, and [`shrink`] makes the query of a
//! difference smaller. [`prometheus`] has the same parts for metrics, [`graphite`] for Graphite.
//!
//! **What it is not.** No part of the product and no part of `cargo xtask test`: it needs a Loki, which
//! `cargo xtask differential loki` builds. It says nothing about speed.
//!
//! **Life of a case.** Seed and number decide the request alone. Both servers are asked at the same time;
//! equal answers are forgotten. A difference that no rule explains is asked again, for Loki may answer
//! differently by itself; what remains is made smaller and printed with seed and number.
//!
//! **Invariants.** A rule explains one kind of difference for one reason and is listed in
//! `docs/reference/loki-compatibility.md`; without a rule no difference passes.

pub mod ask;
pub mod compare;
pub mod controls;
pub mod corpus;
pub mod endpoints;
pub mod grammar;
pub mod graphite;
pub mod peer;
pub mod prometheus;
pub mod random;
pub mod rules;
pub mod run;
pub mod servers;
pub mod shrink;
pub mod templates;
