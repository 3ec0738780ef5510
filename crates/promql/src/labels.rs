//! Label sets of a query as small numbers.
//!
//! Each distinct text and label set is stored once and has a number. Equality is that of numbers, and
//! loops over samples never read a string. Memory grows with the number of distinct entries, and is
//! reserved.

use std::cmp::Ordering;
use std::hash::BuildHasher;
use std::ops::Range;

use foldhash::HashMap;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use sandur_memory::Stopped;
use sandur_memory::job::JobMemory;
use sandur_model::Labels;
use xxhash_rust::xxh64::xxh64;

use crate::text::{is_plain_label, quote};
use sandur_query::{Dictionary, LabelIds};

/// The number of a text in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text(u32);

/// A set of texts, or the complement of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextSet {
    texts: Vec<Text>,
    is_except: bool,
}

impl TextSet {
    /// Sets of up to 16 texts are searched linearly.
    const FEW: usize = 16;

    /// Whether the text is in the set.
    #[inline]
    pub fn contains(&self, text: Text) -> bool {
        let is_listed = match self.texts.len() <= Self::FEW {
            true => self.texts.contains(&text),
            false => self.texts.binary_search(&text).is_ok(),
        };
        is_listed != self.is_except
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty() && !self.is_except
    }

    /// The complement.
    pub fn except(self) -> Self {
        Self { is_except: !self.is_except, ..self }
    }
}

impl FromIterator<Text> for TextSet {
    fn from_iter<I: IntoIterator<Item = Text>>(texts: I) -> Self {
        let mut all: Vec<Text> = texts.into_iter().collect();
        all.sort_unstable();
        all.dedup();
        Self { texts: all, is_except: false }
    }
}

/// The number of a label set in a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelsId(pub u32);

/// The label that holds the metric's name.
pub const METRIC_NAME: &str = "__name__";
/// The label that holds the metric's type.
pub const METRIC_TYPE: &str = "__type__";
/// The label that holds the metric's unit.
const METRIC_UNIT: &str = "__unit__";

/// Texts that every pool holds, at fixed numbers.
const FIXED: [&str; 5] = ["", METRIC_NAME, METRIC_TYPE, METRIC_UNIT, "le"];

impl Text {
    /// The empty text.
    pub const EMPTY: Self = Self(0);
    /// `__name__`
    pub const NAME: Self = Self(1);
    /// `__type__`
    pub const TYPE: Self = Self(2);
    /// `__unit__`
    pub const UNIT: Self = Self(3);
    /// `le`
    pub const LE: Self = Self(4);
}

impl LabelsId {
    /// The set without labels.
    pub const EMPTY: Self = Self(0);
}

/// The pool's numbers of texts in the dictionary of the current batch.
#[derive(Default)]
pub struct KnownTexts {
    texts: HashMap<u32, Text>,
    set: Vec<(Text, Text)>,
    held: JobMemory,
}

impl KnownTexts {
    /// Forgets all texts: the next batch has its own dictionary.
    pub fn forget(&mut self) {
        self.texts.clear();
    }
}

/// Maps the texts and label sets of one pool to their numbers in another.
pub struct Adopted {
    texts: Vec<Option<Text>>,
    sets: Vec<Option<LabelsId>>,
    _held: JobMemory,
}

impl Adopted {
    /// An empty map for the entries of a pool.
    pub fn of(pool: &LabelPool) -> Result<Self, Stopped> {
        let (texts, sets, mut held) = (pool.text_ends.len(), pool.set_ends.len(), JobMemory::default());
        held.at_least((texts + sets) as u64 * 8)?;
        Ok(Self { texts: vec![None; texts], sets: vec![None; sets], _held: held })
    }
}

/// The bytes of an entry without its text or labels: its end, its place in the table, room for growth.
const ENTRY_BYTES: usize = 40;

/// A map from label sets to numbers.
#[derive(Default)]
pub struct ByLabels(Vec<u32>);

impl ByLabels {
    const NONE: u32 = u32::MAX;

    /// The number of a label set.
    #[inline]
    pub fn get(&self, labels: LabelsId) -> Option<usize> {
        let number = self.0.get(labels.0 as usize).filter(|number| **number != Self::NONE);
        number.map(|number| *number as usize)
    }

