//! Tests of the whole layout.
