//! Repeated values of a column. They are stored as the distance back to the last occurrence (near), or,
//! with at most 256 distinct values, as the number of the value (far).

use crate::error::Error;

use super::classed::{get_classed, put_classed};
use super::numbers::{class_of, entropy_bits, extra_bits};
use super::sink::Sink;
use super::source::Source;

/// No repetitions: all values follow.
pub(super) const ALL_NEW: u8 = 0;
/// The numbers of the values precede the distinct values.
pub(super) const FAR: u8 = 1;
/// The distances precede the distinct values.
pub(super) const NEAR: u8 = 2;

/// A value that is not found within this many probes counts as new, which is always correct. This bounds
/// the cost of crafted collisions.
const MAX_PROBES: usize = 24;

/// The search ends if more than the second number of the first number of values are new.
const CHECKPOINTS: [(usize, usize); 3] = [(512, 490), (2_048, 1_750), (usize::MAX, usize::MAX)];

/// Most distinct values whose numbers fit into a byte.
const MAX_FAR: usize = 256;

/// Approximate bits of a Huffman table per symbol.
const SYMBOL_BITS: u64 = 5;

/// A distinct value of the column.
struct Value {
    hash: u32,
    first: u32,
    last: u32,
    uses: u32,
}

/// The repetitions of a column.
#[derive(Default)]
pub(super) struct Repeats {
    /// One more than the index in `values`, by hash.
    table: Vec<u32>,
    values: Vec<Value>,
    /// The number of each value, truncated to a byte.
    numbers: Vec<u8>,
    /// Code of the distance from each value to its last occurrence, see [`Distances`].
    distances: Vec<u32>,
}

/// Encodes distances: 0 for a new value, 1 for the same distance as last time, else one more than the
/// distance. A repeated sequence of values then becomes a sequence of ones.
#[derive(Default)]
struct Distances {
    last: u32,
}

impl Distances {
    #[inline(always)]
    fn code(&mut self, distance: u32) -> u32 {
        if distance == 0 {
            return 0;
        }
        let same = distance == self.last;
        self.last = distance;
        if same { 1 } else { distance + 1 }
    }

    /// Returns the distance of a code that is not 0.
    #[inline(always)]
    fn distance(&mut self, code: u32) -> u32 {
        if code > 1 {
            self.last = code - 1;
        }
        self.last
    }
}

/// A way to store repetitions, and its size in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) tag: u8,
    pub(super) bits: u64,
}

impl Repeats {
    /// Searches for repetitions among `len` values and returns the best way to store them; `None` when
    /// there are too few.
    pub(super) fn find(
        &mut self,
        len: usize,
        hash: impl Fn(usize) -> u64,
        same: impl Fn(usize, usize) -> bool,
    ) -> Option<Choice> {
        self.table.clear();
        self.table.resize(256, 0);
        self.values.clear();
        self.numbers.clear();
        self.distances.clear();
        let (mut done, mut distances) = (0, Distances::default());
        for (until, new) in CHECKPOINTS {
            let until = until.min(len);
            for index in done..until {
                let number = self.number(hash(index) >> 32, index, &same);
                let value = &mut self.values[number];
                self.distances.push(distances.code(index as u32 - value.last));
                self.numbers.push(number as u8);
                value.last = index as u32;
                value.uses += 1;
            }
            done = until;
            if self.values.len() > new {
                return None;
            }
        }
        (self.values.len() < len).then(|| self.choose())
    }

    /// Returns the number of a value; assigns a new one if it was not seen.
    #[inline(always)]
    fn number(&mut self, hash: u64, index: usize, same: &impl Fn(usize, usize) -> bool) -> usize {
        if self.values.len() * 2 >= self.table.len() {
            self.grow();
        }
        let (hash, mask) = (hash as u32, self.table.len() - 1);
        let mut place = hash as usize & mask;
        for probe in 0..MAX_PROBES {
            let entry = self.table[place] as usize;
            if entry == 0 {
                self.table[place] = self.values.len() as u32 + 1;
                break;
            }
            let value = &self.values[entry - 1];
            if value.hash == hash && same(value.first as usize, index) {
                return entry - 1;
            }
            place = (place + probe + 1) & mask;
        }
        self.values.push(Value { hash, first: index as u32, last: index as u32, uses: 0 });
        self.values.len() - 1
    }

