//! Voiding all items.

use crate::time::expires_at;
use crate::turn::Turn;

/// Voids all items, at once or after `delay` seconds.
pub(crate) fn flush(turn: &Turn<'_>, delay: i64) {
    let at = (delay > 0).then(|| expires_at(delay, turn.now)).filter(|at| *at > turn.now);
    turn.server.flush_all(at);
}
