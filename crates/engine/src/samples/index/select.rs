//! Selects the series of a block that match all matchers.
//!
//! The cheapest read goes first. Values are looked up where that takes a few pages of texts, and the
//! shortest lists of values are read. After that each matcher is evaluated by lists or by the columns of
//! the remaining series, whichever cost less; or by labels, once the remaining series are on a few pages.

use std::collections::BTreeMap;

use roaring::RoaringBitmap;
use sandur_format::sample_block::index::{Index, Label, PageRef, Part};
use sandur_model::Matcher;

use super::columns::{LOOK_BYTES, Verdicts, columns_cost};
use super::dictionary::{Lookup, Passing};
use super::{IndexError, IndexReader, WantedLabels, cost_of, plain_of, stored_of};

/// Series on at most this many pages are tested one by one.
const FEW_PAGES: usize = 2;
/// The most series up to which the runs of a list are matched one by one.
const FOLLOWED_MAX: u64 = 1 << 20;
/// A set is made of a list whose runs have this many series or more on average.
const LONG_RUNS: u64 = 8;
/// Number of ordinals that are collected before they are added to a set together.
const GATHERED: usize = 1 << 14;
/// Number of pages of lists that are read together.
const LISTS_AT_ONCE: usize = 64;

/// The matchers on a label that were not applied yet.
struct Open {
    matchers: Vec<Matcher>,
    label: usize,
    lookup: Lookup,
    /// The matching values and the cost of their lists, once known.
    passing: Option<(Passing, u64)>,
}

/// How lists answer the matchers on a label.
struct Lists {
    /// The numbers of the values whose lists are read.
    numbers: RoaringBitmap,
    /// Whether the series of these lists are removed instead of kept.
    taken_away: bool,
    /// Whether the list of all series with the label is read too: to keep the series without it, or only
    /// those with it.
    with_all: bool,
}

impl Lists {
    fn of(passing: &Passing, label: &Label, index: &Index) -> Self {
        let some_lack_it = label.series() < index.series();
        let taken_away = passing.fewer_fail(label);
        let numbers = if taken_away { passing.failing(label) } else { passing.numbers.clone() };
        Self { numbers, taken_away, with_all: some_lack_it && passing.without != taken_away }
    }

    /// Whether all series match, or none, if no list is needed to know it.
    fn all_or_none(&self) -> Option<bool> {
        (self.numbers.is_empty() && !self.with_all).then_some(self.taken_away)
    }

    /// The number of the only value whose series are kept.
    fn only(&self) -> Option<u32> {
        self.numbers.min().filter(|_| self.numbers.len() == 1 && !self.taken_away && !self.with_all)
    }

    fn pages(&self, label: &Label) -> Vec<usize> {
        pages_of(label, &self.numbers, self.with_all)
    }

    fn cost(&self, label: &Label) -> u64 {
        self.pages(label).iter().map(|page| cost_of(&label.list_pages()[*page].part)).sum()
    }
}

fn pages_of(label: &Label, numbers: &RoaringBitmap, with_all: bool) -> Vec<usize> {
    let holds = |page: &PageRef| {
        (with_all && page.first == 0)
            || numbers.range_cardinality(page.first.max(1)..page.first.saturating_add(page.count)) > 0
    };
    let pages = label.list_pages().iter().enumerate();
    pages.filter(|(_, page)| holds(page)).map(|(at, _)| at).collect()
}

/// Adds ordinals, which must exceed those in the set. Adding several at once is faster than one by one.
fn gather(found: &mut RoaringBitmap, some: &mut Vec<u32>) {
    let above = found.append(some.drain(..));
    debug_assert!(above.is_ok(), "runs ascend");
}

