//! Sorted texts in batches, for results of label queries that may exceed memory.

use std::collections::BTreeSet;

use sandur_base::{BoxFuture, Reservation};

use crate::error::Error;

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

/// A scan over texts that are in memory.
pub struct KnownTexts {
    texts: std::collections::btree_set::IntoIter<String>,
    _held: Option<Reservation>,
}

/// Texts per batch of [`KnownTexts`].
const BATCH_TEXTS: usize = 1_024;

impl KnownTexts {
    /// A scan over these texts; `held` is the reservation of their memory.
    pub fn new(texts: BTreeSet<String>, held: Option<Reservation>) -> Self {
        Self { texts: texts.into_iter(), _held: held }
    }
}

impl TextScan for KnownTexts {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<TextBatch>, Error>> {
        let mut batch = TextBatch::default();
        self.texts.by_ref().take(BATCH_TEXTS).for_each(|text| batch.push(&text));
        Box::pin(std::future::ready(Ok((!batch.is_empty()).then_some(batch))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn known_texts_come_in_batches() {
        let texts: BTreeSet<String> = (0..3_000).map(|n| format!("{n:05}")).collect();
        let mut scan = KnownTexts::new(texts.clone(), None);
        let mut found = Vec::new();
        while let Some(batch) = scan.next().await.unwrap() {
            assert!((1..=BATCH_TEXTS).contains(&batch.len()));
            found.extend(batch.iter().map(str::to_owned));
        }
        assert!(found.iter().eq(&texts));
    }
}
