//! Subcommands that have a module of their own: the options of each, and how it runs.

pub mod imports;
pub mod needles;
pub mod paths;
pub mod rules;