    /// The bytes by which the map grows when a label set gets a number. A growing list allocates room for
    /// twice as many.
    pub fn growth(&self, labels: LabelsId) -> u64 {
        (labels.0 as u64 + 1).saturating_sub(self.0.len() as u64) * 8
    }

    /// Assigns a number to a label set; the caller has reserved the growth.
    pub fn put(&mut self, labels: LabelsId, number: usize) {
        let place = labels.0 as usize;
        if place >= self.0.len() {
            self.0.resize(place + 1, Self::NONE);
        }
        self.0[place] = number as u32;
    }
}

/// The texts and label sets of a query, each list stored back to back.
pub struct LabelPool {
    texts: String,
    text_ends: Vec<usize>,
    text_ids: HashTable<u32>,
    pairs: Vec<(Text, Text)>,
    set_ends: Vec<usize>,
    set_ids: HashTable<u32>,
    hasher: RandomState,
    /// A buffer for the label set that is being built.
    made: Vec<(Text, Text)>,
    bytes: u64,
    held: JobMemory,
    refused: bool,
}

impl Default for LabelPool {
    fn default() -> Self {
        let mut pool = Self {
            texts: String::new(),
            text_ends: Vec::new(),
            text_ids: HashTable::new(),
            pairs: Vec::new(),
            set_ends: Vec::new(),
            set_ids: HashTable::new(),
            hasher: RandomState::default(),
            made: Vec::new(),
            bytes: 0,
            held: JobMemory::default(),
            refused: false,
        };
        FIXED.iter().for_each(|text| _ = pool.text_id(text));
        pool.set_id(&[]);
        pool
    }
}

/// The range of an entry in a list that is stored back to back, with these ends.
fn range_of(ends: &[usize], id: u32) -> Range<usize> {
    let id = id as usize;
    id.checked_sub(1).map_or(0, |before| ends[before])..ends[id]
}

impl LabelPool {
    /// Fails if memory for the pool's content was refused.
    pub fn check(&self) -> Result<(), Stopped> {
        if self.refused { Err(Stopped) } else { Ok(()) }
    }

    /// The bytes of the names and values of a label set.
    pub fn text_bytes(&self, id: LabelsId) -> usize {
        self.set(id).iter().map(|(name, value)| self.text(*name).len() + self.text(*value).len()).sum()
    }

    fn grow(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.refused |= self.held.at_least(self.bytes).is_err();
    }

    /// The number of a text, which is added if it is new.
    pub fn text_id(&mut self, text: &str) -> Text {
        let (texts, ends, hasher) = (&self.texts, &self.text_ends, &self.hasher);
        let of = |id: u32| &texts[range_of(ends, id)];
        let hash = hasher.hash_one(text);
        if let Some(id) = self.text_ids.find(hash, |id| of(*id) == text) {
            return Text(*id);
        }
        let id = self.text_ends.len() as u32;
        self.text_ids.insert_unique(hash, id, |id| hasher.hash_one(of(*id)));
        self.texts.push_str(text);
        self.text_ends.push(self.texts.len());
        self.grow(text.len() * 2 + ENTRY_BYTES);
        Text(id)
    }

    /// The text of a number.
    pub fn text(&self, id: Text) -> &str {
        &self.texts[range_of(&self.text_ends, id.0)]
    }

    /// The number of a label set, which is added if it is new. The labels are sorted by the texts of
    /// their names.
    pub fn set_id(&mut self, labels: &[(Text, Text)]) -> LabelsId {
        let (pairs, ends, hasher) = (&self.pairs, &self.set_ends, &self.hasher);
        let of = |id: u32| &pairs[range_of(ends, id)];
        let hash = hasher.hash_one(labels);
        if let Some(id) = self.set_ids.find(hash, |id| of(*id) == labels) {
            return LabelsId(*id);
        }
        let id = self.set_ends.len() as u32;
        self.set_ids.insert_unique(hash, id, |id| hasher.hash_one(of(*id)));
        self.pairs.extend_from_slice(labels);
        self.set_ends.push(self.pairs.len());
        self.grow(size_of_val(labels) * 2 + ENTRY_BYTES);
        LabelsId(id)
    }

