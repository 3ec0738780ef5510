//! The same for Graphite: a real graphite-web and we, asked the same targets over the same series.
//!
//! [`series`] makes series, which graphite-web reads from whisper's files and we from memory; [`ask`] makes
//! questions with targets of [`grammar`]; [`answer`] reads and compares what comes back; [`rules`] knows the
//! differences that are meant; [`run`] makes the question of any other smaller and prints it. [`oracle`] is
//! graphite-web in a process, [`ours`] is the language in this one.

pub mod answer;
pub mod arguments;
pub mod ask;
pub mod command;
pub mod expression;
pub mod grammar;
pub mod oracle;
pub mod ours;
pub mod rules;
pub mod run;
pub mod series;
