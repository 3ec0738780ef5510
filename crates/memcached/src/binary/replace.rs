//! replace: stores a value if there is one.

use crate::next::{Next, Receipt};
use crate::operations::store::Verb;

use super::call::{Call, Command, Shape};
use super::storage::{self, Storage};

/// The command `replace`.
pub(crate) struct Replace;

impl Command for Replace {
    const OPCODE: u8 = 0x03;
    const QUIET: Option<u8> = Some(0x13);
    const NAME: &'static str = "replace";
    const EXTRAS: &'static [u8] = &[8];
    const SHAPE: Shape = Shape::KeyAndValue;

    fn run(call: &mut Call<'_>) -> Next {
        storage::begin::<Self>(call)
    }

    fn finish(receipt: Receipt<'_>) -> Next {
        storage::finish::<Self>(receipt)
    }
}

impl Storage for Replace {
    const VERB: Verb = Verb::Replace;
}
