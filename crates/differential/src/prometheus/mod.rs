//! The same for metrics: a real Prometheus and we, asked the same expressions over the same series.
//!
//! [`series`] makes series, which [`remote_write`] sends to both; [`ask`] makes questions with expressions of
//! [`grammar`]; [`answer`] and [`compare`] read and compare what comes back; [`rules`] knows the differences
//! that are meant, [`choices`] those of equal series; [`run`] makes the question of any other smaller and
//! prints it. We are either a server or the engine over the same series in this process ([`peers`]).

pub mod answer;
pub mod ask;
pub mod choices;
pub mod command;
pub mod compare;
pub mod expression;
pub mod grammar;
pub mod peers;
pub mod remote_write;
pub mod rules;
pub mod run;
pub mod series;
