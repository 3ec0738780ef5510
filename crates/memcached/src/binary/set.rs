//! set: stores a value.

use crate::next::{Next, Receipt};
use crate::operations::store::Verb;

use super::call::{Call, Command, Shape};
use super::storage::{self, Storage};

/// The command `set`.
pub(crate) struct Set;

impl Command for Set {
    const OPCODE: u8 = 0x01;
    const QUIET: Option<u8> = Some(0x11);
    const NAME: &'static str = "set";
    const EXTRAS: &'static [u8] = &[8];
    const SHAPE: Shape = Shape::KeyAndValue;

    fn run(call: &mut Call<'_>) -> Next {
        storage::begin::<Self>(call)
    }

    fn finish(receipt: Receipt<'_>) -> Next {
        storage::finish::<Self>(receipt)
    }
}

impl Storage for Set {
    const VERB: Verb = Verb::Set;
}
