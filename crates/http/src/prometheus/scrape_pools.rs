//! `scrape_pools`: names of scrape configurations.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;

use super::reply::success;
use crate::marshal::json;
use crate::route::{Access, GET, Group, Route};
use crate::scrape_state::Scraping;

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/api/v1/scrape_pools", "/prometheus/api/v1/scrape_pools"],
    group: Group::Metrics,
    scope: Access::Admin,
    does: "Names of scrape configurations.",
    parameters: &[],
    answers: "200, `{\"scrapePools\":[\"node\",..]}` as `data`.",
    fails: "",
    several_tenants: false,
    handler: |verbs| on(verbs, pools),
};

async fn pools(State(scraping): State<Scraping>) -> Response {
    let mut pools = scraping.get().map(|state| state.pools()).unwrap_or_default();
    pools.sort();
    let data = |out: &mut Vec<u8>| {
        out.extend_from_slice(b"{\"scrapePools\":");
        json::strings(out, pools.iter().map(String::as_str));
        out.push(b'}');
    };
    success(data, &[])
}
