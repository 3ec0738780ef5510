//! The steps in which the minimizers of a text are found; some of their stages depend on the processor.

/// Bytes per gram.
pub const GRAM: usize = 6;

/// Consecutive grams of which the lowest hash is kept.
pub const WINDOW: usize = 8;

/// Length of the shortest needle that has a complete window.
pub const NEEDLE_MIN: usize = GRAM + WINDOW - 1;

/// Windows per step: the arrays of a step fit into the first-level cache.
pub(super) const STEP: usize = 1024;

/// Positions that a step processes: more than it needs, so that every loop has complete vectors.
pub(super) const ROOM: usize = STEP + 32;

/// Size of a direct-mapped memory of recent keys: a key that it holds is not repeated.
const RECENT: usize = 4096;

/// The stages that depend on the processor.
pub(super) trait Stages {
    /// Computes the hashes of the grams at each position.
    fn hash(arrays: &mut Arrays);
    /// Moves those of the first `count` minima that differ from the one before to the start of `changed`;
    /// returns how many.
    fn changes(minima: &[u32; STEP + 1], count: usize, changed: &mut [u32; STEP + 8]) -> usize;
}

#[inline(always)]
pub(super) fn every_key<S: Stages>(text: &[u8], keys: &mut Vec<u32>) {
    if text.len() < NEEDLE_MIN {
        return;
    }
    let windows = text.len() - NEEDLE_MIN + 1;
    let mut arrays = Arrays {
        folded: [0; ROOM + 16],
        digits: [0; ROOM + 16],
        ids: [0; ROOM + 16],
        kinds: [0; ROOM],
        hashes: [0; ROOM],
    };
    let mut recent = [0u32; RECENT];
    let mut minima = [0u32; STEP + 1];
    let mut changed = [0u32; STEP + 8];
    let mut start = 0;
    while start < windows {
        let count = (windows - start).min(STEP);
        arrays.fold(&text[start..start + count + NEEDLE_MIN - 1]);
        arrays.classify();
        S::hash(&mut arrays);
        // The last minimum of the step before precedes the first of this one.
        minima[0] = minima[STEP];
        arrays.minimize(&mut minima);
        let changes = S::changes(&minima, count, &mut changed);
        append_new(&changed[..changes], &mut recent, keys);
        start += count;
    }
}

/// The arrays of a step. Positions after the last complete window are undefined and ignored.
pub(super) struct Arrays {
    /// Bytes with letters folded.
    pub(super) folded: [u8; ROOM + 16],
    /// 0x0F where a byte is a digit: the bits in which digits differ.
    pub(super) digits: [u8; ROOM + 16],
    /// 1 where a byte may occur in an id.
    pub(super) ids: [u8; ROOM + 16],
    /// Kind of the gram at each position.
    pub(super) kinds: [u8; ROOM],
    pub(super) hashes: [u32; ROOM],
}

impl Arrays {
    #[inline(always)]
    fn fold(&mut self, text: &[u8]) {
        let places = self.folded.iter_mut().zip(&mut self.digits).zip(&mut self.ids);
        for (((folded, digit), id), &byte) in places.zip(text) {
            let upper = byte.wrapping_sub(b'A') < 26;
            let low = byte | (u8::from(upper) << 5);
            let is_digit = byte.wrapping_sub(b'0') < 10;
            *folded = low;
            *digit = if is_digit { 0x0F } else { 0 };
            *id = u8::from(is_digit | (low.wrapping_sub(b'a') < 26) | (byte == b'-'));
        }
    }

    #[inline(always)]
    fn classify(&mut self) {
        for at in 0..ROOM {
            let ids = |n: usize| self.ids[at + n];
            let digits = |n: usize| self.digits[at + n];
            let id = ids(0) & ids(1) & ids(2) & ids(3) & ids(4) & ids(5);
            let digit = (digits(0) | digits(1) | digits(2) | digits(3) | digits(4) | digits(5)) & 1;
            self.kinds[at] = digit + (digit & id);
        }
    }

    /// Computes minima over 2, 4 and then 8 hashes: each pass combines two windows of the pass before.
    #[inline(always)]
    fn minimize(&mut self, minima: &mut [u32; STEP + 1]) {
        for at in 0..ROOM - 1 {
            self.hashes[at] = self.hashes[at].min(self.hashes[at + 1]);
        }
        for at in 0..ROOM - 2 {
            self.hashes[at] = self.hashes[at].min(self.hashes[at + 2]);
        }
        for at in 0..STEP {
            minima[at + 1] = self.hashes[at].min(self.hashes[at + 4]);
        }
    }
}

/// First and second multiplier of a gram's two words, and the multiplier of their mix: odd, otherwise
/// arbitrary. They are part of the format.
pub(super) const MULTIPLIERS: [u32; 3] = [0x9E37_79B1, 0x85EB_CA77, 0x2C1B_3C6D];

/// The stages for every processor.
pub(super) struct Portable;

impl Stages for Portable {
    #[inline(always)]
    fn hash(arrays: &mut Arrays) {
        for at in 0..ROOM {
            let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
            let kind = u32::from(arrays.kinds[at]);
            // All ones for an id, whose digits are kept; otherwise the digits' low bits are removed.
            let keep = 0u32.wrapping_sub(kind >> 1);
            let gram = |n: usize| {
                let from = at + n..at + n + 4;
                word(&arrays.folded[from.clone()]) & (!word(&arrays.digits[from]) | keep)
            };
            let mixed = gram(0).wrapping_mul(MULTIPLIERS[0]) ^ gram(2).wrapping_mul(MULTIPLIERS[1]);
            let hash = (mixed ^ (mixed >> 15)).wrapping_mul(MULTIPLIERS[2]);
            // Never 0, which marks an empty slot among the recent keys.
            arrays.hashes[at] = kind << 30 | hash >> 2 | 1;
        }
    }

    #[inline(always)]
    fn changes(minima: &[u32; STEP + 1], count: usize, changed: &mut [u32; STEP + 8]) -> usize {
        let mut changes = 0;
        for pair in minima[..count + 1].windows(2) {
            changed[changes] = pair[1];
            changes += usize::from(pair[0] != pair[1]);
        }
        changes
    }
}

/// Appends the keys that are not among the recent ones.
#[inline(always)]
fn append_new(changed: &[u32], recent: &mut [u32; RECENT], keys: &mut Vec<u32>) {
    let start = keys.len();
    keys.resize(start + changed.len(), 0);
    let new = &mut keys[start..];
    let mut kept = 0;
    for &key in changed {
        let slot = &mut recent[(key >> 3) as usize % RECENT];
        new[kept] = key;
        kept += usize::from(*slot != key);
        *slot = key;
    }
    keys.truncate(start + kept);
}
