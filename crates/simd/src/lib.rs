//! Loops over the bytes of lines, with the vector instructions of the processor where it has them.
//!
//! **What it is.** The keys of texts and needles ([`text_keys`], [`word_keys`], [`needle_keys`]) and the
//! classes of bytes that end tokens ([`classify`]). Each loop has a form for every processor and one for
//! vectors; both return the same.
//!
//! **What it is not.** It knows no pages, blocks or filters: `format` stores what these loops find. It is a
//! crate of its own because development builds optimise it: without optimisation each vector instruction is
//! a call, and these loops take a quarter of the time of tests.
//!
//! **Life of a call.** A writer of blocks passes each text of a page to [`text_keys`] and puts the keys into
//! the filter of the page; a query passes its needle to [`needle_keys`] and asks for those keys.

mod classes;
mod keys;

pub use classes::{Carry, Masks, classify};
pub use keys::{
    GRAM, NEEDLE_MIN, WINDOW, WORD_GRAM, is_id_key, is_word_key, needle_keys, text_keys, word_keys,
};
