//! add: stores a value if there is none.

use crate::next::{Next, Receipt};
use crate::operations::store::Verb;

use super::call::{Call, Command};
use super::storage::{self, Storage};

/// The command `add`.
pub(crate) struct Add;

impl Command for Add {
    const NAME: &'static str = "add";
    const ARGUMENTS: &'static str = "KEY FLAGS EXPIRY BYTES [noreply]";
    const ABOUT: &'static str = "stores a value if the key has none";
    const WORDS: usize = 5;

    fn run(call: &mut Call<'_>) -> Next {
        storage::begin::<Self>(call)
    }

    fn finish(receipt: Receipt<'_>) -> Next {
        storage::finish::<Self>(receipt)
    }
}

impl Storage for Add {
    fn verb(_: &[u8]) -> Option<Verb> {
        Some(Verb::Add)
    }
}
