//! incr: adds to a number; wraps at 2^64.

use crate::next::Next;

use super::arithmetic;
use super::call::{Call, Command};

/// The command `incr`.
pub(crate) struct Incr;

impl Command for Incr {
    const NAME: &'static str = "incr";
    const ARGUMENTS: &'static str = "KEY NUMBER [noreply]";
    const ABOUT: &'static str = "adds to a number; wraps at 2^64";
    const WORDS: usize = 3;

    fn run(call: &mut Call<'_>) -> Next {
        arithmetic::run(call, true)
    }
}
