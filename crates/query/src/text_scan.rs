//! Sorted texts in batches, for results of label queries that may exceed memory.

use std::collections::BTreeSet;

use sandur_base::BoxFuture;
use sandur_memory::Reservation;

use crate::context::QueryContext;
use crate::error::Error;

/// Bytes of a text in memory besides its characters.
pub(crate) const TEXT_BYTES: u64 = 48;

/// A batch of sorted texts.
#[derive(Default)]
pub struct TextBatch {
    text: String,
    ends: Vec<u32>,
    /// The memory of the batch.
    pub held: Option<Reservation>,
}

impl TextBatch {
    /// The number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no texts.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Appends a text.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len() as u32);
    }

    /// Appends one text that consists of parts with a separator between them.
    pub fn push_joined<'t>(&mut self, parts: impl Iterator<Item = &'t str>, separator: char) {
        for (at, part) in parts.enumerate() {
            if at > 0 {
                self.text.push(separator);
            }
            self.text.push_str(part);
        }
        self.ends.push(self.text.len() as u32);
    }

    /// Removes the last text.
    pub fn pop(&mut self) {
        self.ends.pop();
        self.text.truncate(self.ends.last().map_or(0, |end| *end as usize));
    }

    /// The text at a position.
    pub fn get(&self, at: usize) -> &str {
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.text[start..self.ends[at] as usize]
    }

    /// Bytes of all texts together.
    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }

    /// The texts in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|at| self.get(at))
    }
}

impl<'a> FromIterator<&'a str> for TextBatch {
    fn from_iter<T: IntoIterator<Item = &'a str>>(texts: T) -> Self {
        let mut batch = Self::default();
        texts.into_iter().for_each(|text| batch.push(text));
        batch
    }
}

/// Delivers distinct texts in batches, sorted over all batches.
pub trait TextScan: Send {
    /// The next batch, which is not empty; `None` after the last. After a refusal of memory it can be
    /// called again, and continues at the same position.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<TextBatch>, Error>>;
}

/// Sorted distinct texts, with the reservation of their memory.
pub struct DistinctTexts {
    found: BTreeSet<String>,
    memory: Reservation,
}

impl DistinctTexts {
    /// No texts.
    pub fn new(context: &QueryContext) -> Result<Self, Error> {
        Ok(Self { found: BTreeSet::new(), memory: context.budget().reserve(0)? })
    }

    /// Adds a text.
    pub fn add(&mut self, text: &str) -> Result<(), Error> {
        if !self.found.contains(text) {
            self.memory.grow(text.len() as u64 + TEXT_BYTES)?;
            self.found.insert(text.to_owned());
        }
        Ok(())
    }

    /// A scan over the texts, which releases their memory as it delivers them.
    pub fn into_scan(self) -> Box<dyn TextScan> {
        Box::new(KnownTexts { texts: self.found.into_iter(), held: self.memory })
    }
}

/// A scan over one batch.
pub struct KnownBatch(Option<TextBatch>);

impl KnownBatch {
    /// A scan over this batch.
    pub fn new(batch: TextBatch) -> Self {
        Self(Some(batch).filter(|batch| !batch.is_empty()))
    }
}

impl TextScan for KnownBatch {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<TextBatch>, Error>> {
        Box::pin(std::future::ready(Ok(self.0.take())))
    }
}

/// A scan over texts that are in memory. It releases the memory of those that it has delivered.
struct KnownTexts {
    texts: std::collections::btree_set::IntoIter<String>,
    held: Reservation,
}

/// Texts per batch of [`KnownTexts`].
const BATCH_TEXTS: usize = 1_024;

impl TextScan for KnownTexts {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<TextBatch>, Error>> {
        let mut batch = TextBatch::default();
        self.texts.by_ref().take(BATCH_TEXTS).for_each(|text| batch.push(&text));
        self.held.shrink(batch.text_bytes() as u64 + batch.len() as u64 * TEXT_BYTES);
        Box::pin(std::future::ready(Ok((!batch.is_empty()).then_some(batch))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn distinct_texts_come_sorted_in_batches_and_hold_their_memory() {
        let budget = sandur_memory::MemoryBudget::root("query", 1 << 20);
        let tenant = sandur_model::TenantId::default_tenant();
        let (env, hour) = (sandur_runtime::Env::system(1), std::time::Duration::from_secs(3_600));
        let context = QueryContext::new(env, tenant, budget.clone(), hour);
        let mut texts = DistinctTexts::new(&context).unwrap();
        let all: Vec<String> = (0..3_000).map(|n| format!("{n:05}")).collect();
        all.iter().rev().chain(&all).try_for_each(|text| texts.add(text)).unwrap();
        assert_eq!(budget.used(), 3_000 * (5 + TEXT_BYTES));
        let (mut scan, mut found) = (texts.into_scan(), Vec::new());
        while let Some(batch) = scan.next().await.unwrap() {
            assert!((1..=BATCH_TEXTS).contains(&batch.len()));
            found.extend(batch.iter().map(str::to_owned));
        }
        assert_eq!(found, all);
        drop(scan);
        assert_eq!(budget.used(), 0);
    }
}
