//! Values of several labels that some series have together, as one text for each combination: the nodes of
//! Graphite's paths down to a level.

use std::cmp::Ordering;

use sandur_base::{Reservation, job};
use sandur_model::{Matcher, TimeRange};

use crate::context::QueryContext;
use crate::error::Error;
use crate::source::SeriesIndex;
use crate::text_scan::TextBatch;

/// Bytes that a combination takes beside its text, also while holders are put together.
const ENTRY_BYTES: u64 = 24;
/// Bytes that are reserved at once.
const LUMP_BYTES: u64 = 64 << 10;
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

/// Combinations that were found, and what pays for them. Holders give theirs one after the other, most of
/// them in order, and several may have the same ones: these are taken out whenever there are twice as many
/// as there were then.
pub struct JoinedTexts {
    /// Those of the holder that is asked.
    open: TextBatch,
    /// Whether they came in order.
    in_order: bool,
    /// Those of holders before, of each sorted and once.
    before: Vec<TextBatch>,
    /// How many these are, and their bytes.
    held_before: (usize, u64),
    /// When they are looked through next.
    look_at: usize,
    limit: usize,
    memory: Reservation,
}

impl JoinedTexts {
    /// None yet.
    pub fn new(context: &QueryContext, limit: usize) -> Result<Self, Error> {
        Ok(Self {
            open: TextBatch::default(),
            in_order: true,
            before: Vec::new(),
            held_before: (0, 0),
            look_at: LOOK_MIN.min(limit),
            limit,
            memory: context.budget().reserve(0)?,
        })
    }

    /// Adds a combination of the holder that is asked.
    pub fn add<'t>(&mut self, values: impl Iterator<Item = &'t str>, separator: char) -> Result<(), Error> {
        self.open.push_joined(values, separator);
        let count = self.open.len();
        let before = count.checked_sub(2).map(|last| self.open.get(last));
        match before.map_or(Ordering::Less, |before| before.cmp(self.open.get(count - 1))) {
            Ordering::Less => {}
            Ordering::Equal => {
                self.open.pop();
                return Ok(());
            }
            Ordering::Greater => self.in_order = false,
        }
        self.pay()?;
        match self.held() > self.look_at {
            true => self.take_repeated_out(),
            false => Ok(()),
        }
    }

    /// Notes that the holder that is asked gave all that it has.
    pub fn end_holder(&mut self) -> Result<(), Error> {
        let mut of_holder = std::mem::take(&mut self.open);
        if !std::mem::replace(&mut self.in_order, true) {
            of_holder = sorted(std::slice::from_ref(&of_holder))?;
        }
        if !of_holder.is_empty() {
            self.keep(of_holder);
        }
        Ok(())
    }

    fn keep(&mut self, of_holder: TextBatch) {
        self.held_before.0 += of_holder.len();
        self.held_before.1 += bytes_of(&of_holder);
        self.before.push(of_holder);
    }

    fn held(&self) -> usize {
        self.open.len() + self.held_before.0
    }

    /// Reserves for everything twice: once more while it is put together.
    fn pay(&mut self) -> Result<(), Error> {
        let bytes = (self.held_before.1 + bytes_of(&self.open)) * 2;
        if bytes > self.memory.bytes() {
            self.memory.resize(bytes + LUMP_BYTES)?;
        }
        Ok(())
    }

    /// Puts everything together.
    fn take_repeated_out(&mut self) -> Result<(), Error> {
        self.end_holder()?;
        self.pay()?;
        if self.before.len() > 1 {
            let all = sorted(&self.before)?;
            self.before.clear();
            self.held_before = (0, 0);
            self.keep(all);
        }
        let count = self.held();
        if count > self.limit {
            return Err(beyond(self.limit));
        }
        self.look_at = (count * 2).max(LOOK_MIN.min(self.limit));
        Ok(())
    }

    /// All of them, sorted, each once.
    pub fn finish(mut self) -> Result<TextBatch, Error> {
        self.take_repeated_out()?;
        let mut batch = self.before.pop().unwrap_or_default();
        self.memory.resize(bytes_of(&batch))?;
        batch.held = Some(self.memory);
        Ok(batch)
    }
}

fn bytes_of(batch: &TextBatch) -> u64 {
    batch.text_bytes() as u64 + batch.len() as u64 * ENTRY_BYTES
}

/// The texts of some batches, sorted, each once.
fn sorted(batches: &[TextBatch]) -> Result<TextBatch, Error> {
    let mut texts: Vec<&str> = batches.iter().flat_map(TextBatch::iter).collect();
    job::spend(texts.len() * 32)?;
    texts.sort(); // runs that are sorted already are merged
    texts.dedup();
    Ok(texts.into_iter().collect())
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
                texts.add(values.into_iter(), wanted.separator)?;
            }
        }
    }
    texts.finish()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests fail that way

    use std::collections::BTreeSet;
    use std::time::Duration;

    use sandur_base::{Env, MemoryBudget};
    use sandur_model::TenantId;

    use super::*;

    fn context_of(bytes: u64) -> QueryContext {
        let budget = MemoryBudget::root("query", bytes);
        QueryContext::new(Env::system(1), TenantId::default_tenant(), budget, Duration::from_secs(3_600))
    }

    /// Adds what seven holders have, of which the last two give it in no order; gives all of it.
    fn fill(texts: &mut JoinedTexts) -> Result<BTreeSet<String>, Error> {
        let mut all = BTreeSet::new();
        for holder in 0..7_u64 {
            for n in 0..50_000_u64 {
                let number = if holder < 5 { n * (holder + 1) } else { n * 7_919 % 50_000 };
                let parts = [format!("{number:06}"), format!("host{}", number % 3)];
                texts.add(parts.iter().map(String::as_str), '.')?;
                all.insert(parts.join("."));
            }
            texts.end_holder()?;
        }
        Ok(all)
    }

    #[test]
    fn what_several_holders_have_is_told_once_and_in_order() {
        let context = context_of(64 << 20);
        let mut texts = JoinedTexts::new(&context, 150_000).unwrap();
        let all = fill(&mut texts).unwrap();
        let found = texts.finish().unwrap();
        assert!(all.len() > 100_000 && found.iter().eq(all.iter().map(String::as_str)));
        let held = found.iter().map(|text| text.len() as u64 + ENTRY_BYTES).sum::<u64>();
        assert_eq!(context.budget().used(), held);
        drop(found);
        assert_eq!(context.budget().used(), 0);
        let mut few = JoinedTexts::new(&context, 100_000).unwrap();
        assert!(matches!(fill(&mut few), Err(Error::Limit(_))));
        drop(few);
        let small = context_of(1 << 20);
        assert!(fill(&mut JoinedTexts::new(&small, 150_000).unwrap()).is_err());
        assert_eq!((context.budget().used(), small.budget().used()), (0, 0));
    }
}
