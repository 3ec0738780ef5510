//! append: adds to the end of a value.

use crate::next::{Next, Receipt};
use crate::operations::store::Verb;

use super::call::{Call, Command};
use super::storage::{self, Storage};

/// The command `append`.
pub(crate) struct Append;

impl Command for Append {
    const NAME: &'static str = "append";
    const ARGUMENTS: &'static str = "KEY FLAGS EXPIRY BYTES [noreply]";
    const ABOUT: &'static str = "adds to the end of a value";
    const WORDS: usize = 5;

    fn run(call: &mut Call<'_>) -> Next {
        storage::begin::<Self>(call)
    }

    fn finish(receipt: Receipt<'_>) -> Next {
        storage::finish::<Self>(receipt)
    }
}

impl Storage for Append {
    fn verb(_: &[u8]) -> Option<Verb> {
        Some(Verb::Append)
    }
}
