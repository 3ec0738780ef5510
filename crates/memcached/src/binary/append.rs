//! append: adds to the end of a value.

use crate::next::{Next, Receipt};
use crate::operations::store::Verb;

use super::call::{Call, Command, Shape};
use super::storage::{self, Storage};

/// The command `append`.
pub(crate) struct Append;

impl Command for Append {
    const OPCODE: u8 = 0x0e;
    const QUIET: Option<u8> = Some(0x19);
    const NAME: &'static str = "append";
    const EXTRAS: &'static [u8] = &[0];
    const SHAPE: Shape = Shape::KeyAndValue;

    fn run(call: &mut Call<'_>) -> Next {
        storage::begin::<Self>(call)
    }

    fn finish(receipt: Receipt<'_>) -> Next {
        storage::finish::<Self>(receipt)
    }
}

impl Storage for Append {
    const VERB: Verb = Verb::Append;
}
