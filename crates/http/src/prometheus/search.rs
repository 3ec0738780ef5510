//! What the endpoints of `search` share: parameters, filters, and answers line by line.
//!
//! An answer is lines of JSON: batches of results, of which the first is always present, and a last line
//! that says whether there are more results.

use axum::http::HeaderValue;
use axum::response::Response;
use sandur_memory::Reservation;
use sandur_model::TimeRange;
use sandur_query::{Error, QueryContext};
use sandur_service::Queries;
use sandur_service::query_log::{Asked, Outcome, QueryLog, Times};

use super::params;
use super::queries::refuse;
use super::refused::Refused;
use super::reply::{PIECE_BYTES, Pieces, in_pieces};
use super::search_score::{Algorithm, Term};
use super::selectors;
use crate::call::Call;
use crate::marshal::json;
use crate::params::Params;
use crate::route::{Parameter, parameter};

const LINES: HeaderValue = HeaderValue::from_static("application/x-ndjson; charset=utf-8");
/// Maximum number of terms of a request: each is compared with every name.
const TERMS_MAX: usize = 32;
/// Maximum bytes of a term: names are shorter.
const TERM_BYTES_MAX: usize = 4_096;
/// Default number of results.
const LIMIT_DEFAULT: usize = 100;
/// Default number of results per line.
const BATCH_DEFAULT: usize = 100;
const HOUR_MS: i64 = 3_600_000;

/// Parameters of all three endpoints.
pub const PARAMETERS: [Parameter; 12] = [
    parameter("match[]", "a selector; may be repeated; by default every series"),
    parameter("search[]", "a search term; may be repeated; results match any term"),
    parameter("fuzz_alg", "`subsequence` (default) or `jarowinkler`"),
    parameter("fuzz_threshold", "minimum score in percent; 0"),
    parameter("case_sensitive", "`true` (default) or `false`"),
    parameter("sort_by", "`alpha` (default) or `score`"),
    parameter("sort_dir", "`asc` (default) or `dsc`, with `sort_by=alpha`"),
    parameter("include_score", "whether results include their scores"),
    parameter("start", "first instant; by default an hour ago"),
    parameter("end", "last instant; by default now"),
    parameter("limit", "maximum number of results; 100"),
    parameter("batch_size", "results per line; 100"),
];

/// A result: a text with its score.
pub struct Hit {
    /// The name or value.
    pub text: String,
    /// Similarity, from 0 to 1.
    pub score: f64,
}

/// The parameters of a search.
pub struct Search {
    /// Selectors, combined by "or".
    pub request: selectors::Request,
    terms: Vec<Term>,
    is_case_sensitive: bool,
    order: Order,
    has_score: bool,
    limit: usize,
    batch: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Rising,
    Falling,
    Score,
}

impl Search {
    /// Reads the parameters.
    pub async fn read(
        queries: &Queries,
        context: &QueryContext,
        call: &Call,
        name: &str,
    ) -> Result<Self, Refused> {
        let params = &call.params;
        let now_ms = queries.env().now_ns().div_euclid(1_000_000);
        let (first, last) = params::bounds(params, (now_ms - HOUR_MS, now_ms))?;
        if last < first {
            return Err(refuse("end timestamp must not be before start timestamp"));
        }
        let range: TimeRange = params::range((first, last));
        let times = Times { start_ns: range.start, end_ns: range.end.saturating_sub(1) };
        let is_case_sensitive = truth(params, "case_sensitive", true)?;
        let terms = terms(params, is_case_sensitive)?;
        let order = order(params, name, !terms.is_empty())?;
        let (limit, batch) =
            (count(params, "limit", LIMIT_DEFAULT)?, count(params, "batch_size", BATCH_DEFAULT)?);
        let has_score = truth(params, "include_score", false)?;
        let selectors = selectors::read(context, call).await?;
        let request = selectors::Request { selectors, range, limit: None, times };
        Ok(Self { request, terms, is_case_sensitive, order, has_score, limit, batch })
    }

    /// The score of a text; `None` if it does not match.
    fn score(&self, text: &str) -> Option<f64> {
        if self.terms.is_empty() {
            return Some(1.0);
        }
        let lower;
        let text = match self.is_case_sensitive {
            true => text,
            false => {
                lower = text.to_lowercase();
                &lower
            }
        };
        self.terms.iter().filter_map(|term| term.score(text)).max_by(f64::total_cmp)
    }

    /// The matching texts in order, and whether there are more than the limit.
    fn pick(&self, texts: Vec<String>) -> Result<(Vec<Hit>, bool), Error> {
        let mut hits = Vec::new();
        for text in texts {
            sandur_memory::job::spend(64 + text.len() * 64 * (1 + self.terms.len()))?;
            if let Some(score) = self.score(&text) {
                hits.push(Hit { text, score });
            }
        }
        match self.order {
            Order::Rising => {}
            Order::Falling => hits.reverse(),
            // The sort is stable: equal scores stay in the order of the texts.
            Order::Score => hits.sort_by(|a, b| b.score.total_cmp(&a.score)),
        }
        let has_more = hits.len() > self.limit;
        hits.truncate(self.limit);
        Ok((hits, has_more))
    }
}

/// Writes a result as JSON without its score: `"name":"up"`.
pub type Write = Box<dyn Fn(&mut Vec<u8>, &Hit) + Send>;

