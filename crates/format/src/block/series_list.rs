//! The series of a block that is about to be written, gathered one after the other.
//!
//! Label sets come as pairs and are kept as numbers, four bytes a label: a block may have more series than
//! there is memory for label sets of their own.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use roaring::RoaringBitmap;

use super::series::{LabelColumn, SeriesStats, SeriesTable};
use super::series_order::{BOUND_NAME, compare_series};
use crate::error::Error;

/// Series in the order of [`compare_series`]: a series' position is its ordinal.
#[derive(Debug, Default)]
pub struct SeriesList {
    by_name: HashMap<Arc<str>, usize, RandomState>,
    columns: Vec<Gathered>,
    len: u32,
    /// Column and id of each label of the last series.
    last: Vec<(usize, u32)>,
    /// Series that have the labels of the series before them but for the bound of their bucket.
    next_buckets: RoaringBitmap,
}

/// One label over all series so far.
#[derive(Debug)]
struct Gathered {
    name: Arc<str>,
    by_value: HashMap<Arc<str>, u32, RandomState>,
    values: Vec<Arc<str>>,
    /// Per series 0 when it lacks the label, else one more than the position of its value.
    ids: Vec<u32>,
}

impl Gathered {
    fn id_of(&mut self, value: &str) -> u32 {
        if let Some(id) = self.by_value.get(value) {
            return *id;
        }
        let value: Arc<str> = value.into();
        self.values.push(Arc::clone(&value));
        let id = self.values.len() as u32;
        self.by_value.insert(value, id);
        id
    }

    fn text(&self, id: u32) -> &str {
        &self.values[id as usize - 1]
    }
}

impl SeriesList {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a series and gives its ordinal. Its labels are sorted by name and come after those of the series
    /// before in the order of [`compare_series`].
    pub fn push<'a>(
        &mut self,
        labels: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    ) -> Result<u32, Error> {
        if self.len > 0 && self.compare_last(labels.clone()) != Ordering::Less {
            return Err(Error::Misuse("the series of a block must be sorted and distinct"));
        }
        let before = std::mem::take(&mut self.last);
        for (name, value) in labels {
            let at = self.column(name);
            let column = &mut self.columns[at];
            let id = column.id_of(value);
            column.ids.resize(self.len as usize, 0);
            column.ids.push(id);
            self.last.push((at, id));
        }
        if self.is_next_bucket(&before) {
            self.next_buckets.insert(self.len);
        }
        self.len += 1;
        Ok(self.len - 1)
    }

    /// Whether the last series differs from the one before by the bound of its bucket alone.
    fn is_next_bucket(&self, before: &[(usize, u32)]) -> bool {
        let Some(le) = self.by_name.get(BOUND_NAME) else { return false };
        let is_bound = |(column, _): &&(usize, u32)| column == le;
        let plain = |labels: &[(usize, u32)]| labels.iter().filter(|pair| !is_bound(pair)).count();
        before.len() == self.last.len()
            && plain(before) + 1 == before.len()
            && before.iter().zip(&self.last).all(|(a, b)| a == b || (a.0 == *le && b.0 == *le))
    }

    /// Whether a series has the labels of the series before it but for the bound of its bucket.
    pub(crate) fn continues_histogram(&self, ordinal: u32) -> bool {
        self.next_buckets.contains(ordinal)
    }

    fn compare_last<'a>(&self, labels: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Ordering {
        let last = self.last.iter().map(|&(at, id)| (&*self.columns[at].name, self.columns[at].text(id)));
        compare_series(last, labels)
    }

    fn column(&mut self, name: &str) -> usize {
        if let Some(at) = self.by_name.get(name) {
            return *at;
        }
        let name: Arc<str> = name.into();
        self.by_name.insert(Arc::clone(&name), self.columns.len());
        let (by_value, values, ids) = (HashMap::default(), Vec::new(), Vec::new());
        self.columns.push(Gathered { name, by_value, values, ids });
        self.columns.len() - 1
    }

    /// The table of these series, which hold what `stats` says.
    pub(crate) fn finish(self, stats: Vec<SeriesStats>) -> SeriesTable {
        let len = self.len as usize;
        let mut columns: Vec<LabelColumn> =
            self.columns.into_iter().map(|column| column.finish(len)).collect();
        columns.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        SeriesTable::of_columns(columns, stats)
    }
}

impl Gathered {
    fn finish(mut self, len: usize) -> LabelColumn {
        self.ids.resize(len, 0);
        let mut order: Vec<u32> = (1..=self.values.len() as u32).collect();
        order.sort_unstable_by(|a, b| self.text(*a).cmp(self.text(*b)));
        let mut sorted_id = vec![0; self.values.len() + 1];
        for (place, id) in order.iter().enumerate() {
            sorted_id[*id as usize] = place as u32 + 1;
        }
        let values = order.iter().map(|id| Box::from(self.text(*id))).collect();
        let ids = self.ids.iter().map(|id| sorted_id[*id as usize]).collect();
        LabelColumn { name: Box::from(&*self.name), values, ids }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandur_model::Labels;

    #[test]
    fn a_list_becomes_the_table_of_its_label_sets() {
        let sets = [
            Labels::from_pairs([("a", "1"), ("z", "9")]),
            Labels::from_pairs([("a", "1"), ("z", "9"), ("zz", "x")]),
            Labels::from_pairs([("a", "2"), ("b", "0")]),
            Labels::from_pairs([("a", "3")]),
        ];
        let mut list = SeriesList::default();
        for set in &sets {
            list.push(set.iter()).unwrap();
        }
        assert!(list.push(sets[2].iter()).is_err(), "not after the last one");
        assert!(list.push(sets[3].iter()).is_err(), "the same again");
        let shared: Vec<Arc<Labels>> = sets.iter().cloned().map(Arc::new).collect();
        let (list, table) =
            (list.finish(vec![SeriesStats::default(); 4]), SeriesTable::build(&shared, Vec::new()));
        for (n, set) in sets.iter().enumerate() {
            assert_eq!(&*list.labels(n as u32), set);
            assert!(list.pairs(n as u32).eq(set.iter()));
        }
        assert!(list.label_names().eq(table.label_names()));
        for name in table.label_names() {
            assert!(list.label_values(name).eq(table.label_values(name)));
        }
    }
}
