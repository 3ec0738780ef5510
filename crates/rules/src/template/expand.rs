//! Expands the templates of the alerts of one evaluation.
//!
//! **Invariants.** Texts are reserved from the budget of the evaluation as they are made. All templates of an
//! evaluation run at most [`QUERIES_MAX`] different queries, each in the tenant of the rule and at the time
//! of the evaluation. A template that fails becomes a text that says why, as in Prometheus, so that the alert
//! is sent in any case.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use sandur_logql::template::{Host, Results, Template, VALUE_BYTES, Value, text_argument};
use sandur_memory::Reservation;
use sandur_query::QueryContext;

use super::data::{AlertData, sample, text};
use super::name_of;
use crate::data::{Data, Instant};
use crate::error::EvaluationError;
use crate::external::External;
use crate::spec::Expression;

/// The most different queries of the templates of one evaluation.
pub const QUERIES_MAX: usize = 1_000;
/// Bytes of a label of a sample in a template, without its texts.
const LABEL_BYTES: u64 = 160;

/// A template with the data that it sees.
pub struct Job {
    /// The template.
    pub template: Arc<Template>,
    /// Its data.
    pub data: Arc<AlertData>,
}

/// The environment of the templates of one evaluation.
pub struct Surroundings<'a> {
    /// Runs queries.
    pub data: &'a dyn Data,
    /// The labels and the URL of this server.
    pub external: &'a Arc<External>,
    /// The time of the evaluation.
    pub at: Instant,
    /// The expression of the rule. Queries in templates have its language.
    pub expression: Expression<'a>,
    /// The name of the alert.
    pub alert: &'a str,
}

/// The results of queries, by their texts.
type Known = HashMap<String, Result<Value, String>>;

/// The texts of all jobs, in order, with the memory that they use.
pub async fn expand(
    context: &QueryContext,
    surroundings: &Surroundings<'_>,
    jobs: Vec<Job>,
) -> Result<(Vec<String>, Reservation), EvaluationError> {
    let mut held = context.budget().reserve(0)?;
    if jobs.is_empty() {
        return Ok((Vec::new(), held));
    }
    let mut known = Arc::new(Known::new());
    let mut done: Vec<Option<String>> = vec![None; jobs.len()];
    let jobs = Arc::new(jobs);
    let name: Arc<str> = name_of(surroundings.alert).into();
    loop {
        let (external, at, name) = (Arc::clone(surroundings.external), surroundings.at, Arc::clone(&name));
        let (shared, results) = (Arc::clone(&jobs), Arc::clone(&known));
        let mut open = done;
        let bytes = held;
        let round = move || {
            let mut bytes = bytes;
            let mut wanted = BTreeSet::new();
            for (slot, job) in open.iter_mut().zip(shared.iter()).filter(|(slot, _)| slot.is_none()) {
                let host = Queried { known: &results, external: &external, missing: RefCell::default() };
                let made = job.template.render(job.data.dot(), at.ns(), &host);
                match host.missing.into_inner() {
                    Some(query) => _ = wanted.insert(query),
                    None => {
                        let text = made.unwrap_or_else(|why| {
                            format!("<error expanding template: error executing template {name}: {why}>")
                        });
                        bytes.grow(text.capacity() as u64).map_err(sandur_query::Error::from)?;
                        *slot = Some(text);
                    }
                }
            }
            Ok((open, bytes, wanted))
        };
        // A template may run long, however short it is.
        let (after, bytes, wanted) = context.compute(round).await?;
        (done, held) = (after, bytes);
        if wanted.is_empty() {
            break;
        }
        let mut next = Known::clone(&known);
        for query in wanted {
            let result = match next.len() < QUERIES_MAX {
                true => run(surroundings, context, &query, &mut held).await?,
                false => Err(format!("the templates of a rule may run at most {QUERIES_MAX} queries")),
            };
            next.insert(query, result);
        }
        known = Arc::new(next);
    }
    Ok((done.into_iter().map(Option::unwrap_or_default).collect(), held))
}

/// Runs one query of a template. Its failure is a result, except if it is a failure of the evaluation.
async fn run(
    surroundings: &Surroundings<'_>,
    context: &QueryContext,
    query: &str,
    held: &mut Reservation,
) -> Result<Result<Value, String>, EvaluationError> {
    let Surroundings { data, at, expression, .. } = surroundings;
    let expression = Expression { text: query, ..*expression };
    let vector = match data.query(expression, *at, context.remaining()).await {
        Ok(vector) => vector,
        Err(error) if error.is_incomplete() => return Err(error),
        Err(error) => return Ok(Err(error.to_string())),
    };
    let bytes = |labels: &sandur_model::Labels| {
        labels.text_bytes() as u64 + labels.len() as u64 * LABEL_BYTES + 4 * VALUE_BYTES as u64
    };
    held.grow(vector.samples.iter().map(|(labels, _)| bytes(labels)).sum())?;
    let samples = vector.samples.iter().map(|(labels, point)| sample(labels, point.number()));
    Ok(Ok(Value::List(Arc::new(samples.collect()))))
}

/// Answers the functions of a template whose results come from outside.
struct Queried<'a> {
    known: &'a Known,
    external: &'a External,
    /// The query whose result is not known yet.
    missing: RefCell<Option<String>>,
}

impl Host for Queried<'_> {
    fn call(&self, name: &str, arguments: &[Value], _: &Results) -> Result<Value, String> {
        match (name, arguments) {
            ("externalURL", _) => Ok(text(&self.external.url)),
            ("pathPrefix", _) => Ok(text(self.external.path())),
            ("query", [query]) => {
                let query = text_argument(query)?;
                match self.known.get(query) {
                    Some(result) => result.clone(),
                    None => {
                        *self.missing.borrow_mut() = Some(query.to_owned());
                        Err("the query has not run yet".to_owned())
                    }
                }
            }
            _ => Err(format!("{name} is not available here")),
        }
    }
}
