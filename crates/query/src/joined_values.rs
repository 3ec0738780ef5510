//! Values of several labels that some series have together, as one text for each combination: the nodes of
//! Graphite's paths down to a level.

use sandur_base::{OverBudget, Reservation};
use sandur_model::{Matcher, TimeRange};

use crate::context::QueryContext;
use crate::error::Error;
use crate::source::SeriesIndex;
use crate::text_scan::TextBatch;

/// Bytes that a combination takes beside its text.
const ENTRY_BYTES: u64 = 64;
/// So many are looked through for the first time.
const LOOK_MIN: usize = 1 << 16;

/// Which values are put together.
#[derive(Clone, Debug)]
pub struct JoinedLabels {
    /// The labels; a series that lacks one of them is left out.
    pub labels: Vec<String>,
    /// Between the values.
    pub separator: char,
    /// Most combinations; it is an error when there are more.
    pub limit: usize,
}

/// Combinations that were found, and what pays for them. Several holders may have the same ones: these are
/// taken out whenever there are twice as many as there were then.
pub struct JoinedTexts {
    found: Vec<String>,
    /// When they are looked through next.
    look_at: usize,
    limit: usize,
    memory: Reservation,
}

impl JoinedTexts {
    /// None yet.
    pub fn new(context: &QueryContext, limit: usize) -> Result<Self, OverBudget> {
        Ok(Self {
            found: Vec::new(),
            look_at: LOOK_MIN.min(limit),
            limit,
            memory: context.budget().reserve(0)?,
        })
    }

    /// Adds a combination.
    pub fn add(&mut self, text: String) -> Result<(), Error> {
        self.memory.grow(text.len() as u64 + ENTRY_BYTES)?;
        self.found.push(text);
        if self.found.len() > self.look_at {
            self.take_repeated_out()?;
        }
        Ok(())
    }

    fn take_repeated_out(&mut self) -> Result<(), Error> {
        self.found.sort_unstable();
        self.found.dedup();
        if self.found.len() > self.limit {
            return Err(beyond(self.limit));
        }
        let bytes = self.found.iter().map(|text| text.len() as u64 + ENTRY_BYTES).sum();
        self.memory.resize(bytes)?;
        self.look_at = (self.found.len() * 2).max(LOOK_MIN.min(self.limit));
        Ok(())
    }

    /// All of them, sorted, each once.
    pub fn finish(mut self) -> Result<TextBatch, Error> {
        self.take_repeated_out()?;
        let mut batch: TextBatch = self.found.iter().map(String::as_str).collect();
        batch.held = Some(self.memory);
        Ok(batch)
    }
}

/// That there are more combinations than may be.
pub fn beyond(limit: usize) -> Error {
    Error::Limit(format!("more than {limit} names fit; narrow the pattern, the tags or the time"))
}

/// The same by looking at each series.
pub(crate) async fn known_joined<S: SeriesIndex + ?Sized>(
    source: &S,
    context: &QueryContext,
    wanted: JoinedLabels,
    matchers: Vec<Matcher>,
    range: TimeRange,
) -> Result<TextBatch, Error> {
    let mut texts = JoinedTexts::new(context, wanted.limit)?;
    let mut scan = source.series_scan(context, vec![matchers], range).await?;
    while let Some(batch) = scan.next().await? {
        context.check()?;
        for series in 0..batch.labels.len() {
            let value =
                |name: &String| batch.pairs(series).find(|(own, _)| own == name).map(|(_, value)| value);
            let values: Option<Vec<&str>> = wanted.labels.iter().map(value).collect();
            if let Some(values) = values {
                texts.add(values.join(wanted.separator.encode_utf8(&mut [0; 4])))?;
            }
        }
    }
    texts.finish()
}
