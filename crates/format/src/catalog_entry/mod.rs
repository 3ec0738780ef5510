//! Catalog entries: which blocks exist, as numbered immutable objects.
//!
//! (The layout is under construction.)
