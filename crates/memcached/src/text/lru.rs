//! lru: tunes memcached's LRU.
//!
//! The numbers are checked and shown in `stats settings`. They have no other effect, because the cache
//! has no such LRU.

use crate::next::Next;
use crate::words::{fraction, signed, unsigned_32};

use super::call::{Call, ERROR};

/// Answers a call.
pub(crate) fn run(call: &mut Call<'_>) -> Next {
    let answer = tune(call).unwrap_or(ERROR);
    call.answer(answer)
}

fn tune(call: &mut Call<'_>) -> Option<&'static [u8]> {
    let mut tuning = call.context.server.tuning();
    match call.words.next()? {
        b"tune" => {
            let (hot, warm) = (unsigned_32(call.words.next()?)?, unsigned_32(call.words.next()?)?);
            let (hot_factor, warm_factor) = (fraction(call.words.next()?)?, fraction(call.words.next()?)?);
            if hot.saturating_add(warm) > 80 {
                return Some(b"ERROR hot and warm pcts must not exceed 80");
            }
            if hot_factor <= 0.0 || warm_factor <= 0.0 {
                return Some(b"ERROR hot/warm age factors must be greater than 0");
            }
            (tuning.hot_lru_pct, tuning.warm_lru_pct) = (hot, warm);
            (tuning.hot_max_factor, tuning.warm_max_factor) = (hot_factor, warm_factor);
        }
        b"mode" if tuning.lru_maintainer => match call.words.next()? {
            b"flat" => tuning.lru_segmented = false,
            b"segmented" => tuning.lru_segmented = true,
            _ => return None,
        },
        b"temp_ttl" if tuning.lru_maintainer => {
            let ttl = signed(call.words.next()?)?;
            tuning.temp_lru = ttl >= 0;
            if let Ok(ttl) = u32::try_from(ttl) {
                tuning.temporary_ttl = ttl;
            }
        }
        _ => return None,
    }
    Some(b"OK")
}
