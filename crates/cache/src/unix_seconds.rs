//! The clock for expiry: whole seconds since 1970.
//!
//! Invariant: the time is never 0, because an expiry of 0 means "never".

use sandur_runtime::Env;

/// The current time in seconds since 1970, clamped to 1 ..= `u32::MAX`.
pub fn unix_seconds(env: &Env) -> u32 {
    (env.now_ns() / 1_000_000_000).clamp(1, i64::from(u32::MAX)) as u32
}
