//! Finds the values of a label that match, by looking texts up or by testing all of them.

use std::sync::Arc;

use roaring::RoaringBitmap;
use sandur_format::sample_block::index::{Index, Label, Part, TextPage};
use sandur_model::{Matcher, MatcherForm};

use super::kept::SortedTexts;
use super::{IndexError, IndexReader, cost_of, plain_of, stored_of};

/// Number of pages of texts that are read together.
const PAGES_AT_ONCE: usize = 32;
/// Up to this many pages of texts are read at once, since that costs less than evaluating matchers in
/// another way.
const FEW_PAGES: usize = 4;

/// The numbers of a label's values that match.
#[derive(Clone, Debug)]
pub(super) struct Passing {
    /// The position of the label in the index.
    pub(super) label: usize,
    pub(super) numbers: RoaringBitmap,
    /// Whether a series without the label matches.
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

/// The pages of texts, in the order of texts, that must be read to evaluate matchers on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lookup {
    pages: Vec<usize>,
    /// Whether the texts of all other pages match.
    others_pass: bool,
}

impl Lookup {
    /// The pages for finding the values that match all of these matchers.
    pub(super) fn of(label: &Label, matchers: &[Matcher]) -> Self {
        let looked_for = matchers.iter().filter(|matcher| !matcher.is_negated());
        let found = looked_for.filter_map(|matcher| match matcher.form() {
            MatcherForm::Values(values) => Some(Self::of_pages(pages_of(label, values), false)),
            MatcherForm::Start(start) => Some(Self::of_start(label, start, matchers.len() == 1)),
            _ => None,
        });
        found.min_by_key(|lookup| lookup.pages.len()).unwrap_or_else(|| Self::of_others(label, matchers))
    }

    fn of_pages(mut pages: Vec<usize>, others_pass: bool) -> Self {
        pages.sort_unstable();
        pages.dedup();
        Self { pages, others_pass }
    }

    /// The pages for texts with a prefix. If there is no other matcher, pages whose texts all have it
    /// need not be read.
    fn of_start(label: &Label, start: &str, is_alone: bool) -> Self {
        let all = label.sorted_pages().len();
        let range = label.sorted_pages_from(start);
        let inner = label.sorted_pages_within(start);
        match is_alone && inner.len() * 2 > all {
            true => Self { pages: (0..inner.start).chain(inner.end..all).collect(), others_pass: true },
            false => Self { pages: range.collect(), others_pass: false },
        }
    }

    /// The pages for matchers of which none selects certain values.
    fn of_others(label: &Label, matchers: &[Matcher]) -> Self {
        let mut pages = Vec::new();
        for matcher in matchers {
            match (matcher.form(), matcher.is_negated()) {
                (MatcherForm::Values(values), _) => pages.extend(pages_of(label, values)),
                (MatcherForm::Start(start), _) => pages.extend(label.sorted_pages_from(start)),
                (MatcherForm::Anything | MatcherForm::NotEmpty, false) => {}
                (MatcherForm::Anything | MatcherForm::NotEmpty, true) => {
                    return Self { pages: Vec::new(), others_pass: false };
                }
                (MatcherForm::Other, _) => pages.extend(0..label.sorted_pages().len()),
            }
        }
        Self::of_pages(pages, true)
    }

    /// Whether it reads few pages.
    pub(super) fn is_quick(&self) -> bool {
        self.pages.len() <= FEW_PAGES
    }

    /// The cost of reading them.
    pub(super) fn cost(&self, label: &Label) -> u64 {
        self.pages.iter().map(|page| cost_of(&label.sorted_pages()[*page].part)).sum()
    }
}

/// The pages that may have some values.
fn pages_of(label: &Label, values: &[Box<str>]) -> Vec<usize> {
    values.iter().filter_map(|value| label.sorted_page_of(value)).collect()
}

