//! extstore: sets options of the flash tier.

use crate::extstore_options;
use crate::next::Next;
use crate::words::{fraction, unsigned_32};

use super::call::{Call, ERROR};

/// Number of slab classes of memcached, for arguments that name one.
const SLAB_CLASSES: u32 = 64;

/// Answers a call.
pub(crate) fn run(call: &mut Call<'_>) -> Next {
    let answer = if set(call).is_some() { b"OK".as_slice() } else { ERROR };
    extstore_options::turn(call.context.server);
    call.answer(answer)
}

fn set(call: &mut Call<'_>) -> Option<()> {
    let (name, value) = (call.words.next()?, call.words.next()?);
    let mut tuning = call.context.server.tuning();
    let number = || unsigned_32(value);
    match name {
        b"free_memchunks" => {
            let class = number()?;
            unsigned_32(call.words.next()?)?;
            return (class < SLAB_CLASSES).then_some(());
        }
        b"item_size" => tuning.ext_item_size = number()?,
        b"item_age" => tuning.ext_item_age = number()?,
        b"low_ttl" => tuning.ext_low_ttl = number()?,
        b"recache_rate" => tuning.ext_recache_rate = number()?,
        b"compact_under" => tuning.ext_compact_under = number()?,
        b"drop_under" => tuning.ext_drop_under = number()?,
        b"max_sleep" => tuning.ext_max_sleep = number()?,
        b"max_frag" => tuning.ext_max_frag = fraction(value)?,
        b"drop_unread" => tuning.ext_drop_unread = number()? != 0,
        _ => return None,
    }
    Some(())
}
