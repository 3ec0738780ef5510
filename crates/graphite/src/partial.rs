//! Fetched series between processes: what one is asked to fetch, in the part that its context names, and
//! the series that it answers with. Functions are applied by the process that asks.
//!
//! **Invariants.** The answers of all parts are the series of one process: the points of a path and its
//! coarser archives are in one part. Memory is reserved before bytes are decoded.

use sandur_protobuf::Writer as _;
use sandur_query::wire::{Fields, Put as _, begin, malformed};
use sandur_query::{Error, QueryContext};

use crate::column::Column;
use crate::glob::Pattern;
use crate::source::{Fetched, Selector, Source, Window};
use crate::tags::TagExpression;

/// The most bytes of a request: a pattern and tag expressions have limits of their own.
const REQUEST_BYTES_MAX: usize = 1 << 20;
/// The bytes of a series without its name and its values.
const SERIES_BYTES: u64 = size_of::<Fetched>() as u64 + 64;

/// What a process is asked to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchRequest {
    wanted: Wanted,
    /// The times.
    pub window: Window,
}

/// A selector of series as text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    Path(String),
    Name(String),
    Tags(Vec<String>),
}

impl FetchRequest {
    /// The request for the series of a selector.
    pub fn new(selector: Selector<'_>, window: Window) -> Self {
        let text = |of: &TagExpression| format!("{}{}{}", of.tag, of.operator.sign(), of.spec);
        let wanted = match selector {
            Selector::Path(pattern) => Wanted::Path(pattern.text().to_owned()),
            Selector::Name(name) => Wanted::Name(name.to_owned()),
            Selector::Tags(expressions) => Wanted::Tags(expressions.iter().map(text).collect()),
        };
        Self { wanted, window }
    }

    /// The request for another process.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        begin(&mut out);
        match &self.wanted {
            Wanted::Path(pattern) => out.bytes(2, pattern.as_bytes()),
            Wanted::Name(name) => out.bytes(3, name.as_bytes()),
            Wanted::Tags(all) => all.iter().for_each(|expression| out.bytes(4, expression.as_bytes())),
        }
        for (field, time) in [(5, self.window.from), (6, self.window.until), (7, self.window.now)] {
            out.put_signed(field, time);
        }
        out
    }

    /// The request that another process sent.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let mut fields = Fields::of_request(bytes, REQUEST_BYTES_MAX)?;
        let (mut wanted, mut window) = (None, Window { from: 0, until: 0, now: 0 });
        while let Some(field) = fields.field()? {
            match field {
                2 => wanted = Some(Wanted::Path(fields.text()?.to_owned())),
                3 => wanted = Some(Wanted::Name(fields.text()?.to_owned())),
                4 => {
                    let expression = fields.text()?.to_owned();
                    match &mut wanted {
                        Some(Wanted::Tags(all)) => all.push(expression),
                        other => *other = Some(Wanted::Tags(vec![expression])),
                    }
                }
                5 => window.from = fields.signed()?,
                6 => window.until = fields.signed()?,
                7 => window.now = fields.signed()?,
                _ => fields.skip()?,
            }
        }
        let wanted = wanted.ok_or_else(|| malformed("a request without a selector"))?;
        Ok(Self { wanted, window })
    }
}

/// Fetches the series in the part of the context.
pub async fn answer_part(
    source: &dyn Source,
    context: &QueryContext,
    request: &FetchRequest,
) -> Result<Vec<Fetched>, Error> {
    let invalid = |error: crate::Error| Error::Invalid(error.to_string());
    match &request.wanted {
        Wanted::Path(text) => {
            let pattern = Pattern::parse(text).map_err(invalid)?;
            source.fetch(context, Selector::Path(&pattern), request.window).await
        }
        Wanted::Name(name) => source.fetch(context, Selector::Name(name), request.window).await,
        Wanted::Tags(texts) => {
            let parsed = texts.iter().map(|text| TagExpression::parse(text));
            let expressions = parsed.collect::<Result<Vec<_>, _>>().map_err(invalid)?;
            source.fetch(context, Selector::Tags(&expressions), request.window).await
        }
    }
}

/// The bytes of fetched series.
pub fn to_bytes(series: &[Fetched]) -> Vec<u8> {
    let mut out = Vec::new();
    begin(&mut out);
    for one in series {
        out.message(2, |out| {
            out.bytes(1, one.name.as_bytes());
            for (field, number) in [(2, one.start), (3, one.end), (4, one.step)] {
                out.put_signed(field, number);
            }
            out.number(5, u64::from(one.values.is_whole()));
            out.put_floats(6, one.values.packed_values());
        });
    }
    out
}

/// The series that another process has fetched. Reserves their memory in the query's budget; the reservation
/// of names is returned.
pub fn from_bytes(
    bytes: &[u8],
    context: &QueryContext,
) -> Result<(Vec<Fetched>, sandur_memory::Reservation), Error> {
    let (mut found, mut memory) = (Vec::new(), context.budget().reserve(0)?);
    let mut fields = Fields::of_message(bytes)?;
    while let Some(field) = fields.field()? {
        match field {
            2 => {
                memory.grow(SERIES_BYTES)?;
                found.push(series(&mut fields.message()?, context, &mut memory)?);
            }
            _ => fields.skip()?,
        }
    }
    Ok((found, memory))
}

