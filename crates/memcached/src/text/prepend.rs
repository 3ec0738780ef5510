//! prepend: adds to the start of a value.

use crate::next::{Next, Receipt};
use crate::operations::store::Verb;

use super::call::{Call, Command};
use super::storage::{self, Storage};

/// The command `prepend`.
pub(crate) struct Prepend;

impl Command for Prepend {
    const NAME: &'static str = "prepend";
    const ARGUMENTS: &'static str = "KEY FLAGS EXPIRY BYTES [noreply]";
    const ABOUT: &'static str = "adds to the start of a value";
    const WORDS: usize = 5;

    fn run(call: &mut Call<'_>) -> Next {
        storage::begin::<Self>(call)
    }

    fn finish(receipt: Receipt<'_>) -> Next {
        storage::finish::<Self>(receipt)
    }
}

impl Storage for Prepend {
    fn verb(_: &[u8]) -> Option<Verb> {
        Some(Verb::Prepend)
    }
}
