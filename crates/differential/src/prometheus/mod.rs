//! The same for metrics: sends the same expressions over the same series to a real Prometheus and to
//! Sandur.
//!
//! [`series`] generates series, which [`remote_write`] encodes for both. [`ask`] generates queries with
//! expressions of [`grammar`]. [`answer`] and [`compare`] parse and compare the answers. [`rules`] lists
//! the intended differences, and [`choices`] those of equal series. [`run`] reduces the query of any
//! other difference and prints it. Our side is either a server or the engine over the same series in
//! this process ([`peers`]).

pub mod answer;
pub mod ask;
pub mod case;
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