    #[cold]
    fn grow(&mut self) {
        let size = self.table.len() * 4;
        self.table.clear();
        self.table.resize(size, 0);
        for (number, value) in self.values.iter().enumerate() {
            let mut place = value.hash as usize & (size - 1);
            for probe in 0..MAX_PROBES {
                if self.table[place] == 0 {
                    self.table[place] = number as u32 + 1;
                    break;
                }
                place = (place + probe + 1) & (size - 1);
            }
        }
    }

    fn choose(&self) -> Choice {
        let mut classes = [0; 256];
        self.distances.iter().for_each(|&code| classes[class_of(u64::from(code)) as usize] += 1);
        let classes = &classes[..=usize::from(class_of(self.distances.len() as u64 + 1))];
        let extra = |(class, &count): (usize, &u32)| u64::from(extra_bits(class as u8)) * u64::from(count);
        let symbols = classes.iter().filter(|&&count| count > 0).count() as u64;
        let extra: u64 = classes.iter().enumerate().map(extra).sum();
        let near = Choice { tag: NEAR, bits: entropy_bits(classes) + extra + symbols * SYMBOL_BITS };
        if self.values.len() > MAX_FAR {
            return near;
        }
        let mut uses = [0; MAX_FAR];
        self.values.iter().zip(&mut uses).for_each(|(value, uses)| *uses = value.uses);
        let far = Choice { tag: FAR, bits: entropy_bits(&uses) + self.values.len() as u64 * SYMBOL_BITS };
        if near.bits < far.bits { near } else { far }
    }

    /// Returns the indexes of the distinct values, in the order of their numbers.
    pub(super) fn firsts(&self) -> impl Iterator<Item = usize> {
        self.values.iter().map(|value| value.first as usize)
    }

    /// Stores the repetitions as chosen. The distinct values must follow.
    pub(super) fn put(&self, choice: Choice, plane: &mut Vec<u8>, sink: &mut Sink) {
        if choice.tag == NEAR {
            put_classed(self.distances.iter().map(|&d| u64::from(d)), plane, sink);
        } else {
            sink.put(self.values.len() as u64);
            sink.put_plane(&self.numbers);
        }
    }
}

/// Reads the repetitions of `len` values, then the distinct values with `read`, and appends all values to
/// `out`.
pub(super) fn get_repeated<'a>(
    tag: u8,
    len: usize,
    source: &mut Source<'a>,
    out: &mut Vec<u64>,
    read: impl FnOnce(&mut Source<'a>, usize, &mut Vec<u64>) -> Result<(), Error>,
) -> Result<(), Error> {
    match tag {
        ALL_NEW => read(source, len, out),
        FAR => {
            let different = source.directory.count("different values", MAX_FAR.min(len))?;
            let numbers = source.plane(len)?;
            let mut values = Vec::with_capacity(different);
            read(source, different, &mut values)?;
            // After this check every byte is the number of a value, so the loop needs no check.
            let highest = numbers.iter().copied().max().unwrap_or(0);
            if highest as usize >= values.len() {
                return Err(source.directory.malformed("a value has an unknown number"));
            }
            out.extend(numbers.iter().map(|&number| values[number as usize]));
            Ok(())
        }
        NEAR => {
            let mut codes = Vec::with_capacity(len);
            get_classed(len, source, |code| codes.push(u32::try_from(code).unwrap_or(u32::MAX)))?;
            let different = codes.iter().filter(|&&code| code == 0).count();
            let mut values = Vec::with_capacity(different);
            read(source, different, &mut values)?;
            let (mut values, start) = (values.into_iter(), out.len());
            let mut distances = Distances::default();
            for code in codes {
                let value = match code {
                    0 => values.next(),
                    _ => {
                        let back = distances.distance(code) as usize;
                        let at = (out.len() - start).checked_sub(back).filter(|_| back > 0);
                        at.map(|at| out[start + at])
                    }
                };
                let missing = || source.directory.malformed("a value repeats one before the first");
                out.push(value.ok_or_else(missing)?);
            }
            Ok(())
        }
        _ => Err(source.directory.malformed("unknown kind of repetitions")),
    }
}
