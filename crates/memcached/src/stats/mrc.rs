//! `stats mrc`: predicted hit ratio and requests to the store at other capacities, under the names of
//! `/metrics`.

use super::report::Report;
use crate::command_context::CommandContext;

/// Reports one row per figure. The name of a figure for another capacity ends in its ratio to the
/// present one. Reports no rows if the cache is too small for a prediction.
pub(super) fn report(context: &CommandContext<'_>) -> Report {
    let mut report = Report::default();
    for metric in context.cache().prediction().iter().flat_map(sandur_cache::predict::Report::metrics) {
        let name = metric.scale.map_or(metric.name.to_owned(), |scale| format!("{}:{scale}", metric.name));
        report.add(name, format!("{:.6}", metric.value));
    }
    report
}
