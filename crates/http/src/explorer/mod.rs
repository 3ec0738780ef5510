//! The explorer: a page to see logs, metrics and the process, embedded in the binary.
//!
//! Its sources are in `web/`; `cargo xtask web build` writes `web/dist/` and the table [`files`]. The page
//! uses the same API as other clients. This module serves the files and keeps the sessions of browsers.

mod file;
mod files;
pub mod pages;
pub mod session;
