//! decr: subtracts from a number; stops at 0.

use crate::next::Next;

use super::arithmetic;
use super::call::{Call, Command};

/// The command `decr`.
pub(crate) struct Decr;

impl Command for Decr {
    const NAME: &'static str = "decr";
    const ARGUMENTS: &'static str = "KEY NUMBER [noreply]";
    const ABOUT: &'static str = "subtracts from a number; stops at 0";
    const WORDS: usize = 3;

    fn run(call: &mut Call<'_>) -> Next {
        arithmetic::run(call, false)
    }
}
