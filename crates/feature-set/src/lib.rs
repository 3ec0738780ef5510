//! Names features of external crates, so that these crates are compiled once.
//!
//! **What it is.** A list in `Cargo.toml`. Cargo enables the features that the selected packages request:
//! without this list `cargo test -p sandur-model` would compile `tokio` with fewer features than the server,
//! and everything above `tokio` again. `base` depends on this crate, and each crate's tests on its feature
//! `tests`, so every selection requests the same features.
//!
//! **What it is not.** It has no code, and enables no feature that the server and its tests do not use.
//! `cargo xtask tidy` reports if two selections differ.
