//! Which values of a label a matcher passes: by looking texts up, or by looking at all of them.

use roaring::RoaringBitmap;
use sandur_format::sample_block::index::{Index, Label, Part};
use sandur_model::{Matcher, MatcherForm};

use super::{IndexError, IndexReader, plain_of, stored_of};

/// Pages of texts that are read at once.
const PAGES_AT_ONCE: usize = 32;
/// Texts that are quicker looked at than expressions are answered elsewhere.
const FEW_PAGES: usize = 4;

/// Numbers of the values of a label that a matcher passes.
#[derive(Clone, Debug)]
pub(super) struct Passing {
    /// Position of the label in the index.
    pub(super) label: usize,
    pub(super) numbers: RoaringBitmap,
    /// Whether a series without the label passes.
    pub(super) without: bool,
}

impl Passing {
    /// Whether fewer values fail than pass.
    pub(super) fn fewer_fail(&self, label: &Label) -> bool {
        self.numbers.len() * 2 > u64::from(label.values())
    }

    /// The numbers of the values that fail.
    pub(super) fn failing(&self, label: &Label) -> RoaringBitmap {
        let mut failing = RoaringBitmap::new();
        failing.insert_range(1..=label.values());
        failing - &self.numbers
    }
}

/// What must be read to know what a matcher passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// These pages of texts in the order of texts, to find a few values.
    Some(Vec<usize>),
    /// All pages.
    All,
}

impl Lookup {
    /// What a matcher needs of a label.
    pub(super) fn of(label: &Label, matcher: &Matcher) -> Self {
        let pages = match matcher.form() {
            MatcherForm::Values(values) => {
                let mut pages: Vec<usize> =
                    values.iter().filter_map(|value| label.sorted_page_of(value)).collect();
                pages.sort_unstable();
                pages.dedup();
                pages
            }
            MatcherForm::Start(start) => label.sorted_pages_from(start).collect(),
            MatcherForm::Anything | MatcherForm::NotEmpty => Vec::new(),
            MatcherForm::Other => return Self::All,
        };
        Self::Some(pages)
    }

    /// How many pages are read.
    pub(super) fn pages(&self, label: &Label) -> usize {
        match self {
            Self::Some(pages) => pages.len(),
            Self::All => label.sorted_pages().len(),
        }
    }

    /// Whether it reads few pages.
    pub(super) fn is_quick(&self, label: &Label) -> bool {
        self.pages(label) <= FEW_PAGES
    }
}

impl IndexReader {
    /// The values of a label that a matcher passes.
    pub(super) async fn passing(
        &self,
        label: usize,
        matcher: &Matcher,
        lookup: &Lookup,
    ) -> Result<Passing, IndexError> {
        let of = &self.index().labels()[label];
        let without = matcher.matches_empty();
        let pages: Vec<usize> = match lookup {
            Lookup::Some(pages) => pages.clone(),
            Lookup::All => (0..of.sorted_pages().len()).collect(),
        };
        // Texts that are not looked at all fail the expression: they pass its opposite.
        let is_opposite = matcher.is_negated();
        let mut numbers = RoaringBitmap::new();
        let all_alike = matches!(matcher.form(), MatcherForm::Anything | MatcherForm::NotEmpty);
        if all_alike != is_opposite {
            numbers.insert_range(1..=of.values());
        }
        let _memory = self.reserve(u64::from(of.values()) / 4 + 1024)?;
        for some in pages.chunks(PAGES_AT_ONCE) {
            self.check()?;
            let (passing, failing) = self.try_texts(label, some, matcher).await?;
            numbers |= passing;
            numbers -= failing;
        }
        // A value is never empty, so what is missing is all that an empty text stands for.
        Ok(Passing { label, numbers, without })
    }

    /// Which of the texts of some pages a matcher passes, and which not.
    async fn try_texts(
        &self,
        label: usize,
        pages: &[usize],
        matcher: &Matcher,
    ) -> Result<(RoaringBitmap, RoaringBitmap), IndexError> {
        let of = &self.index().labels()[label];
        let parts: Vec<Part> = pages.iter().map(|page| of.sorted_pages()[*page].part).collect();
        // One page after the other is decoded.
        let largest = pages.iter().map(|page| of.sorted_pages()[*page].memory_bytes()).max();
        let numbers = pages.iter().map(|page| u64::from(of.sorted_pages()[*page].count) * 8).sum::<u64>();
        let _memory = self.reserve(stored_of(&parts) + largest.unwrap_or(0) + numbers)?;
        let stored = self.stored(&parts).await?;
        let (pages, matcher) = (pages.to_vec(), matcher.clone());
        let steps = matcher.steps_per_byte().max(1) as u64;
        let cost = plain_of(&parts).saturating_mul(steps);
        let work = move |index: &Index| {
            let label = &index.labels()[label];
            let (mut passing, mut failing) = (Vec::new(), Vec::new());
            for ((page, part), stored) in pages.iter().zip(&parts).zip(&stored) {
                let (texts, numbers) = index.sorted_texts(label, *page, &part.open(stored)?)?;
                for (text, number) in texts.iter().zip(numbers) {
                    // A job that is stopped gives an answer that nobody uses.
                    let _ = sandur_base::job::spend(text.len() + 16);
                    if matcher.matches(text) {
                        passing.push(number)
                    } else {
                        failing.push(number)
                    };
                }
            }
            passing.sort_unstable();
            failing.sort_unstable();
            let of = |numbers: Vec<u32>| RoaringBitmap::from_iter(numbers);
            Ok((of(passing), of(failing)))
        };
        self.decode(cost, work).await
    }
}
