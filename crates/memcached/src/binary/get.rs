//! get, getk, touch, gat and gatk, and their quiet forms.

use crate::operations::{fetch, settle};
use crate::session::Next;
use crate::text::touch::present;
use crate::time::expires_at;
use sandur_cache::Answer;
use sandur_cache::{Item, Read};

use super::{BinaryCommand, Call, Shape, Status, number_32};

pub(crate) const GET: BinaryCommand = command(0x00, Some(0x09), "get", &[0], |c| run(c, Kind::default()));
pub(crate) const GETK: BinaryCommand =
    command(0x0c, Some(0x0d), "getk", &[0], |c| run(c, Kind { key: true, ..Kind::default() }));
pub(crate) const TOUCH: BinaryCommand =
    command(0x1c, None, "touch", &[4], |c| run(c, Kind { touches: true, bare: true, ..Kind::default() }));
pub(crate) const GAT: BinaryCommand =
    command(0x1d, Some(0x1e), "gat", &[4], |c| run(c, Kind { touches: true, ..Kind::default() }));
pub(crate) const GATK: BinaryCommand =
    command(0x23, Some(0x24), "gatk", &[4], |c| run(c, Kind { touches: true, key: true, ..Kind::default() }));

const fn command(
    opcode: u8,
    quiet: Option<u8>,
    name: &'static str,
    extras: &'static [u8],
    run: fn(&mut Call<'_>) -> Next,
) -> BinaryCommand {
    BinaryCommand { opcode, quiet, name, extras, shape: Shape::Key, open: false, run }
}

#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    /// Whether the answer repeats the key.
    key: bool,
    /// Whether the item gets a new expiry.
    touches: bool,
    /// Whether the answer has no value.
    bare: bool,
}

fn run(call: &mut Call<'_>, kind: Kind) -> Next {
    let turn = call.turn;
    let touch = kind.touches.then(|| expires_at(i64::from(number_32(call.extras, 0)), turn.now));
    let range = kind.bare.then_some(0..0);
    let found = present(turn.cache().get(call.key, &Read { expires_at: touch, range, ..Read::default() }));
    let (header, quiet, was_pending) = (call.header, call.quiet, matches!(found, Answer::Pending(_)));
    settle(turn, call.output, call.key, found, move |turn, key, found: Option<Item>, out| {
        fetch::count(turn, key, found.as_ref(), kind.touches);
        let shown_key = if kind.key { key } else { &[] };
        match found {
            Some(item) => {
                let (cas, flags) = (turn.shown_cas(item.cas), item.flags.to_be_bytes());
                header.write_value(cas, &flags, shown_key, item.value, out);
            }
            None => {
                if was_pending {
                    turn.counters.totals.miss_from_extstore.add(1);
                }
                if !quiet && kind.key {
                    header.write(Status::NotFound, 0, &[], shown_key, &[], out);
                } else if !quiet {
                    header.write_error(Status::NotFound, out);
                }
            }
        }
    });
    // reads do not wait for each other
    Next::Done
}