    /// The number of these labels, which are added if they are new.
    pub fn labels_id(&mut self, labels: &Labels) -> LabelsId {
        let mut made = self.room();
        made.extend(labels.iter().map(|(name, value)| (self.text_id(name), self.text_id(value))));
        self.made_id(made)
    }

    /// The number of the label set that was built; its buffer is kept for the next one.
    fn made_id(&mut self, made: Vec<(Text, Text)>) -> LabelsId {
        let id = self.set_id(&made);
        self.made = made;
        id
    }

    /// The buffer for a new label set.
    fn room(&mut self) -> Vec<(Text, Text)> {
        let mut room = std::mem::take(&mut self.made);
        room.clear();
        room
    }

    /// The labels of a set.
    pub fn set(&self, id: LabelsId) -> &[(Text, Text)] {
        &self.pairs[range_of(&self.set_ends, id.0)]
    }

    /// The value of a label; [`Text::EMPTY`] if the set does not have it.
    pub fn get(&self, id: LabelsId, name: Text) -> Text {
        self.set(id).iter().find(|(n, _)| *n == name).map_or(Text::EMPTY, |(_, value)| *value)
    }

    /// The set reduced to the labels for which `keep` returns true.
    pub fn filtered(&mut self, id: LabelsId, keep: impl Fn(Text) -> bool) -> LabelsId {
        if self.set(id).iter().all(|(name, _)| keep(*name)) {
            return id;
        }
        let mut kept = self.room();
        kept.extend(self.set(id).iter().filter(|(name, _)| keep(*name)));
        self.made_id(kept)
    }

    /// The set with a label set to a value, or removed if the value is empty.
    pub fn with(&mut self, id: LabelsId, name: Text, value: Text) -> LabelsId {
        let mut labels = self.room();
        labels.extend(self.set(id).iter().filter(|(n, _)| *n != name));
        if value != Text::EMPTY {
            let at = labels.partition_point(|(n, _)| self.text(*n) < self.text(name));
            labels.insert(at, (name, value));
        }
        self.made_id(labels)
    }

    /// The set without the name, type and unit of the metric.
    pub fn nameless(&mut self, id: LabelsId) -> LabelsId {
        self.filtered(id, |name| !is_reserved(name))
    }

    /// The number of the label set of a series of a batch. `known` caches the texts of the batch's
    /// dictionary.
    pub fn of_batch(
        &mut self,
        dictionary: &dyn Dictionary,
        labels: &LabelIds,
        wanted: Option<&TextSet>,
        known: &mut KnownTexts,
    ) -> LabelsId {
        let mut set = std::mem::take(&mut known.set);
        set.clear();
        for (name, value) in labels {
            let name = self.text_of(dictionary, *name, known);
            if wanted.is_none_or(|wanted| wanted.contains(name)) {
                set.push((name, self.text_of(dictionary, *value, known)));
            }
        }
        let id = self.set_id(&set);
        known.set = set;
        id
    }

    fn text_of(&mut self, dictionary: &dyn Dictionary, id: u32, known: &mut KnownTexts) -> Text {
        if let Some(text) = known.texts.get(&id) {
            return *text;
        }
        let text = self.text_id(dictionary.text(id));
        known.texts.insert(id, text);
        self.refused |= known.held.at_least(known.texts.capacity() as u64 * 16).is_err();
        text
    }

    /// The number of a text of another pool.
    pub fn adopt_text(&mut self, other: &LabelPool, text: Text, adopted: &mut Adopted) -> Text {
        *adopted.texts[text.0 as usize].get_or_insert_with(|| self.text_id(other.text(text)))
    }

    /// The number of a label set of another pool.
    pub fn adopt(&mut self, other: &LabelPool, labels: LabelsId, adopted: &mut Adopted) -> LabelsId {
        if let Some(known) = adopted.sets[labels.0 as usize] {
            return known;
        }
        let mut set = self.room();
        for (name, value) in other.set(labels) {
            let name = self.adopt_text(other, *name, adopted);
            set.push((name, self.adopt_text(other, *value, adopted)));
        }
        let id = self.made_id(set);
        adopted.sets[labels.0 as usize] = Some(id);
        id
    }

