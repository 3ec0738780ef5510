//! Values of a label over blocks and heads, merged while they are read.
//!
//! Each holder returns its values in order, in pages. Values up to the least of the last values of all
//! pages are complete, because no later page has smaller ones. So one page of each holder and one batch
//! are in memory.

use std::sync::Arc;

use futures_util::future::join_all;
use sandur_base::BoxFuture;
use sandur_format::sample_block::index::TextPage;
use sandur_memory::Reservation;
use sandur_query::{Error, QueryContext, TextBatch, TextScan};

use crate::samples::head::SortedValues;
use crate::samples::index::{ValueStream, or_warn};

/// Number of values of a head per page.
const HEAD_PAGE: usize = 512;

/// The source of one holder's values.
enum Source {
    Block(Box<ValueStream>),
    /// Values of a head, and the number of values already taken.
    Head(Arc<SortedValues>, usize),
}

struct Cursor {
    source: Source,
    page: Arc<TextPage>,
    at: usize,
    is_over: bool,
}

/// The merged values of all holders.
pub(super) struct ValueScan {
    context: QueryContext,
    cursors: Vec<Cursor>,
    /// Pays for the values of heads.
    _memory: Reservation,
}

impl Cursor {
    fn new(source: Source) -> Self {
        Self { source, page: Arc::default(), at: 0, is_over: false }
    }

    /// Reads the next page if the current one is used up.
    async fn fill(&mut self, context: &QueryContext) -> Result<(), Error> {
        if self.is_over || self.at < self.page.len() {
            return Ok(());
        }
        // If memory is refused, nothing has changed and the call can be repeated.
        let page = match &mut self.source {
            Source::Block(stream) => {
                let read = stream.next().await;
                or_warn(context, read)?.flatten().unwrap_or_default()
            }
            Source::Head(values, from) => {
                let page: TextPage = values.iter(*from).take(HEAD_PAGE).collect();
                *from += page.len();
                Arc::new(page)
            }
        };
        (self.at, self.is_over, self.page) = (0, page.is_empty(), page);
        Ok(())
    }

    fn last(&self) -> Option<&str> {
        self.page.len().checked_sub(1).map(|last| self.page.get(last))
    }

    /// The position after the last text that is at most the bound.
    fn end_of(&self, bound: &str) -> usize {
        match self.last() {
            None => self.at,
            Some(last) if last <= bound => self.page.len(),
            // No text occurs twice.
            Some(_) => {
                let found = self.page.lower_bound(bound);
                (found + usize::from(self.page.get(found) == bound)).max(self.at)
            }
        }
    }
}

/// The sorted union of sorted lists.
fn union_of(mut lists: Vec<Vec<&str>>) -> Vec<&str> {
    while lists.len() > 1 {
        let mut pairs = std::mem::take(&mut lists).into_iter();
        while let Some(first) = pairs.next() {
            lists.push(match pairs.next() {
                Some(second) => union_of_two(&first, &second),
                None => first,
            });
        }
    }
    lists.pop().unwrap_or_default()
}

fn union_of_two<'a>(first: &[&'a str], second: &[&'a str]) -> Vec<&'a str> {
    let mut all = Vec::with_capacity(first.len().max(second.len()));
    let (mut one, mut other) = (first.iter().peekable(), second.iter().peekable());
    while let (Some(left), Some(right)) = (one.peek(), other.peek()) {
        let order = left.cmp(right);
        all.extend(if order.is_le() { one.next() } else { other.next() });
        if order.is_eq() {
            other.next();
        }
    }
    all.extend(one.chain(other));
    all
}

impl ValueScan {
    pub(super) fn new(
        context: &QueryContext,
        blocks: Vec<ValueStream>,
        heads: Vec<SortedValues>,
    ) -> Result<Self, Error> {
        let bytes = heads.iter().map(SortedValues::memory_bytes).sum();
        let memory = context.budget().reserve(bytes)?;
        let blocks = blocks.into_iter().map(|stream| Cursor::new(Source::Block(Box::new(stream))));
        let heads = heads.into_iter().map(|values| Cursor::new(Source::Head(Arc::new(values), 0)));
        Ok(Self { context: context.clone(), cursors: blocks.chain(heads).collect(), _memory: memory })
    }

    async fn take(&mut self) -> Result<Option<TextBatch>, Error> {
        let context = &self.context;
        context.check()?;
        for filled in join_all(self.cursors.iter_mut().map(|cursor| cursor.fill(context))).await {
            filled?;
        }
        self.cursors.retain(|cursor| !cursor.is_over);
        let Some(bound) = self.cursors.iter().filter_map(Cursor::last).min() else { return Ok(None) };
        let bytes: usize = self.cursors.iter().map(|cursor| cursor.page.text_bytes()).sum();
        let texts: usize = self.cursors.iter().map(|cursor| cursor.page.len()).sum();
        // The texts of the batch, and two lists of them, because a union needs both.
        let held = context.budget().reserve((bytes + texts * 40) as u64)?;
        let ends: Vec<usize> = self.cursors.iter().map(|cursor| cursor.end_of(bound)).collect();
        let complete = |(cursor, end): (&Cursor, &usize)| (cursor.at..*end, Arc::clone(&cursor.page));
        let mut parts: Vec<_> = self.cursors.iter().zip(&ends).map(complete).collect();
        // Consecutive blocks usually have the same values.
        parts.dedup();
        let sorted = parts.iter().map(|(places, page)| places.clone().map(|at| page.get(at)).collect());
        let mut batch: TextBatch = union_of(sorted.collect()).into_iter().collect();
        batch.held = Some(held);
        self.cursors.iter_mut().zip(ends).for_each(|(cursor, end)| cursor.at = end);
        Ok(Some(batch))
    }
}

impl TextScan for ValueScan {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<TextBatch>, Error>> {
        Box::pin(self.take())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_union_has_each_text_once_and_in_order() {
        let texts: Vec<String> = (0..40).map(|n| format!("pod-{n}")).collect();
        for lists in 0..7u32 {
            let list = |list: u32| -> Vec<&str> {
                let has = |n: &usize| {
                    !(*n as u32 * 7 + list * list).is_multiple_of(list + 2) || lists.is_multiple_of(2)
                };
                let sorted: BTreeSet<&str> = (0..texts.len()).filter(has).map(|n| &*texts[n]).collect();
                sorted.into_iter().collect()
            };
            let lists: Vec<Vec<&str>> = (0..lists).map(list).collect();
            let expected: BTreeSet<&str> = lists.iter().flatten().copied().collect();
            assert_eq!(union_of(lists), Vec::from_iter(expected));
        }
    }
}
