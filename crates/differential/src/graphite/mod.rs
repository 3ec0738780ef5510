//! The same for Graphite: sends the same targets over the same series to a real graphite-web and to
//! Sandur.
//!
//! [`series`] generates series, which graphite-web reads from whisper files and our side from memory.
//! [`ask`] generates requests with targets of [`grammar`]. [`answer`] parses and compares the answers.
//! [`rules`] lists the intended differences. [`run`] reduces the request of any other difference and
//! prints it. [`oracle`] is graphite-web in a process, [`ours`] is our language in this process.

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