impl IndexReader {
    /// Returns the ordinals of the series whose labels match all matchers.
    pub(crate) async fn select(&self, matchers: &[Matcher]) -> Result<RoaringBitmap, IndexError> {
        let index = self.index();
        // For sets of series that are not runs.
        let _memory = self.reserve(u64::from(index.series()) / 2 + (16 << 10))?;
        let mut selected = RoaringBitmap::new();
        selected.insert_range(0..index.series());
        let mut of_labels: BTreeMap<usize, Vec<Matcher>> = BTreeMap::new();
        for matcher in matchers {
            match index.labels().binary_search_by(|label| (**label.name()).cmp(matcher.name())) {
                Ok(label) => of_labels.entry(label).or_default().push(matcher.clone()),
                Err(_) if matcher.matches_empty() => {}
                Err(_) => return Ok(RoaringBitmap::new()),
            }
        }
        if index.pages().len() <= FEW_PAGES {
            let pages = self.pages_of(&selected);
            return self.looked_at(selected, &pages, matchers.to_vec()).await;
        }
        let mut open = Vec::with_capacity(of_labels.len());
        for (label, matchers) in of_labels {
            let lookup = Lookup::of(&index.labels()[label], &matchers);
            let mut one = Open { matchers, label, lookup, passing: None };
            if one.lookup.is_quick() {
                match self.look_up(&mut one).await? {
                    Some(true) => continue,
                    Some(false) => return Ok(RoaringBitmap::new()),
                    None => {}
                }
            }
            open.push(one);
        }
        while !open.is_empty() && !selected.is_empty() {
            self.check()?;
            let pages = self.pages_of(&selected);
            if pages.len() <= FEW_PAGES {
                let rest = open.into_iter().flat_map(|one| one.matchers).collect();
                return self.looked_at(selected, &pages, rest).await;
            }
            let cheapest = (0..open.len()).min_by_key(|at| self.cost(&open[*at], &pages));
            let one = open.swap_remove(cheapest.unwrap_or(0));
            selected = self.applied(selected, one, &pages).await?;
        }
        Ok(selected)
    }

    /// Finds the values that match. Returns whether all series match, or none, if that is then known.
    async fn look_up(&self, one: &mut Open) -> Result<Option<bool>, IndexError> {
        let label = &self.index().labels()[one.label];
        let passing = self.passing(one.label, &one.matchers, &one.lookup).await?;
        let lists = Lists::of(&passing, label, self.index());
        one.passing = Some((passing, lists.cost(label)));
        Ok(lists.all_or_none())
    }

    /// The cost of evaluating the matchers on a label for series on some pages.
    fn cost(&self, one: &Open, pages: &[u32]) -> u64 {
        let label = &self.index().labels()[one.label];
        let columns = columns_cost(label, pages);
        match &one.passing {
            Some((_, lists)) => columns.min(*lists),
            None => columns + one.lookup.cost(label),
        }
    }

    async fn applied(
        &self,
        selected: RoaringBitmap,
        mut one: Open,
        pages: &[u32],
    ) -> Result<RoaringBitmap, IndexError> {
        let label = &self.index().labels()[one.label];
        let columns = columns_cost(label, pages);
        // For few series only their values are tested; otherwise all values are, page by page and each once.
        if one.passing.is_none() && selected.len() >= u64::from(label.values()) {
            self.look_up(&mut one).await?;
        }
        match one.passing {
            None => self.checked(selected, Verdicts::unknown(one.label, one.matchers)).await,
            Some((passing, lists)) if columns < lists => {
                self.checked(selected, Verdicts::known(passing)).await
            }
            Some((passing, _)) => self.narrowed(selected, passing).await,
        }
    }

    /// Returns those of the series that match, by lists.
    async fn narrowed(
        &self,
        mut selected: RoaringBitmap,
        passing: Passing,
    ) -> Result<RoaringBitmap, IndexError> {
        let label = &self.index().labels()[passing.label];
        let lists = Lists::of(&passing, label, self.index());
        if let Some(only) = lists.only() {
            return self.narrowed_by_one(selected, passing.label, only).await;
        }
        let _memory = self.reserve(u64::from(label.values()) / 8 + 1024)?;
        let (mut some, mut all) = (RoaringBitmap::new(), RoaringBitmap::new());
        for pages in lists.pages(label).chunks(LISTS_AT_ONCE) {
            self.check()?;
            (some, all) = self.add_lists(passing.label, pages, &lists, (some, all)).await?;
        }
        match (lists.taken_away, lists.with_all) {
            (true, false) => selected -= some,
            (true, true) => {
                selected &= all;
                selected -= some;
            }
            (false, false) => selected &= some,
            // The series without the label, and some of those with it.
            (false, true) => selected -= all - some,
        }
        Ok(selected)
    }

