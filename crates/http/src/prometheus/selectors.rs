//! What the index endpoints share: selectors, times, limits, the log line.

use axum::response::Response;
use sandur_memory::Reservation;
use sandur_model::{Matcher, TimeRange};
use sandur_query::{Error, QueryContext, QueryStats, SeriesRequest};
use sandur_service::Queries;
use sandur_service::promql;
use sandur_service::query_log::{Asked, Outcome, QueryLog, Times};

use super::params;
use super::queries::{TRUNCATED, refuse};
use super::refused::{Kind, Refused};
use super::reply::{JSON, Listed, in_pieces};
use crate::call::Call;
use crate::marshal::json;
use crate::route::{Parameter, parameter};

/// Maximum number of selectors of a request.
const SELECTORS_MAX: usize = 1_000;

/// Optional selectors.
pub const MATCH: Parameter = parameter("match[]", "a selector; may be repeated; by default every series");
/// Start of the range.
pub const START: Parameter = parameter("start", "first instant; by default the earliest");
/// End of the range.
pub const END: Parameter = parameter("end", "last instant; by default the latest");
/// Maximum number of items.
pub const LIMIT: Parameter = parameter(
    "limit",
    "maximum number of items, with a warning when there are \
    more; 0: all",
);

/// The parsed request of an index endpoint.
#[derive(Clone)]
pub struct Request {
    /// Selectors, combined by "or"; empty: all series.
    pub selectors: Vec<Vec<Matcher>>,
    /// The range in which a series must have samples.
    pub range: TimeRange,
    /// Maximum number of items.
    pub limit: Option<usize>,
    /// The times for the log line.
    pub times: Times,
}

impl Request {
    /// Reads the parameters. `defaults` are the default start and end in milliseconds.
    pub async fn read(context: &QueryContext, call: &Call, defaults: (i64, i64)) -> Result<Self, Refused> {
        let limit = params::limit(&call.params)?;
        let (first, last) = params::bounds(&call.params, defaults)?;
        let range = params::range((first, last));
        let times = Times { start_ns: range.start, end_ns: range.end.saturating_sub(1) };
        Ok(Self { selectors: read(context, call).await?, range, limit, times })
    }

    /// Selects the series that match any selector; every series if there is no selector.
    pub fn series(&self) -> SeriesRequest {
        SeriesRequest::any_of(self.selectors.clone(), self.range)
    }
}

/// Parses every `match[]`.
pub async fn read(context: &QueryContext, call: &Call) -> Result<Vec<Vec<Matcher>>, Refused> {
    let texts: Vec<String> = call.params.all("match[]").map(str::to_owned).collect();
    if texts.len() > SELECTORS_MAX {
        return Err(refuse(&format!("{} selectors are more than {SELECTORS_MAX}", texts.len())));
    }
    let parsed = promql::parse_selectors(context, texts).await;
    parsed.map_err(|error| Refused::reading(error, str::to_owned))
}

/// Runs the work of an index endpoint within the query's time, logs it, and answers with the items.
pub async fn listed<T: Send + 'static>(
    (queries, call): (&Queries, &Call),
    (context, asked): (&QueryContext, Asked),
    (limit, write): (Option<usize>, fn(&mut Vec<u8>, &T)),
    work: impl Future<Output = Result<(Vec<T>, Option<Reservation>), Error>>,
) -> Result<Response, Refused> {
    let log = QueryLog::begin(queries, &call.caller, context, asked);
    let found = context.in_time(work).await.and_then(|found| found);
    let cost = log.cost();
    let (mut items, memory) = match found {
        Ok(found) => found,
        Err(error) => {
            let refused = Refused::from(error);
            log.end(&cost, Outcome::from(&refused));
            return Err(refused);
        }
    };
    let mut warnings = context.warnings();
    if limit.is_some_and(|limit| items.len() > limit) {
        items.truncate(limit.unwrap_or(usize::MAX));
        warnings.push(TRUNCATED.to_owned());
    }
    QueryStats::add(&context.stats().entries_returned, items.len() as u64);
    let ended = move |result_bytes| log.end(&cost, Outcome::answered(result_bytes));
    Ok(in_pieces(queries.env(), call, JSON, Listed::new(items, write, warnings, memory), ended).await)
}

/// Writes a string.
pub fn write_text(out: &mut Vec<u8>, text: &String) {
    json::string(out, text.as_bytes());
}

/// Unescapes the name of a label in a path: after the prefix `U__`, `__` is an underscore and `_2f_` the
/// character with that code point. Any other text is returned unchanged.
pub fn label_name(text: &str) -> Result<String, Refused> {
    let name = text.strip_prefix("U__").and_then(unescaped).unwrap_or_else(|| text.to_owned());
    match name.is_empty() {
        true => Err(Refused::new(Kind::BadData, format!("invalid label name: {name:?}"))),
        false => Ok(name),
    }
}

fn unescaped(text: &str) -> Option<String> {
    let mut name = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('_') {
        name.push_str(&rest[..at]);
        let (code, after) = rest[at + 1..].split_once('_')?;
        match code {
            "" => name.push('_'),
            code if code.len() <= 6 && code.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                name.push(char::from_u32(u32::from_str_radix(code, 16).ok()?)?);
            }
            _ => return None,
        }
        rest = after;
    }
    name.push_str(rest);
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_names_are_decoded_and_others_unchanged() {
        for (text, name) in [
            ("job", "job"),
            ("U__http_2e_status_3a_code", "http.status:code"),
            ("U__a__b", "a_b"),
            ("U___1f600_", "😀"),
            ("U__bad_", "U__bad_"),
            ("U__bad_zz_", "U__bad_zz_"),
            ("U__bad_d800_", "U__bad_d800_"),
            ("U__bad_1234567_", "U__bad_1234567_"),
            ("a.b", "a.b"),
        ] {
            assert_eq!(label_name(text).unwrap(), name);
        }
        assert!(label_name("").is_err());
    }
}
