//! Shapes: constant text with slots. Finds the number of a known shape.

use super::words::{fold, fold_bytes};

/// A shape that is not found within this many probes counts as new, which is always correct. This bounds
/// the cost of crafted collisions.
const MAX_PROBES: usize = 24;

/// One slot of a shape: the length of the constant text before it, and the code of its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// `length << 8 | code`: lines are shorter than 2^24 bytes.
    packed: u32,
}

impl Slot {
    /// Returns the number of bytes of constant text before the slot.
    #[inline(always)]
    pub(super) fn constant(self) -> usize {
        (self.packed >> 8) as usize
    }

    /// Returns the code of the slot's contents.
    pub(super) fn code(self) -> u8 {
        self.packed as u8
    }
}

/// A text that is being split for a shape.
#[derive(Default)]
pub(super) struct Split {
    slots: Vec<Slot>,
    /// The constant text so far, followed by undefined bytes.
    constants: Vec<u8>,
    constants_len: usize,
    /// End of the last slot.
    pub(super) at: usize,
    /// Ends of the slots.
    #[cfg(test)]
    ends: Vec<usize>,
}

/// Shorter pieces of text are copied with this fixed length.
const PIECE: usize = 16;

impl Split {
    /// Starts with a text at `start`.
    #[inline(always)]
    pub(super) fn begin(&mut self, start: usize) {
        self.slots.clear();
        self.constants_len = 0;
        self.at = start;
    }

    /// Adds a slot at `[start, end)`; the text since the last one is constant.
    #[inline(always)]
    pub(super) fn slot(&mut self, text: &[u8], start: usize, end: usize, code: u8) {
        let packed = ((start - self.at) as u32) << 8 | u32::from(code);
        self.add_constant(text, start);
        self.slots.push(Slot { packed });
        self.at = end;
        #[cfg(test)]
        self.ends.push(end);
    }

    /// Returns the number of slots so far.
    #[inline(always)]
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    #[inline(always)]
    fn add_constant(&mut self, text: &[u8], end: usize) {
        let (from, len) = (self.at, end - self.at);
        let to = self.constants_len;
        self.constants_len += len;
        if len <= PIECE
            && let (Some(text), Some(out)) =
                (text.get(from..from + PIECE), self.constants.get_mut(to..to + PIECE))
        {
            return out.copy_from_slice(text);
        }
        self.add_long_constant(text, from, to);
    }

    fn add_long_constant(&mut self, text: &[u8], from: usize, to: usize) {
        let end = self.constants_len;
        if self.constants.len() < end + PIECE {
            self.constants.resize(end + 1_024, 0);
        }
        self.constants[to..end].copy_from_slice(&text[from..from + end - to]);
    }

    /// Returns the slots, and the end of each in the text.
    #[cfg(test)]
    pub(super) fn parts(&self) -> impl Iterator<Item = (Slot, usize)> {
        let ends = &self.ends[self.ends.len() - self.slots.len()..];
        self.slots.iter().copied().zip(ends.iter().copied())
    }

    fn hash(&self) -> u64 {
        let (pairs, rest) = self.slots.as_chunks::<2>();
        let two = |hash, [a, b]: &[Slot; 2]| fold(hash, u64::from(a.packed) << 32 | u64::from(b.packed));
        let slots = pairs.iter().fold(0, two);
        let slots = rest.iter().fold(slots, |hash, slot| fold(hash, u64::from(slot.packed)));
        fold_bytes(slots, &self.constants[..self.constants_len])
    }
}

/// A shape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    hash: u64,
    slots_at: u32,
    slots: u32,
    constants_at: u32,
    constants: u32,
    /// The shape that followed this one last time.
    successor: u32,
    /// Number of texts with this shape.
    pub(super) uses: u32,
}

/// All shapes of some texts, numbered in the order in which they were first seen.
#[derive(Default)]
pub(super) struct ShapeTable {
    table: Vec<u32>,
    shapes: Vec<Shape>,
    slots: Vec<Slot>,
    constants: Vec<u8>,
    /// The shape that was added last.
    last: u32,
    guesses: u32,
    /// Score of the last guesses: rises with right ones.
    luck: i32,
}

impl ShapeTable {
    /// Forgets all shapes; at most `limit` will be added.
    pub(super) fn reset(&mut self, limit: usize) {
        self.table.clear();
        self.table.resize((limit * 2).next_power_of_two().max(16), 0);
        self.shapes.clear();
        self.slots.clear();
        self.constants.clear();
        self.last = 0;
        self.guesses = 0;
        self.luck = 0;
    }

