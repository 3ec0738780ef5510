//! replace: stores a value if there is one.

use crate::next::{Next, Receipt};
use crate::operations::store::Verb;

use super::call::{Call, Command};
use super::storage::{self, Storage};

/// The command `replace`.
pub(crate) struct Replace;

impl Command for Replace {
    const NAME: &'static str = "replace";
    const ARGUMENTS: &'static str = "KEY FLAGS EXPIRY BYTES [noreply]";
    const ABOUT: &'static str = "stores a value if the key has one";
    const WORDS: usize = 5;

    fn run(call: &mut Call<'_>) -> Next {
        storage::begin::<Self>(call)
    }

    fn finish(receipt: Receipt<'_>) -> Next {
        storage::finish::<Self>(receipt)
    }
}

impl Storage for Replace {
    fn verb(_: &[u8]) -> Option<Verb> {
        Some(Verb::Replace)
    }
}
