//! The series of each label.
//!
//! Every label (name and value) has the list of its series: one, few or many. Numbers of series ascend,
//! so lists grow at the end.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use roaring::RoaringBitmap;

/// The most series of a label that are stored as a list; more are stored as a bitmap.
const FEW_MAX: usize = 64;
/// Bytes of a label's entry in addition to a list or a bitmap.
pub(super) const ENTRY_BYTES: u64 = 56;
/// Bytes of a name's entry.
pub(super) const NAME_BYTES: u64 = 96;
/// Bytes of a bitmap and of each of its containers.
const BITMAP_BYTES: u64 = 96;
/// The most numbers of a container that takes two bytes for each; a larger one is a bitmap.
const CONTAINER_FEW: u32 = 4096;

/// The series of a label.
pub(super) enum Postings {
    /// One series.
    One(u32),
    /// Up to [`FEW_MAX`] series.
    Few(Vec<u32>),
    /// Any number of series.
    Many(Box<Many>),
}

/// A bitmap, and the count of numbers in its last container.
pub(super) struct Many {
    series: RoaringBitmap,
    last: u32,
    in_last: u32,
}

/// The labels and their series.
#[derive(Default)]
pub(super) struct Index {
    names: HashMap<u32, HashMap<u32, Postings, RandomState>, RandomState>,
    bytes: u64,
}

impl Many {
    /// Adds a number that exceeds all others. Returns the bytes that it takes.
    fn push(&mut self, number: u32) -> u64 {
        // Appending an ascending number is the fast path.
        if self.series.try_push(number).is_err() {
            self.series.insert(number);
        }
        if number >> 16 != self.last >> 16 {
            (self.last, self.in_last) = (number, 1);
            return BITMAP_BYTES;
        }
        (self.last, self.in_last) = (number, self.in_last + 1);
        // Containers double in capacity; beyond half of the limit a container has its full size.
        if self.in_last <= CONTAINER_FEW / 2 { 4 } else { 0 }
    }
}

impl Postings {
    fn push(&mut self, number: u32) -> u64 {
        match self {
            Self::One(first) => {
                *self = Self::Few(vec![*first, number]);
                16
            }
            Self::Few(few) if few.len() < FEW_MAX => {
                let before = few.capacity();
                if few.len() == few.capacity() {
                    few.reserve_exact(few.len() / 2 + 1);
                }
                few.push(number);
                ((few.capacity() - before) * size_of::<u32>()) as u64
            }
            Self::Few(few) => {
                let mut many = Box::new(Many { series: RoaringBitmap::new(), last: 0, in_last: 0 });
                let given_back = (few.capacity() * size_of::<u32>()) as u64;
                let numbers = few.iter().copied().chain([number]);
                let bytes: u64 = numbers.map(|number| many.push(number)).sum();
                *self = Self::Many(many);
                (bytes + BITMAP_BYTES).saturating_sub(given_back)
            }
            Self::Many(many) => many.push(number),
        }
    }

    /// The number of series.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::One(_) => 1,
            Self::Few(few) => few.len() as u64,
            Self::Many(many) => many.series.len(),
        }
    }

    /// Adds the series to a set.
    pub(super) fn add_to(&self, set: &mut RoaringBitmap) {
        match self {
            Self::One(number) => drop(set.insert(*number)),
            Self::Few(few) => set.extend(few.iter().copied()),
            Self::Many(many) => *set |= &many.series,
        }
    }

    /// Adds the series that are in another set.
    pub(super) fn add_those_in(&self, others: &RoaringBitmap, set: &mut RoaringBitmap) {
        let few = match self {
            Self::One(number) => std::slice::from_ref(number),
            Self::Few(few) => few.as_slice(),
            Self::Many(many) => return *set |= &many.series & others,
        };
        set.extend(few.iter().copied().filter(|number| others.contains(*number)));
    }

    /// Removes all other series from a set.
    pub(super) fn keep_in(&self, set: &mut RoaringBitmap) {
        let few = match self {
            Self::One(number) => std::slice::from_ref(number),
            Self::Few(few) => few.as_slice(),
            Self::Many(many) => return *set &= &many.series,
        };
        *set = few.iter().copied().filter(|number| set.contains(*number)).collect();
    }

    /// Removes the series from a set.
    pub(super) fn take_from(&self, set: &mut RoaringBitmap) {
        match self {
            Self::One(number) => drop(set.remove(*number)),
            Self::Few(few) => few.iter().for_each(|number| _ = set.remove(*number)),
            Self::Many(many) => *set -= &many.series,
        }
    }

    /// Whether one of the series is in a set.
    pub(super) fn touches(&self, set: &RoaringBitmap) -> bool {
        match self {
            Self::One(number) => set.contains(*number),
            Self::Few(few) => few.iter().any(|number| set.contains(*number)),
            Self::Many(many) => !many.series.is_disjoint(set),
        }
    }
}

