//! The reference page is what the tables say.

use std::path::Path;

#[test]
fn the_reference_page_is_not_stale() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/promql.md");
    let written = std::fs::read_to_string(&page).unwrap();
    let remedy = "cargo run -q -p sandur-promql --example promql_reference > docs/reference/promql.md";
    assert!(written == sandur_promql::reference(), "run: {remedy}");
}
