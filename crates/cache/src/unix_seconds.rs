//! The one clock of items: whole seconds since 1970.
//!
//! Invariant: never 0, which as an expiry means "never".

use sandur_base::Env;

/// Now, in seconds since 1970, from 1 to the last second that 32 bits hold.
pub fn unix_seconds(env: &Env) -> u32 {
    (env.now_ns() / 1_000_000_000).clamp(1, i64::from(u32::MAX)) as u32
}
