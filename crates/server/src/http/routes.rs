//! The table of routes. An endpoint is one file with its handler and its `ROUTE`, and one line here;
//! the router and `docs/reference/http-api.md` are made from this table.

use super::route::Route;
use super::{loki, operations};

/// Every endpoint, in the order of the reference.
pub static ROUTES: &[&Route] = &[
    &loki::push::ROUTE,
    &loki::otlp::ROUTE,
    &loki::query_range::ROUTE,
    &loki::query::ROUTE,
    &loki::tail::ROUTE,
    &loki::format_query::ROUTE,
    &loki::label_names::ROUTE,
    &loki::label_values::ROUTE,
    &loki::series::ROUTE,
    &loki::index_stats::ROUTE,
    &loki::index_volume::ROUTE,
    &loki::index_volume_range::ROUTE,
    &loki::detected_labels::ROUTE,
    &loki::detected_fields::ROUTE,
    &loki::detected_field_values::ROUTE,
    &loki::drilldown_limits::ROUTE,
    &operations::ready::ROUTE,
    &operations::healthy::ROUTE,
    &operations::metrics::ROUTE,
    &operations::services::ROUTE,
    &operations::config::ROUTE,
    &operations::tenant_limits::ROUTE,
    &operations::build_info::ROUTE,
    &operations::flush::ROUTE,
];
