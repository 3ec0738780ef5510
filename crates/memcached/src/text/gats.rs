//! gats: values with version numbers; sets a new expiry.

use crate::next::Next;

use super::call::{Call, Command};
use super::multiget::{self, Shown};

/// The command `gats`.
pub(crate) struct Gats;

impl Command for Gats {
    const NAME: &'static str = "gats";
    const ARGUMENTS: &'static str = "EXPIRY KEY...";
    const ABOUT: &'static str = "returns values with version numbers and sets a new expiry";
    const WORDS: usize = 3;

    fn run(call: &mut Call<'_>) -> Next {
        multiget::begin_touching(call, Shown { cas: true, ..Shown::default() })
    }
}
