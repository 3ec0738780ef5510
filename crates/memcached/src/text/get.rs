//! get: values.

use crate::next::Next;

use super::call::{Call, Command};
use super::multiget::{self, Shown};

/// The command `get`.
pub(crate) struct Get;

impl Command for Get {
    const NAME: &'static str = "get";
    const ARGUMENTS: &'static str = "KEY...";
    const ABOUT: &'static str = "returns values";
    const WORDS: usize = 2;

    fn run(call: &mut Call<'_>) -> Next {
        multiget::begin(call, Shown::default())
    }
}
