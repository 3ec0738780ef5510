//! `/metrics/find`, `/metrics/expand` and `/metrics/index.json`: the tree of paths, in every format that
//! clients request.
//!
//! A format of `find` is a file and a line in [`FIND_FORMATS`]. Nodes are in the order of their names.

mod carbonserver;
mod completer;
mod expand;
mod index;
mod json;
mod msgpack;
mod nodelist;
mod parameters;
mod pickle;
mod request;
mod treejson;

use sandur_memory::job::reserve_exactly;
use sandur_query::QueryContext;

use crate::encoding::json::wrapped;
use crate::error::{Error, Result};
use crate::glob::Pattern;
use crate::rendered::{ANSWER_BYTES_MAX, Rendered};
use crate::source::Source;

pub use carbonserver::{Glob as GlobAnswer, read_globs, write_globs};
pub use expand::{ExpandRequest, expand};
pub use index::index;
use request::Node;
pub use request::{FindFormat, FindRequest};

/// Fewer nodes are written in place, without a job on the CPU pool.
const LITTLE: usize = 256;

/// All formats.
pub const FIND_FORMATS: &[&FindFormat] = &[
    &treejson::FORMAT,
    &completer::FORMAT,
    &nodelist::FORMAT,
    &json::FORMAT,
    &pickle::FORMAT,
    &msgpack::FORMAT,
    &carbonserver::PROTOBUF,
    &carbonserver::OLDER,
    &carbonserver::NEWER,
];

/// Finds the nodes of a request and writes the answer.
pub async fn find(
    source: &dyn Source,
    context: &QueryContext,
    request: &FindRequest,
) -> std::result::Result<Rendered, Error> {
    let pattern = Pattern::parse(&request.pattern())?;
    let mut found = source.find(context, &pattern, request.times).await?;
    if request.leaves_only {
        found.retain(|node| node.is_leaf);
    }
    let request = request.clone();
    let is_little = found.len() < LITTLE;
    let job = move || {
        let mut nodes: Vec<Node> = found.into_iter().map(|found| Node::of(found, &pattern)).collect();
        nodes.sort_by(|a, b| (a.name(), &a.path, a.is_leaf).cmp(&(b.name(), &b.path, b.is_leaf)));
        nodes.dedup_by(|a, b| (&a.path, a.is_leaf) == (&b.path, b.is_leaf));
        write(&request, &nodes)
    };
    context.compute_sized(is_little, move || Ok(job())).await?
}

fn write(request: &FindRequest, nodes: &[Node]) -> Result<Rendered> {
    let texts = nodes.iter().map(|node| 160 + 3 * node.path.len()).sum::<usize>();
    let guess = texts.saturating_add(nodes.len().saturating_mul(request.query.len()));
    if guess > ANSWER_BYTES_MAX {
        return Err(Error::Limit(format!(
            "the answer would have about {guess} bytes, more than {ANSWER_BYTES_MAX}; narrow the pattern"
        )));
    }
    let _held = reserve_exactly(guess as u64)?;
    let mut body = Vec::new();
    (request.format.write)(request, nodes, &mut body)?;
    let callback = request.jsonp.as_deref().filter(|_| request.format.is_json);
    Ok(wrapped(request.format.content_type, body, callback))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandur_memory::MemoryBudget;
    use sandur_model::TenantId;
    use sandur_runtime::Env;

    use super::*;
    use crate::source::testing::Made;
    use crate::zone::Zone;

    fn found(count: usize, pairs: &[(&str, &str)]) -> Result<Vec<u8>> {
        let budget = MemoryBudget::root("query", 64 << 10);
        let tenant = TenantId::default_tenant();
        let context =
            QueryContext::new(Env::simulated(1, 0), tenant, budget.clone(), Duration::from_secs(3_600));
        let pairs: Vec<_> = pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let request = FindRequest::read(&pairs, 1000, &Zone::utc())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let answer = runtime.block_on(find(&Made { nodes: count, ..Made::default() }, &context, &request));
        assert_eq!(budget.used(), 0);
        answer.map(|rendered| rendered.body)
    }

    #[test]
    fn every_format_reserves_its_memory() {
        for format in FIND_FORMATS {
            let pairs = [("query", "a.*"), ("format", format.name)];
            assert!(!found(3, &pairs).unwrap().is_empty(), "{}", format.name);
            let error = found(10_000, &pairs).unwrap_err();
            assert!(matches!(error, Error::Query(sandur_query::Error::OverBudget(_))), "{}", format.name);
        }
    }

    #[test]
    fn series_have_the_requested_time_range() {
        let text = |pairs: &[(&str, &str)]| String::from_utf8(found(1, pairs).unwrap()).unwrap();
        let all = [("query", "a.*"), ("format", "json")];
        assert!(text(&all).contains("\"intervals\": [{\"start\": 0, \"end\": 1000}]"));
        let part = [("query", "a.*"), ("format", "json"), ("from", "400"), ("until", "500")];
        assert!(text(&part).contains("{\"start\": 400, \"end\": 500}"));
        let msgpack = found(1, &[("query", "a.*"), ("format", "msgpack")]).unwrap();
        assert!(msgpack.starts_with(b"\x91\x83\xa4path\xa4a.n0\xa7is_leaf\xc3\xa9intervals\x91\x92\x00"));
    }

    #[test]
    fn extreme_parameters_are_answered_or_refused() {
        for position in ["-9223372036854775808", "9223372036854775807", "-1", "1", "-2", "-3"] {
            let _ = found(2, &[("query", "a.*"), ("format", "nodelist"), ("position", position)]);
        }
        assert!(found(2, &[("query", "a.*"), ("format", "nodelist"), ("position", "-2")]).is_ok());
        assert!(found(2, &[("query", "a.*"), ("position", "9999999999999999999")]).is_err());
        for wrong in [("query", ""), ("format", "png"), ("from", "x")] {
            assert!(found(1, &[("query", "a"), wrong]).is_err(), "{wrong:?}");
        }
    }
}
