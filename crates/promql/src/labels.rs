//! Label sets of a query as small numbers.
//!
//! Each text and each label set is kept once, so that equality is that of numbers and no string is looked at
//! in a loop over samples. Memory grows with what is different, and is reserved.

use std::cmp::Ordering;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use sandur_base::Stopped;
use sandur_base::job::Held;
use sandur_model::Labels;
use xxhash_rust::xxh64::xxh64;

use crate::text::{is_plain_label, quote};
use sandur_query::{Dictionary, LabelIds};

/// A text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text(u32);

/// Some texts, or all but some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextSet {
    texts: Vec<Text>,
    is_except: bool,
}

impl TextSet {
    /// Up to so many are looked through.
    const FEW: usize = 16;

    /// Whether the text is among them.
    #[inline]
    pub fn contains(&self, text: Text) -> bool {
        let is_listed = match self.texts.len() <= Self::FEW {
            true => self.texts.contains(&text),
            false => self.texts.binary_search(&text).is_ok(),
        };
        is_listed != self.is_except
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty() && !self.is_except
    }

    /// All but these.
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

/// A label set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelsId(pub u32);

/// Texts that every pool has, at fixed places.
const FIXED: [&str; 5] = ["", "__name__", "__type__", "__unit__", "le"];

impl Text {
    /// No text.
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

type Set = Arc<[(Text, Text)]>;

/// Texts of the dictionary of a batch whose numbers are known.
#[derive(Default)]
pub struct KnownTexts {
    texts: HashMap<u32, Text>,
    set: Vec<(Text, Text)>,
    held: Held,
}

impl KnownTexts {
    /// Another batch begins, with a dictionary of its own.
    pub fn forget(&mut self) {
        self.texts.clear();
    }
}

/// Bytes that an entry takes beside its text or labels: map, list, counts.
const ENTRY_BYTES: usize = 72;

/// Texts and label sets of a query.
pub struct LabelPool {
    texts: Vec<Arc<str>>,
    text_ids: HashMap<Arc<str>, Text>,
    sets: Vec<Set>,
    set_ids: HashMap<Set, LabelsId>,
    bytes: u64,
    held: Held,
    refused: bool,
}

impl Default for LabelPool {
    fn default() -> Self {
        let mut pool = Self {
            texts: Vec::new(),
            text_ids: HashMap::new(),
            sets: Vec::new(),
            set_ids: HashMap::new(),
            bytes: 0,
            held: Held::default(),
            refused: false,
        };
        FIXED.iter().for_each(|text| _ = pool.text_id(text));
        pool.set_id(&[]);
        pool
    }
}

impl LabelPool {
    /// Fails when there was no memory for what the pool holds.
    pub fn check(&self) -> Result<(), Stopped> {
        if self.refused { Err(Stopped) } else { Ok(()) }
    }

    /// Bytes of the texts of a label set.
    pub fn text_bytes(&self, id: LabelsId) -> usize {
        self.set(id).iter().map(|(name, value)| self.text(*name).len() + self.text(*value).len()).sum()
    }

    fn grow(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.refused |= self.held.at_least(self.bytes).is_err();
    }

    /// The number of a text.
    pub fn text_id(&mut self, text: &str) -> Text {
        if let Some(id) = self.text_ids.get(text) {
            return *id;
        }
        self.grow(text.len() + ENTRY_BYTES);
        let (id, text): (_, Arc<str>) = (Text(self.texts.len() as u32), text.into());
        self.texts.push(Arc::clone(&text));
        self.text_ids.insert(text, id);
        id
    }

    /// The text of a number.
    pub fn text(&self, id: Text) -> &str {
        &self.texts[id.0 as usize]
    }

    /// The number of a label set, which is sorted by the text of the names.
    pub fn set_id(&mut self, labels: &[(Text, Text)]) -> LabelsId {
        if let Some(id) = self.set_ids.get(labels) {
            return *id;
        }
        self.grow(labels.len() * 8 + ENTRY_BYTES);
        let (id, set): (_, Set) = (LabelsId(self.sets.len() as u32), labels.into());
        self.sets.push(Arc::clone(&set));
        self.set_ids.insert(set, id);
        id
    }

    /// The labels of a set.
    pub fn set(&self, id: LabelsId) -> &[(Text, Text)] {
        &self.sets[id.0 as usize]
    }

    /// The value of a label; [`Text::EMPTY`] where there is none.
    pub fn get(&self, id: LabelsId, name: Text) -> Text {
        self.set(id).iter().find(|(n, _)| *n == name).map_or(Text::EMPTY, |(_, value)| *value)
    }

    /// The labels for which `keep` holds.
    pub fn filtered(&mut self, id: LabelsId, keep: impl Fn(Text) -> bool) -> LabelsId {
        let set = Arc::clone(&self.sets[id.0 as usize]);
        if set.iter().all(|(name, _)| keep(*name)) {
            return id;
        }
        let kept: Vec<_> = set.iter().filter(|(name, _)| keep(*name)).copied().collect();
        self.set_id(&kept)
    }

    /// The labels with one set to a value, or without it when the value is empty.
    pub fn with(&mut self, id: LabelsId, name: Text, value: Text) -> LabelsId {
        let mut labels: Vec<_> = self.set(id).iter().filter(|(n, _)| *n != name).copied().collect();
        if value != Text::EMPTY {
            let at = labels.partition_point(|(n, _)| self.text(*n) < self.text(name));
            labels.insert(at, (name, value));
        }
        self.set_id(&labels)
    }

    /// The labels without the name, type and unit of the metric.
    pub fn nameless(&mut self, id: LabelsId) -> LabelsId {
        self.filtered(id, |name| !is_reserved(name))
    }

    /// The number of a series of a batch, of whose texts those are known that came before.
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

    /// The order of label sets in answers.
    pub fn compare(&self, a: LabelsId, b: LabelsId) -> Ordering {
        let (a, b) = (self.set(a), self.set(b));
        let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        let rest = |set: &[(Text, Text)]| set.get(same).map(|(n, v)| (self.text(*n), self.text(*v)));
        // Texts are looked at of the first labels that differ.
        rest(a).cmp(&rest(b))
    }

    /// The hash by which `limit_ratio` takes samples: Prometheus's of its packed labels.
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

    /// The labels as they are answered.
    pub fn labels(&self, id: LabelsId) -> Labels {
        Labels::from_pairs(self.set(id).iter().map(|(name, value)| (self.text(*name), self.text(*value))))
    }
}

/// Whether a label describes the metric itself.
pub fn is_reserved(name: Text) -> bool {
    matches!(name, Text::NAME | Text::TYPE | Text::UNIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sets_have_one_number_and_stay_sorted() {
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
    }
}
