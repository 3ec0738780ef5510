//! Invalidates all items.

use crate::command_context::CommandContext;
use crate::time::expires_at;

/// Invalidates all items, at once or after `delay` seconds.
pub(crate) fn flush(context: &CommandContext<'_>, delay: i64) {
    let at = (delay > 0).then(|| expires_at(delay, context.now)).filter(|at| *at > context.now);
    context.server.flush_all(at);
}