/// Runs `work` within the query's time, logs the query, and answers with the results that match.
pub async fn answer(
    (queries, call): (&Queries, &Call),
    context: &QueryContext,
    search: Search,
    work: impl Future<Output = Result<(Vec<String>, Reservation, Write), Error>>,
) -> Result<Response, Refused> {
    let terms = call.params.all("search[]").collect::<Vec<_>>().join(" ");
    let log = QueryLog::begin(
        queries,
        &call.caller,
        context,
        Asked::other("search", &terms, search.request.times).of_metrics(),
    );
    let (has_score, batch) = (search.has_score, search.batch);
    let all = async {
        let (texts, memory, write) = work.await?;
        let (hits, has_more) = context.compute(move || search.pick(texts)).await?;
        Ok::<_, Error>((hits, has_more, memory, write))
    };
    let found = context.in_time(all).await.and_then(|found| found);
    let cost = log.cost();
    let (hits, has_more, memory, write) = match found {
        Ok(found) => found,
        Err(error) => {
            let refused = Refused::from(error);
            log.end(&cost, Outcome::from(&refused));
            return Err(refused);
        }
    };
    let lines = Lines {
        hits: hits.into_iter(),
        write,
        has_score,
        batch,
        has_more,
        warnings: context.warnings(),
        is_first: true,
        _memory: memory,
    };
    let ended = move |result_bytes| log.end(&cost, Outcome::answered(result_bytes));
    Ok(in_pieces(queries.env(), call, LINES, lines, ended).await)
}

struct Lines {
    hits: std::vec::IntoIter<Hit>,
    write: Write,
    has_score: bool,
    batch: usize,
    has_more: bool,
    warnings: Vec<String>,
    is_first: bool,
    _memory: Reservation,
}

impl Pieces for Lines {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        while out.len() < PIECE_BYTES {
            if self.hits.len() == 0 && !self.is_first {
                json::push(out, format_args!("{{\"status\":\"success\",\"has_more\":{}}}\n", self.has_more));
                return false;
            }
            out.extend_from_slice(b"{\"results\":[");
            for (n, hit) in self.hits.by_ref().take(self.batch).enumerate() {
                out.extend_from_slice(if n == 0 { b"{" } else { b",{" });
                (self.write)(out, &hit);
                if self.has_score {
                    json::push(out, format_args!(",\"score\":{}", hit.score));
                }
                out.push(b'}');
            }
            out.push(b']');
            if std::mem::take(&mut self.is_first) {
                json::warnings(out, &self.warnings);
            }
            out.extend_from_slice(b"}\n");
        }
        true
    }
}

fn terms(params: &Params, is_case_sensitive: bool) -> Result<Vec<Term>, Refused> {
    let given = params.all("search[]").count();
    if given > TERMS_MAX {
        let text = format!("too many search[] terms: got {given}, maximum is {TERMS_MAX}");
        return Err(refuse(&text));
    }
    let threshold = match params.get("fuzz_threshold") {
        None => 0,
        Some(text) => text
            .parse::<u8>()
            .ok()
            .filter(|percent| *percent <= 100)
            .ok_or_else(|| refuse(&format!("invalid fuzz_threshold {text:?}: must be 0-100")))?,
    };
    let algorithm = match params.get("fuzz_alg") {
        None => Algorithm::Subsequence,
        Some(name) => Algorithm::named(name).ok_or_else(|| {
            refuse(&format!("unsupported fuzz_alg {name:?}: must be one of [subsequence jarowinkler]"))
        })?,
    };
    let mut terms = Vec::new();
    for text in params.all("search[]").filter(|text| !text.is_empty()) {
        if text.len() > TERM_BYTES_MAX {
            return Err(refuse(&format!("a search[] term has more than {TERM_BYTES_MAX} bytes")));
        }
        let text = if is_case_sensitive { text.to_owned() } else { text.to_lowercase() };
        terms.push(Term::new(&text, algorithm, f64::from(threshold) / 100.0));
    }
    Ok(terms)
}

fn order(params: &Params, endpoint: &str, has_terms: bool) -> Result<Order, Refused> {
    let (by, direction) = (params.get("sort_by").unwrap_or(""), params.get("sort_dir").unwrap_or(""));
    if !direction.is_empty() && by.is_empty() {
        return Err(refuse("sort_dir is only valid when sort_by is set"));
    }
    if !direction.is_empty() && by == "score" {
        return Err(refuse("sort_dir is not supported for sort_by=score"));
    }
    if !matches!(direction, "" | "asc" | "dsc") {
        return Err(refuse(&format!("invalid sort_dir {direction:?}: must be \"asc\" or \"dsc\"")));
    }
    match (by, direction) {
        ("score", _) if !has_terms => Err(refuse("sort_by=score requires search[] to be set")),
        ("score", _) => Ok(Order::Score),
        ("" | "alpha", "dsc") => Ok(Order::Falling),
        ("" | "alpha", _) => Ok(Order::Rising),
        _ => Err(refuse(&format!("invalid sort_by {by:?} for {endpoint}: must be \"alpha\" or \"score\""))),
    }
}

fn count(params: &Params, name: &str, default: usize) -> Result<usize, Refused> {
    let Some(text) = params.get(name) else { return Ok(default) };
    let number = text.parse::<usize>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| refuse(&format!("invalid {name} {text:?}: must be a positive integer")))
}

/// A boolean parameter that may be absent.
pub fn truth(params: &Params, name: &str, default: bool) -> Result<bool, Refused> {
    let Some(text) = params.get(name) else { return Ok(default) };
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(refuse(&format!("invalid {name} {text:?}: must be boolean"))),
    }
}
