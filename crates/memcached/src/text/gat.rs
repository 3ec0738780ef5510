//! gat: values; sets a new expiry.

use crate::next::Next;

use super::call::{Call, Command};
use super::multiget::{self, Shown};

/// The command `gat`.
pub(crate) struct Gat;

impl Command for Gat {
    const NAME: &'static str = "gat";
    const ARGUMENTS: &'static str = "EXPIRY KEY...";
    const ABOUT: &'static str = "returns values and sets a new expiry";
    const WORDS: usize = 3;

    fn run(call: &mut Call<'_>) -> Next {
        multiget::begin_touching(call, Shown::default())
    }
}