    /// Compares label sets in the order of answers.
    pub fn compare(&self, a: LabelsId, b: LabelsId) -> Ordering {
        let (a, b) = (self.set(a), self.set(b));
        let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        let rest = |set: &[(Text, Text)]| set.get(same).map(|(n, v)| (self.text(*n), self.text(*v)));
        // Only the first labels that differ are compared as texts.
        rest(a).cmp(&rest(b))
    }

    /// Compares label sets in the order in which sources deliver series: by the metric's name, then by all
    /// labels.
    pub fn compare_series(&self, a: LabelsId, b: LabelsId) -> Ordering {
        let name = |id| self.text(self.get(id, Text::NAME));
        name(a).cmp(name(b)).then_with(|| self.compare(a, b))
    }

    /// The first label's name, and the first 8 bytes of its value as a number. Label sets with the same
    /// first name are in the order of these numbers, where they differ.
    pub fn sort_key(&self, id: LabelsId) -> (Text, u64) {
        let Some((name, value)) = self.set(id).first() else { return (Text::EMPTY, 0) };
        let mut begin = [0; 8];
        begin.iter_mut().zip(self.text(*value).bytes()).for_each(|(slot, byte)| *slot = byte);
        (*name, u64::from_be_bytes(begin))
    }

    /// The hash by which `limit_ratio` samples series: Prometheus's hash of the packed labels.
    pub fn hash(&self, id: LabelsId) -> u64 {
        let mut packed = Vec::with_capacity(256);
        for text in self.set(id).iter().flat_map(|(name, value)| [name, value]) {
            let text = self.text(*text).as_bytes();
            match u8::try_from(text.len()) {
                Ok(short) if short < 255 => packed.push(short),
                _ => {
                    packed.extend([255, text.len() as u8, (text.len() >> 8) as u8, (text.len() >> 16) as u8])
                }
            }
            packed.extend_from_slice(text);
        }
        xxh64(&packed, 0)
    }

    /// The labels as text, `{a="b", c="d"}`.
    pub fn show(&self, id: LabelsId) -> String {
        let pair = |(name, value): &(Text, Text)| {
            let (name, value) = (self.text(*name), quote(self.text(*value)));
            if is_plain_label(name) { format!("{name}={value}") } else { format!("{}={value}", quote(name)) }
        };
        let pairs: Vec<String> = self.set(id).iter().map(pair).collect();
        format!("{{{}}}", pairs.join(", "))
    }

    /// The labels in the form of answers.
    pub fn labels(&self, id: LabelsId) -> Labels {
        Labels::from_pairs(self.set(id).iter().map(|(name, value)| (self.text(*name), self.text(*value))))
    }
}

/// Whether a label describes the metric itself.
pub fn is_reserved(name: Text) -> bool {
    matches!(name, Text::NAME | Text::TYPE | Text::UNIT)
}

/// Whether a label with this name describes the metric itself.
pub fn is_reserved_name(name: &str) -> bool {
    matches!(name, METRIC_NAME | METRIC_TYPE | METRIC_UNIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sets_share_a_number_and_stay_sorted() {
        let mut pool = LabelPool::default();
        let [a, b, one] = ["a", "b", "1"].map(|text| pool.text_id(text));
        let first = pool.with(LabelsId::EMPTY, b, one);
        let both = pool.with(first, a, one);
        assert_eq!(pool.show(both), r#"{a="1", b="1"}"#);
        assert_eq!(pool.with(both, a, Text::EMPTY), first);
        assert_eq!(pool.compare(first, both), Ordering::Greater);
        assert_eq!((pool.get(both, b), pool.get(first, a)), (one, Text::EMPTY));
        let named = pool.with(both, Text::NAME, one);
        assert_eq!(pool.nameless(named), both);
        assert_eq!(pool.hash(LabelsId::EMPTY), xxh64(&[], 0));
        let values = ["", "a", "a\0", "ab", "abcdefgh", "abcdefghi", "b", "\u{e9}"];
        let sets = values.map(|value| {
            let value = pool.text_id(value);
            pool.set_id(&[(a, value)])
        });
        assert!(sets.is_sorted_by(|a, b| pool.compare(*a, *b).is_lt()));
        assert!(sets.is_sorted_by_key(|set| pool.sort_key(*set)), "keys never contradict the order");
    }
}
