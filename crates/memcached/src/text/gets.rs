//! gets: values with version numbers.

use crate::next::Next;

use super::call::{Call, Command};
use super::multiget::{self, Shown};

/// The command `gets`.
pub(crate) struct Gets;

impl Command for Gets {
    const NAME: &'static str = "gets";
    const ARGUMENTS: &'static str = "KEY...";
    const ABOUT: &'static str = "returns values with version numbers";
    const WORDS: usize = 2;

    fn run(call: &mut Call<'_>) -> Next {
        multiget::begin(call, Shown { cas: true, ..Shown::default() })
    }
}
