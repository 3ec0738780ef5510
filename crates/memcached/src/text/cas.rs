//! cas: stores a value if the item still has this version number.

use crate::next::{Next, Receipt};
use crate::operations::store::Verb;
use crate::words::unsigned;

use super::call::{Call, Command};
use super::storage::{self, Storage};

/// The command `cas`.
pub(crate) struct Cas;

impl Command for Cas {
    const NAME: &'static str = "cas";
    const ARGUMENTS: &'static str = "KEY FLAGS EXPIRY BYTES CAS [noreply]";
    const ABOUT: &'static str = "stores a value if the item still has this version number";
    const WORDS: usize = 5;

    fn run(call: &mut Call<'_>) -> Next {
        storage::begin::<Self>(call)
    }

    fn finish(receipt: Receipt<'_>) -> Next {
        storage::finish::<Self>(receipt)
    }
}

impl Storage for Cas {
    fn verb(cas: &[u8]) -> Option<Verb> {
        unsigned(cas).map(Verb::Cas)
    }
}
