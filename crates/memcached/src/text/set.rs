//! set: stores a value.

use crate::next::{Next, Receipt};
use crate::operations::store::Verb;

use super::call::{Call, Command};
use super::storage::{self, Storage};

/// The command `set`.
pub(crate) struct Set;

impl Command for Set {
    const NAME: &'static str = "set";
    const ARGUMENTS: &'static str = "KEY FLAGS EXPIRY BYTES [noreply]";
    const ABOUT: &'static str = "stores a value";
    const WORDS: usize = 5;

    fn run(call: &mut Call<'_>) -> Next {
        storage::begin::<Self>(call)
    }

    fn finish(receipt: Receipt<'_>) -> Next {
        storage::finish::<Self>(receipt)
    }
}

impl Storage for Set {
    fn verb(_: &[u8]) -> Option<Verb> {
        Some(Verb::Set)
    }
}
