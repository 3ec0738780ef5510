//! Distinct combinations of the values of several labels, each joined to one text: the nodes of Graphite
//! paths down to a level.

use std::cmp::Ordering;

use sandur_memory::{Reservation, job};

use crate::context::QueryContext;
use crate::error::Error;
use crate::text_scan::TextBatch;

/// Bytes of a combination besides its text, including the time while lists are merged.
const ENTRY_BYTES: u64 = 24;
/// Size of a reservation step in bytes.
const LUMP_BYTES: u64 = 64 << 10;
/// Number of combinations at which duplicates are removed for the first time.
const LOOK_MIN: usize = 1 << 16;

/// Which labels to combine, and how.
#[derive(Clone, Debug)]
pub struct JoinedLabels {
    /// The labels in order; a series without one of them is skipped.
    pub labels: Vec<String>,
    /// Separates the values.
    pub separator: char,
    /// The most combinations; more are an error.
    pub limit: usize,
}

/// Collects combinations from several holders (blocks and heads), one holder after the other, in
/// reserved memory. Most holders deliver theirs sorted, and several may have the same ones. Duplicates
/// are removed whenever the number of combinations has doubled since the last time.
pub struct JoinedTexts {
    /// Combinations of the current holder.
    open: TextBatch,
    /// Whether the current holder delivered them sorted.
    in_order: bool,
    /// Combinations of earlier holders; each list is sorted and without duplicates.
    before: Vec<TextBatch>,
    /// The number of those combinations, and their bytes.
    held_before: (usize, u64),
    /// The number of combinations at which duplicates are removed next.
    look_at: usize,
    limit: usize,
    memory: Reservation,
}

impl JoinedTexts {
    /// An empty collection with a limit on the number of combinations.
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

    /// Adds a combination of the current holder.
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

    /// Ends the current holder.
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

    /// Reserves memory for twice all combinations, because merging copies them.
    fn pay(&mut self) -> Result<(), Error> {
        let bytes = (self.held_before.1 + bytes_of(&self.open)) * 2;
        if bytes > self.memory.bytes() {
            self.memory.resize(bytes + LUMP_BYTES)?;
        }
        Ok(())
    }

    /// Merges all lists to one without duplicates.
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

    /// All distinct combinations, sorted.
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

/// The distinct texts of some batches, sorted.
fn sorted(batches: &[TextBatch]) -> Result<TextBatch, Error> {
    let mut texts: Vec<&str> = batches.iter().flat_map(TextBatch::iter).collect();
    job::spend(texts.len() * 32)?;
    texts.sort(); // the stable sort merges sorted runs
    texts.dedup();
    Ok(texts.into_iter().collect())
}

/// The error for more combinations than the limit.
pub fn beyond(limit: usize) -> Error {
    Error::Limit(format!("more than {limit} names fit; narrow the pattern, the tags or the time"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests fail that way

    use std::collections::BTreeSet;
    use std::time::Duration;

    use sandur_memory::MemoryBudget;
    use sandur_model::TenantId;
    use sandur_runtime::Env;

    use super::*;

    fn context_of(bytes: u64) -> QueryContext {
        let budget = MemoryBudget::root("query", bytes);
        QueryContext::new(Env::system(1), TenantId::default_tenant(), budget, Duration::from_secs(3_600))
    }

    /// Adds the combinations of seven holders, the last two unsorted; returns all distinct ones.
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
    fn combinations_of_several_holders_are_sorted_and_distinct() {
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