    /// Returns the number of shapes.
    pub(super) fn len(&self) -> usize {
        self.shapes.len()
    }

    /// Returns the shapes by number.
    pub(super) fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    /// Returns the slots of a shape.
    pub(super) fn slots(&self, shape: &Shape) -> &[Slot] {
        &self.slots[shape.slots_at as usize..(shape.slots_at + shape.slots) as usize]
    }

    /// Returns the constant text of a shape: the text before each slot, then the text after the last.
    pub(super) fn constants(&self, shape: &Shape) -> &[u8] {
        &self.constants[shape.constants_at as usize..(shape.constants_at + shape.constants) as usize]
    }

    /// Counts a use of the shape of the text that ends at `end`, and returns its number.
    #[inline(always)]
    pub(super) fn add(&mut self, split: &mut Split, text: &[u8], end: usize) -> u32 {
        split.add_constant(text, end);
        let number = self.guess(split).unwrap_or_else(|| self.find(split));
        self.shapes[number as usize].uses += 1;
        self.shapes[self.last as usize].successor = number;
        self.last = number;
        number
    }

    /// Guesses the shape that followed the last one before. If guesses are rarely right, most are
    /// skipped.
    #[inline(always)]
    fn guess(&mut self, split: &Split) -> Option<u32> {
        self.guesses += 1;
        if self.luck < 0 && !self.guesses.is_multiple_of(16) {
            return None;
        }
        let guess = self.shapes.get(self.last as usize)?.successor;
        let right = self.is(self.shapes.get(guess as usize)?, split);
        self.luck = (self.luck + if right { 1 } else { -2 }).clamp(-16, 64);
        right.then_some(guess)
    }

    #[inline(never)]
    fn find(&mut self, split: &Split) -> u32 {
        let hash = split.hash();
        let mask = self.table.len() - 1;
        let mut place = (hash >> 24) as usize & mask;
        for probe in 0..MAX_PROBES {
            let entry = self.table[place];
            if entry == 0 {
                self.table[place] = self.shapes.len() as u32 + 1;
                break;
            }
            let shape = &self.shapes[entry as usize - 1];
            if shape.hash == hash && self.is(shape, split) {
                return entry - 1;
            }
            place = (place + probe + 1) & mask;
        }
        self.insert(hash, split)
    }

    #[inline(always)]
    fn is(&self, shape: &Shape, split: &Split) -> bool {
        shape.constants as usize == split.constants_len
            && self.slots(shape) == split.slots
            && self.constants(shape) == &split.constants[..split.constants_len]
    }

    #[cold]
    fn insert(&mut self, hash: u64, split: &Split) -> u32 {
        let number = self.shapes.len() as u32;
        let (slots_at, constants_at) = (self.slots.len(), self.constants.len());
        self.slots.extend_from_slice(&split.slots);
        self.constants.extend_from_slice(&split.constants[..split.constants_len]);
        self.shapes.push(Shape {
            hash,
            slots_at: slots_at as u32,
            slots: split.slots.len() as u32,
            constants_at: constants_at as u32,
            constants: split.constants_len as u32,
            successor: number,
            uses: 0,
        });
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(table: &mut ShapeTable, text: &str, slots: &[(usize, usize, u8)]) -> u32 {
        let mut split = Split::default();
        split.begin(1);
        slots.iter().for_each(|&(start, end, code)| split.slot(text.as_bytes(), start, end, code));
        table.add(&mut split, text.as_bytes(), text.len() - 1)
    }

    #[test]
    fn shapes_differ_in_text_slots_and_codes() {
        let mut table = ShapeTable::default();
        table.reset(8);
        assert_eq!(add(&mut table, "|took 15 ms|", &[(6, 8, 0)]), 0);
        assert_eq!(add(&mut table, "|took 7 ms|", &[(6, 7, 0)]), 0);
        assert_eq!(add(&mut table, "|took 7 ms|", &[(6, 7, 1)]), 1);
        assert_eq!(add(&mut table, "|took 7 us|", &[(6, 7, 0)]), 2);
        assert_eq!(add(&mut table, "|took 7 m|", &[(6, 7, 0)]), 3);
        assert_eq!(add(&mut table, "|took 7 m|", &[]), 4);
        assert_eq!(add(&mut table, "|took 1567 ms|", &[(6, 10, 0)]), 0);
        assert_eq!(table.len(), 5);
        let first = table.shapes()[0];
        assert_eq!((first.uses, table.constants(&first)), (3, b"took  ms".as_slice()));
        assert_eq!(table.slots(&first).iter().map(|s| s.constant()).collect::<Vec<_>>(), [5]);
    }
}