    /// Returns those of the series that have one value of a label. For few series, matches the runs of
    /// the list directly, because making a set of many short runs would dominate the cost.
    async fn narrowed_by_one(
        &self,
        selected: RoaringBitmap,
        label: usize,
        number: u32,
    ) -> Result<RoaringBitmap, IndexError> {
        let of = &self.index().labels()[label];
        let Some((page, at)) = of.list_page_of(number) else { return Ok(RoaringBitmap::new()) };
        let part = of.list_pages()[page].part;
        let table = u64::from(of.list_pages()[page].count) * 16;
        let sets = u64::from(self.index().series()) / 4;
        let _memory = self.reserve(part.memory_bytes() + table + sets + GATHERED as u64 * 4)?;
        let stored = self.stored(&[part]).await?;
        let work = move |index: &Index| {
            let page = &index.labels()[label].list_pages()[page];
            let lists = index.lists(page, &part.open(&stored[0])?)?;
            let _ = sandur_memory::job::spend(lists.counts()[at] as usize);
            let count = u64::from(lists.counts()[at]);
            let has_long_runs = count >= LONG_RUNS * lists.runs_max(at);
            if has_long_runs || selected.len() > FOLLOWED_MAX.min(count * 2) {
                let mut some = RoaringBitmap::new();
                lists.add(at, index.series(), &mut some)?;
                return Ok(selected & some);
            }
            let mut rest = selected.iter().peekable();
            let (mut found, mut some) = (RoaringBitmap::new(), Vec::new());
            lists.runs(at, index.series(), |run| {
                while rest.next_if(|ordinal| *ordinal < run.start).is_some() {}
                while let Some(ordinal) = rest.next_if(|ordinal| *ordinal < run.end) {
                    if some.len() == GATHERED {
                        gather(&mut found, &mut some);
                    }
                    some.push(ordinal);
                }
            })?;
            gather(&mut found, &mut some);
            Ok(found)
        };
        self.decode(u64::from(part.plain), work).await
    }

    /// Adds the series of the lists of some pages: of values, and of all series with the label.
    async fn add_lists(
        &self,
        label: usize,
        pages: &[usize],
        lists: &Lists,
        (mut some, mut all): (RoaringBitmap, RoaringBitmap),
    ) -> Result<(RoaringBitmap, RoaringBitmap), IndexError> {
        let of = &self.index().labels()[label];
        let parts: Vec<Part> = pages.iter().map(|page| of.list_pages()[*page].part).collect();
        // Pages are decoded one after the other.
        let table = |page: &usize| u64::from(of.list_pages()[*page].count) * 16;
        let largest = pages.iter().zip(&parts).map(|(page, part)| part.memory_bytes() + table(page)).max();
        let _memory = self.reserve(stored_of(&parts) + largest.unwrap_or(0))?;
        let stored = self.stored(&parts).await?;
        let (pages, numbers, with_all) = (pages.to_vec(), lists.numbers.clone(), lists.with_all);
        let plain = plain_of(&parts);
        let work = move |index: &Index| {
            let label = &index.labels()[label];
            for ((page, part), stored) in pages.iter().zip(&parts).zip(&stored) {
                let of = &label.list_pages()[*page];
                let lists = index.lists(of, &part.open(stored)?)?;
                if with_all && of.first == 0 {
                    lists.add(0, index.series(), &mut all)?;
                }
                for number in numbers.range(of.first.max(1)..of.first.saturating_add(of.count)) {
                    let at = (number - of.first) as usize;
                    let _ = sandur_memory::job::spend(lists.counts()[at] as usize);
                    lists.add(at, index.series(), &mut some)?;
                }
            }
            Ok((some, all))
        };
        self.decode(plain, work).await
    }

    /// Tests each of the series on a few pages.
    async fn looked_at(
        &self,
        selected: RoaringBitmap,
        pages: &[u32],
        matchers: Vec<Matcher>,
    ) -> Result<RoaringBitmap, IndexError> {
        let mut passing = RoaringBitmap::new();
        for number in pages {
            let held = self.page(*number, &WantedLabels::All, true).await?;
            let mut of = self.of_pages(&selected, &[*number]);
            let matchers = matchers.clone();
            let of_values = |matcher: &Matcher| {
                held.page
                    .text_bytes(matcher.name(), of.len())
                    .saturating_mul(matcher.steps_per_byte().max(1) as u64)
            };
            let cost = matchers.iter().map(of_values).sum::<u64>() + of.len() * LOOK_BYTES;
            let work = move |_: &Index| {
                for matcher in &matchers {
                    held.page.retain(&mut of, matcher.name(), |value| {
                        // The result of a stopped job is not used.
                        let _ = sandur_memory::job::spend(value.len() + 16);
                        matcher.matches(value)
                    });
                }
                Ok(of)
            };
            passing |= self.decode(cost, work).await?;
        }
        Ok(passing)
    }
}
