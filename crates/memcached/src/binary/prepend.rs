//! prepend: adds to the start of a value.

use crate::next::{Next, Receipt};
use crate::operations::store::Verb;

use super::call::{Call, Command, Shape};
use super::storage::{self, Storage};

/// The command `prepend`.
pub(crate) struct Prepend;

impl Command for Prepend {
    const OPCODE: u8 = 0x0f;
    const QUIET: Option<u8> = Some(0x1a);
    const NAME: &'static str = "prepend";
    const EXTRAS: &'static [u8] = &[0];
    const SHAPE: Shape = Shape::KeyAndValue;

    fn run(call: &mut Call<'_>) -> Next {
        storage::begin::<Self>(call)
    }

    fn finish(receipt: Receipt<'_>) -> Next {
        storage::finish::<Self>(receipt)
    }
}

impl Storage for Prepend {
    const VERB: Verb = Verb::Prepend;
}