impl IndexReader {
    /// Returns the values of a label that match all of these matchers.
    pub(super) async fn passing(
        &self,
        label: usize,
        matchers: &[Matcher],
        lookup: &Lookup,
    ) -> Result<Passing, IndexError> {
        let of = &self.index().labels()[label];
        let mut numbers = RoaringBitmap::new();
        if lookup.others_pass {
            numbers.insert_range(1..=of.values());
        }
        let _memory = self.reserve(u64::from(of.values()) / 4 + 1024)?;
        for some in lookup.pages.chunks(PAGES_AT_ONCE) {
            self.check()?;
            let (passing, failing) = self.try_texts(label, some, matchers).await?;
            numbers |= passing;
            numbers -= failing;
        }
        // A value is never empty, so the empty text stands for exactly the series without the label.
        Ok(Passing { label, numbers, without: matchers.iter().all(Matcher::matches_empty) })
    }

    /// Returns the numbers of the texts of some pages that match, and of those that do not.
    async fn try_texts(
        &self,
        label: usize,
        pages: &[usize],
        matchers: &[Matcher],
    ) -> Result<(RoaringBitmap, RoaringBitmap), IndexError> {
        let of = &self.index().labels()[label];
        let parts: Vec<Part> = pages.iter().map(|page| of.sorted_pages()[*page].part).collect();
        if self.keeps_texts(label) {
            let bytes = pages.iter().map(|page| of.sorted_pages()[*page].memory_bytes()).sum::<u64>();
            let _memory = self.reserve(bytes)?;
            let texts = self.kept_texts(label, pages).await?;
            return self.tried(&texts, matchers).await;
        }
        // Pages are decoded one after the other.
        let largest = pages.iter().map(|page| of.sorted_pages()[*page].memory_bytes()).max();
        let numbers = pages.iter().map(|page| u64::from(of.sorted_pages()[*page].count) * 8).sum::<u64>();
        let _memory = self.reserve(stored_of(&parts) + largest.unwrap_or(0) + numbers)?;
        let stored = self.stored(&parts).await?;
        let (pages, matchers) = (pages.to_vec(), matchers.to_vec());
        let steps = matchers.iter().map(Matcher::steps_per_byte).sum::<usize>().max(1) as u64;
        let cost = plain_of(&parts).saturating_mul(steps);
        let work = move |index: &Index| {
            let label = &index.labels()[label];
            let mut tried = Tried::default();
            for ((page, part), stored) in pages.iter().zip(&parts).zip(&stored) {
                let (texts, numbers) = index.sorted_texts(label, *page, &part.open(stored)?)?;
                tried.add(&texts, &numbers, &matchers);
            }
            Ok(tried.sets())
        };
        self.decode(cost, work).await
    }

    /// Does the same for decoded texts.
    async fn tried(
        &self,
        pages: &[Arc<SortedTexts>],
        matchers: &[Matcher],
    ) -> Result<(RoaringBitmap, RoaringBitmap), IndexError> {
        let steps = matchers.iter().map(Matcher::steps_per_byte).sum::<usize>().max(1) as u64;
        let bytes: u64 = pages.iter().map(|page| page.texts.text_bytes() as u64).sum();
        let (pages, matchers) = (pages.to_vec(), matchers.to_vec());
        let work = move |_: &Index| {
            let mut tried = Tried::default();
            pages.iter().for_each(|page| tried.add(&page.texts, &page.numbers, &matchers));
            Ok(tried.sets())
        };
        self.decode(bytes.saturating_mul(steps), work).await
    }
}

/// The numbers of texts that match, and of those that do not.
#[derive(Default)]
struct Tried {
    passing: Vec<u32>,
    failing: Vec<u32>,
}

impl Tried {
    fn add(&mut self, texts: &TextPage, numbers: &[u32], matchers: &[Matcher]) {
        for (text, number) in texts.iter().zip(numbers) {
            // The result of a stopped job is not used.
            let _ = sandur_memory::job::spend(text.len() + 16);
            let passes = matchers.iter().all(|matcher| matcher.matches(text));
            if passes { self.passing.push(*number) } else { self.failing.push(*number) }
        }
    }

    fn sets(self) -> (RoaringBitmap, RoaringBitmap) {
        let set = |mut numbers: Vec<u32>| {
            numbers.sort_unstable();
            numbers.dedup();
            // A set of ascending numbers is made in one step.
            RoaringBitmap::from_sorted_iter(numbers).unwrap_or_default()
        };
        (set(self.passing), set(self.failing))
    }
}