fn series(
    fields: &mut Fields<'_>,
    context: &QueryContext,
    memory: &mut sandur_memory::Reservation,
) -> Result<Fetched, Error> {
    let (name, values) = (String::new(), Column::default());
    let (mut one, mut whole) = (Fetched { name, start: 0, end: 0, step: 1, values }, false);
    while let Some(field) = fields.field()? {
        match field {
            1 => {
                let name = fields.text()?;
                memory.grow(name.len() as u64)?;
                name.clone_into(&mut one.name);
            }
            2 => one.start = fields.signed()?,
            3 => one.end = fields.signed()?,
            4 => one.step = fields.signed()?,
            5 => whole = fields.number()? != 0,
            6 => one.values = Column::of_packed(context.budget(), |held| fields.floats(held))?,
            _ => fields.skip()?,
        }
    }
    let length = i128::from(one.end) - i128::from(one.start);
    let is_valid = one.step > 0 && length == one.values.len() as i128 * i128::from(one.step);
    match (is_valid, whole) {
        (false, _) => Err(malformed("the times of a series do not fit its values")),
        (true, true) => Ok(Fetched { values: one.values.of_integers(), ..one }),
        (true, false) => Ok(one),
    }
}

/// The series of all parts, by name.
pub fn join(parts: impl IntoIterator<Item = Vec<Fetched>>) -> Vec<Fetched> {
    let mut all: Vec<Fetched> = parts.into_iter().flatten().collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use sandur_memory::MemoryBudget;
    use sandur_model::{TenantId, graphite_path_labels, graphite_tagged_labels};
    use sandur_query::{MemorySeries, Part};
    use sandur_runtime::Env;

    use super::*;
    use crate::{StorageRules, StoredOptions, StoredSeries};

    const WINDOW: Window = Window { from: 0, until: 1_200, now: 1_200 };

    fn source() -> MemorySeries {
        let mut source = MemorySeries::default();
        for n in 0..25 {
            let path = graphite_path_labels(&format!("servers.web{n}.load")).unwrap();
            let tagged = graphite_tagged_labels("load", [("server", &*format!("web{n}"))]).unwrap();
            for labels in [path, tagged] {
                source.edit(&labels, |samples| {
                    for minute in (0..20).filter(|minute| (minute + n) % 4 > 0) {
                        samples.times.push(minute * 60_000);
                        samples.values.push((n * minute) as f64 / 3.0);
                    }
                });
            }
        }
        source
    }

    fn context(bytes: u64) -> QueryContext {
        let budget = MemoryBudget::root("query", bytes);
        QueryContext::new(Env::simulated(1, 0), TenantId::default_tenant(), budget, Duration::from_secs(60))
    }

    fn requests() -> [FetchRequest; 3] {
        let pattern = Pattern::parse("servers.web{1,2,3}*.load").unwrap();
        let tags = [TagExpression::parse("server=~web1.*").unwrap()];
        let selectors = [Selector::Path(&pattern), Selector::Name("load;server=web7"), Selector::Tags(&tags)];
        selectors.map(|selector| FetchRequest::new(selector, WINDOW))
    }

    async fn fetched(request: &FetchRequest, part: Part) -> Vec<Fetched> {
        let (source, context) = (source(), context(1 << 20).with_part(part));
        let rules = Arc::new(StorageRules::read(None, None).unwrap());
        let stored = StoredSeries::new(&source, rules, StoredOptions::default());
        answer_part(&stored, &context, request).await.unwrap()
    }

    #[tokio::test]
    async fn series_of_all_parts_are_those_of_one_process() {
        for request in requests() {
            let asked = FetchRequest::from_bytes(&request.to_bytes()).unwrap();
            assert_eq!(asked, request);
            let whole = join([fetched(&request, Part::WHOLE).await]);
            assert!(!whole.is_empty(), "{request:?}");
            for count in [1, 2, 5] {
                let (joining, mut parts, mut held) = (context(1 << 20), Vec::new(), Vec::new());
                for index in 0..count {
                    let bytes = to_bytes(&fetched(&asked, Part::of(index, count).unwrap()).await);
                    let (part, names) = from_bytes(&bytes, &joining).unwrap();
                    assert_eq!(to_bytes(&part), bytes);
                    parts.push(part);
                    held.push(names);
                }
                assert!(joining.budget().used() > 0);
                assert_eq!(to_bytes(&join(parts)), to_bytes(&whole), "{request:?} in {count} parts");
            }
        }
    }

    #[tokio::test]
    async fn damaged_bytes_and_answers_without_memory_are_refused() {
        for request in requests() {
            let bytes = to_bytes(&fetched(&request, Part::WHOLE).await);
            assert!(matches!(from_bytes(&bytes, &context(100)), Err(Error::OverBudget(_))));
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << (at % 8);
                if at % 5 == 0 {
                    damaged.truncate(at);
                }
                if let Ok((series, _)) = from_bytes(&damaged, &context(1 << 20)) {
                    assert!(series.iter().all(|one| one.step > 0), "a step is at least a second");
                }
            }
            let asked = request.to_bytes();
            for at in 0..asked.len() {
                let _ = FetchRequest::from_bytes(&asked[..at]);
            }
        }
        assert!(FetchRequest::from_bytes(&vec![0; REQUEST_BYTES_MAX + 1]).is_err());
    }
}
