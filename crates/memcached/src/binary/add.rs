//! add: stores a value if there is none.

use crate::next::{Next, Receipt};
use crate::operations::store::Verb;

use super::call::{Call, Command, Shape};
use super::storage::{self, Storage};

/// The command `add`.
pub(crate) struct Add;

impl Command for Add {
    const OPCODE: u8 = 0x02;
    const QUIET: Option<u8> = Some(0x12);
    const NAME: &'static str = "add";
    const EXTRAS: &'static [u8] = &[8];
    const SHAPE: Shape = Shape::KeyAndValue;

    fn run(call: &mut Call<'_>) -> Next {
        storage::begin::<Self>(call)
    }

    fn finish(receipt: Receipt<'_>) -> Next {
        storage::finish::<Self>(receipt)
    }
}

impl Storage for Add {
    const VERB: Verb = Verb::Add;
}