impl Index {
    /// Adds a label of a series, whose number must be the greatest so far.
    pub(super) fn add(&mut self, name: u32, value: u32, series: u32) {
        let values = self.names.entry(name).or_insert_with(|| {
            self.bytes += NAME_BYTES;
            HashMap::default()
        });
        match values.get_mut(&value) {
            Some(postings) => self.bytes += postings.push(series),
            None => {
                self.bytes += ENTRY_BYTES;
                values.insert(value, Postings::One(series));
            }
        }
    }

    /// The series of a label.
    pub(super) fn postings(&self, name: u32, value: u32) -> Option<&Postings> {
        self.names.get(&name)?.get(&value)
    }

    /// The values of a name with their series, in any order.
    pub(super) fn values(&self, name: u32) -> impl Iterator<Item = (u32, &Postings)> {
        let values = self.names.get(&name).into_iter().flatten();
        values.map(|(value, postings)| (*value, postings))
    }

    /// The number of values of a name.
    pub(super) fn value_count(&self, name: u32) -> usize {
        self.names.get(&name).map_or(0, HashMap::len)
    }

    /// All names, in any order.
    pub(super) fn names(&self) -> impl Iterator<Item = u32> {
        self.names.keys().copied()
    }

    /// Bytes of the index.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_series_of_a_label_is_found() {
        let mut index = Index::default();
        let of = |series: u32| [series, series / 10, series / 1_000, 0];
        for series in 0..200_000 {
            for (name, value) in of(series).into_iter().enumerate() {
                index.add(name as u32, value, series);
            }
        }
        let found = |name, value| {
            let mut set = RoaringBitmap::new();
            index.postings(name, value).unwrap().add_to(&mut set);
            assert_eq!(set.len(), index.postings(name, value).unwrap().len());
            let all = RoaringBitmap::from_iter((0..200_000).step_by(3));
            let (mut inside, mut outside, mut added) = (all.clone(), all.clone(), RoaringBitmap::new());
            index.postings(name, value).unwrap().keep_in(&mut inside);
            index.postings(name, value).unwrap().take_from(&mut outside);
            index.postings(name, value).unwrap().add_those_in(&all, &mut added);
            assert_eq!((&added, &inside, outside), (&inside, &(&all & &set), all - &set));
            set.iter().collect::<Vec<u32>>()
        };
        assert_eq!(found(0, 70_000), [70_000]);
        assert_eq!(found(1, 7), (70..80).collect::<Vec<u32>>());
        assert_eq!(found(2, 99), (99_000..100_000).collect::<Vec<u32>>());
        assert_eq!(found(3, 0).len(), 200_000);
        let set = RoaringBitmap::from_iter([99_500]);
        for (name, value) in [(0, 99_500), (1, 9_950), (2, 99), (3, 0)] {
            assert!(index.postings(name, value).unwrap().touches(&set));
            assert!(value == 0 || !index.postings(name, value - 1).unwrap().touches(&set));
        }
        assert_eq!((index.values(2).count(), index.values(9).count(), index.names().count()), (200, 0, 4));
        assert!(index.bytes() < 200_000 * 72, "{}", index.bytes());
    }
}
