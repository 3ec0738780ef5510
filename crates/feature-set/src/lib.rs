//! Names features of outside crates, so that they are compiled once.
//!
//! **What it is.** A list in `Cargo.toml`. Cargo switches on the features that the selected packages ask for:
//! without this list `cargo test -p sandur-model` would compile `tokio` without what the server uses of it,
//! and everything above `tokio` again. `base` depends on this crate, and each crate's tests on its feature
//! `tests`, so every selection asks for the same.
//!
//! **What it is not.** It has no code, and switches nothing on that the server or its tests do not use.
//! `cargo xtask tidy` says when two selections differ.
