//! Reads pages of integers in the classic mode of `pco`: integers or their deltas, each encoded as the
//! number of a bin (entropy coded, with four interleaved states) and an offset within the bin.
//!
//! A page holds the first integer and deltas of each order (8 bytes each), unless they are omitted: then
//! the first integer is zero, and with order 2 a signed varint holds the second. The four states follow,
//! then batches of 256 integers: first the bits of the states, then all offsets. The `pco` library could
//! read these pages too. This reader shares a table between threads, can stop after any batch, and has a
//! variant for processors with BMI2.
//!
//! Invariants: a state stays below the number of states; this follows from how tables are built and is
//! checked once per table. Every read is checked against the end of the page. No bytes cause a panic.

use super::varint::unzigzag;
use crate::error::Error;

/// A `pco` file begins with its format version and a minor version.
const FILE_VERSION: u64 = 4;
const FILE_MINOR_MAX: u64 = 1;
/// Highest order of deltas that is written.
pub const ORDER_MAX: usize = 2;
/// Numbers per batch.
pub const BATCH: usize = 256;
/// Number of interleaved states.
const TURNS: usize = 4;
/// Added to a delta so that small ones of both signs are close to each other; also converts between
/// signed and unsigned numbers.
const CENTER: u64 = 1 << 63;
/// Zero bytes after a page, so that complete words can be read at its end: those of a round of states
/// that begins before the end.
const PADDING: usize = 32;
/// Most usable bits of a word that is read from the byte of the first bit, whichever bit of that byte is
/// the first.
const WORD_BITS: u8 = 57;
/// The largest base-2 logarithm of the number of states, as in the library. The bits of one round of
/// states fit into a word, whichever bit of its first byte they begin at.
const SIZE_LOG_MAX: u32 = 14;
const _: () = assert!(TURNS as u32 * SIZE_LOG_MAX + u8::BITS - 1 <= u64::BITS);

/// The transition of a state, packed: number of bits to read for the next state (8 bits), number of
/// offset bits (8), and the next state before the read bits are added (16).
#[derive(Clone, Copy, Debug, Default)]
struct Link(u32);

impl Link {
    fn new(next: u16, bits: u8, offset_bits: u8) -> Self {
        Self(u32::from(bits) | u32::from(offset_bits) << 8 | u32::from(next) << 16)
    }

    #[inline(always)]
    fn bits(self) -> u32 {
        self.0 & 0xff
    }

    #[inline(always)]
    fn offset_bits(self) -> u32 {
        self.0 >> 8 & 0xff
    }

    #[inline(always)]
    fn next(self) -> u32 {
        self.0 >> 16
    }
}

/// The transitions and bins of all states.
#[derive(Clone, Debug, Default)]
struct States {
    links: Vec<Link>,
    /// The lowest number of the state's bin, as a signed one.
    lowers: Vec<u64>,
}

/// The table that all pages of a chunk share.
#[derive(Clone, Debug)]
pub struct NumberTable {
    order: usize,
    /// The base-2 logarithm of the number of states.
    size_log: u32,
    states: States,
    /// Whether an offset may be longer than [`WORD_BITS`].
    is_wide: bool,
    is_empty: bool,
}

impl NumberTable {
    /// Reads the table of a chunk, which is at `offset`.
    pub fn new(table: &[u8], part: &'static str, offset: u64) -> Result<Self, Error> {
        let malformed = |what| Error::Malformed { part, offset, what };
        let mut bytes = table.to_vec();
        bytes.extend_from_slice(&[0; PADDING]);
        let mut bits = TableBits { bytes: &bytes, at: 0, len: table.len() * 8 };
        let order = bits.order().ok_or_else(|| malformed("numbers are coded in an unsupported way"))?;
        let (size_log, bins) = bits.bins().ok_or_else(|| malformed("a table of numbers is damaged"))?;
        if bits.at.div_ceil(8) != table.len() {
            return Err(malformed("a table of numbers is longer or shorter than its bins"));
        }
        let states = states_of(&bins, size_log).ok_or_else(|| malformed("a table of numbers is damaged"))?;
        let is_wide = bins.iter().any(|bin| bin.offset_bits > u32::from(WORD_BITS));
        Ok(Self { order, size_log, states, is_wide, is_empty: bins.is_empty() })
    }

    /// Returns the bytes held in memory.
    pub fn memory_bytes(&self) -> u64 {
        (self.states.links.len() * size_of::<(Link, u64)>() + size_of::<Self>()) as u64
    }

    /// Begins to read a page of `count` numbers; the caller bounds `count`.
    pub fn page<'a>(
        &'a self,
        bytes: &[u8],
        count: usize,
        moments: Moments,
        scratch: &'a mut NumberScratch,
    ) -> Result<NumberPage<'a>, PageError> {
        scratch.bytes.clear();
        scratch.bytes.extend_from_slice(bytes);
        scratch.bytes.extend_from_slice(&[0; PADDING]);
        let mut page = NumberPage {
            table: self,
            scratch,
            bits: bytes.len() * 8,
            at: 0,
            states: [0; TURNS],
            moments: [0; ORDER_MAX],
            coded: count.saturating_sub(self.order),
            left: count,
        };
        if self.is_empty && page.coded > 0 {
            return Err(PageError::Damaged);
        }
        page.read_moments(moments)?;
        for turn in 0..TURNS {
            page.states[turn] = page.read(self.size_log as u8)? as u32;
        }
        page.at = page.at.next_multiple_of(8);
        Ok(page)
    }
}

/// A bin: one range of numbers.
#[derive(Clone, Copy, Debug)]
struct Bin {
    /// Number of states of the bin.
    weight: u32,
    lower: u64,
    offset_bits: u32,
}

/// Reads the bits of a table: those of the header of a file; the mode (4 bits, 0: classic); 4 bits for
/// the encoding, 0: numbers, 1: deltas, followed by their order (3 bits) and a bit without meaning here;
/// the base-2 logarithm of the number of states (4 bits); the number of bins (15 bits); for each bin its
/// number of states minus one (as many bits as the logarithm), its lowest number (64 bits) and its number
/// of offset bits (7 bits).
struct TableBits<'a> {
    bytes: &'a [u8],
    at: usize,
    len: usize,
}

impl TableBits<'_> {
    fn read(&mut self, bits: u8) -> Option<u64> {
        let value = wide(self.bytes, self.at, bits)?;
        self.at += usize::from(bits);
        (self.at <= self.len).then_some(value)
    }

    /// Returns the order of deltas; `None` if the encoding is unsupported.
    fn order(&mut self) -> Option<usize> {
        self.read(8).filter(|version| *version == FILE_VERSION)?;
        self.read(8).filter(|minor| *minor <= FILE_MINOR_MAX)?;
        self.read(4).filter(|mode| *mode == 0)?;
        match self.read(4)? {
            0 => Some(0),
            1 => {
                let order = self.read(3)? as usize;
                self.read(1)?;
                Some(order).filter(|order| (1..=ORDER_MAX).contains(order))
            }
            _ => None,
        }
    }

    fn bins(&mut self) -> Option<(u32, Vec<Bin>)> {
        let (size_log, count) = (self.read(4)? as u8, self.read(15)?);
        let per_bin = usize::from(size_log) + 71;
        if count as usize * per_bin > self.len.checked_sub(self.at)? {
            return None;
        }
        let mut bins = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let weight = self.read(size_log)? as u32 + 1;
            let (lower, offset_bits) = (self.read(64)?, self.read(7)? as u32);
            if offset_bits > u64::BITS {
                return None;
            }
            bins.push(Bin { weight, lower, offset_bits });
        }
        Some((u32::from(size_log), bins))
    }
}

/// Builds the states: the states of a bin are spread in steps of three fifths of their number.
fn states_of(bins: &[Bin], size_log: u32) -> Option<States> {
    let none = [Bin { weight: 1, lower: 0, offset_bits: 0 }];
    let bins = if bins.is_empty() { &none } else { bins };
    let size = 1usize << size_log.min(SIZE_LOG_MAX);
    let all: u64 = bins.iter().map(|bin| u64::from(bin.weight)).sum();
    if all != size as u64 || size_log > SIZE_LOG_MAX || bins.iter().any(|bin| bin.weight == 0) {
        return None;
    }
    let step = (3 * size / 5) | 1;
    let mut of_state = vec![0u16; size];
    let mut at = 0;
    for (number, bin) in bins.iter().enumerate() {
        for _ in 0..bin.weight {
            of_state[at] = number as u16;
            at = (at + step) & (size - 1);
        }
    }
    let mut turns: Vec<Turns> = bins.iter().map(|bin| Turns::of(bin, size_log)).collect();
    let links: Vec<Link> = of_state.iter().map(|bin| turns[usize::from(*bin)].next(size as u32)).collect();
    let lowers = of_state.iter().map(|bin| bins[usize::from(*bin)].lower ^ CENTER).collect();
    // Reads of states and links without a bounds check depend on this.
    let is_below = |link: &Link| link.next() as usize + (1 << link.bits()) <= size;
    links.iter().all(is_below).then_some(States { links, lowers })
}

/// The states of a bin, in ascending order.
struct Turns {
    /// The number of states of the bin, plus one for each state so far.
    seen: u32,
    /// From this value of `seen` on, a state reads one bit less.
    doubled: u32,
    bits: u8,
    offset_bits: u8,
}

impl Turns {
    fn of(bin: &Bin, size_log: u32) -> Self {
        // `seen` stays below twice the weight, so its logarithm rises at most once.
        let log = bin.weight.ilog2();
        Self {
            seen: bin.weight,
            doubled: 2 << log,
            bits: (size_log - log) as u8,
            offset_bits: bin.offset_bits as u8,
        }
    }

    fn next(&mut self, size: u32) -> Link {
        let bits = self.bits - u8::from(self.seen >= self.doubled);
        let next = ((self.seen << bits) - size) as u16;
        self.seen += 1;
        Link::new(next, bits, self.offset_bits)
    }
}

/// Whether a page stores its first number and deltas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moments {
    /// It stores them.
    Stored,
    /// The first number is zero; with order 2 a signed varint holds the second.
    FromZero,
}

/// Why a page cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageError {
    /// The page is truncated, or its bits do not match its table.
    Damaged,
    /// The page has more bytes than its numbers.
    Longer,
}

impl PageError {
    /// Returns the error for a page of numbers in a part.
    pub fn within(self, part: &'static str, offset: u64) -> Error {
        let what = match self {
            Self::Damaged => "a page of numbers is damaged",
            Self::Longer => "bytes follow a page of numbers",
        };
        Error::Malformed { part, offset, what }
    }
}

/// Reusable memory for reading pages.
#[derive(Debug)]
pub struct NumberScratch {
    bytes: Vec<u8>,
    /// The states of a batch.
    states: [u32; BATCH],
}

impl Default for NumberScratch {
    fn default() -> Self {
        Self { bytes: Vec::new(), states: [0; BATCH] }
    }
}

/// A page that is read batch by batch.
pub struct NumberPage<'a> {
    table: &'a NumberTable,
    scratch: &'a mut NumberScratch,
    /// Number of bits of the page.
    bits: usize,
    /// Position of the next bit.
    at: usize,
    states: [u32; TURNS],
    /// The next number, and with order 2 the next delta.
    moments: [u64; ORDER_MAX],
    /// Remaining encoded numbers; the last `order` numbers of a page follow from deltas and are not
    /// encoded.
    coded: usize,
    left: usize,
}

impl NumberPage<'_> {
    fn read(&mut self, bits: u8) -> Result<u64, PageError> {
        let value = wide(&self.scratch.bytes, self.at, bits).ok_or(PageError::Damaged)?;
        self.at += usize::from(bits);
        if self.at > self.bits { Err(PageError::Damaged) } else { Ok(value) }
    }

    fn read_moments(&mut self, moments: Moments) -> Result<(), PageError> {
        let order = self.table.order;
        match moments {
            Moments::Stored => {
                for number in 0..order {
                    self.moments[number] = self.read(64)?;
                }
                self.moments[0] ^= CENTER;
            }
            Moments::FromZero => {
                if order == 2 {
                    self.moments[1] = self.read_signed()? as u64;
                }
            }
        }
        Ok(())
    }

    fn read_signed(&mut self) -> Result<i64, PageError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.read(8)?;
            let bits = byte & 0x7f;
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(unzigzag(value));
            }
        }
        Err(PageError::Damaged)
    }

    /// Returns the next [`BATCH`] numbers, or the remaining ones if they are fewer.
    pub fn next<'o>(&mut self, out: &'o mut [i64; BATCH]) -> Result<&'o mut [i64], PageError> {
        let count = self.left.min(BATCH);
        let coded = self.coded.min(BATCH);
        let ends = self.decode(coded, out)?;
        (self.left, self.coded) = (self.left - count, self.coded - coded);
        if self.left == 0 {
            self.check_end(ends)?;
        }
        Ok(&mut out[..count])
    }

    fn check_end(&self, ends: usize) -> Result<(), PageError> {
        let last = self.scratch.bytes.get(ends / 8).copied().unwrap_or(0);
        if ends.div_ceil(8) * 8 != self.bits {
            return Err(PageError::Longer);
        }
        if !ends.is_multiple_of(8) && last >> (ends % 8) != 0 { Err(PageError::Damaged) } else { Ok(()) }
    }

    /// Decodes a batch, and returns the position of the bit after it.
    #[allow(unsafe_code)]
    fn decode(&mut self, coded: usize, out: &mut [i64; BATCH]) -> Result<usize, PageError> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("bmi2") && std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the features that the function requires.
            return unsafe { decode_avx2(self, coded, out) };
        }
        decode_batch(self, coded, out, lowest)
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn decode_avx2(page: &mut NumberPage<'_>, coded: usize, out: &mut [i64; BATCH]) -> Result<usize, PageError> {
    decode_batch(page, coded, out, |word, bits| std::arch::x86_64::_bzhi_u64(word, bits))
}

/// Returns the lowest `bits` bits of a word; `bits` is less than 64.
#[inline(always)]
fn lowest(word: u64, bits: u32) -> u64 {
    word & ((1 << (bits & 63)) - 1)
}

#[inline(always)]
fn decode_batch(
    page: &mut NumberPage<'_>,
    coded: usize,
    out: &mut [i64; BATCH],
    lowest: impl Fn(u64, u32) -> u64 + Copy,
) -> Result<usize, PageError> {
    read_states(page, coded, lowest)?;
    let word = |bytes: &[u8], at: usize, bits: u32| lowest(word_at(bytes, at) >> (at % 8), bits);
    page.at = match (page.table.is_wide, page.table.order) {
        (false, 0) => read_offsets::<0>(page, coded, out, word),
        (false, 1) => read_offsets::<1>(page, coded, out, word),
        (false, _) => read_offsets::<2>(page, coded, out, word),
        (true, 0) => read_offsets::<0>(page, coded, out, wide_or_zero),
        (true, 1) => read_offsets::<1>(page, coded, out, wide_or_zero),
        (true, _) => read_offsets::<2>(page, coded, out, wide_or_zero),
    }?;
    if page.at > page.bits { Err(PageError::Damaged) } else { Ok(page.at) }
}

/// Reads the states of a batch.
#[inline(always)]
fn read_states(
    page: &mut NumberPage<'_>,
    coded: usize,
    lowest: impl Fn(u64, u32) -> u64 + Copy,
) -> Result<(), PageError> {
    let (links, NumberScratch { bytes, states: read }) = (&page.table.states.links[..], &mut *page.scratch);
    let (bytes, bits) = (&bytes[..], page.bits);
    let (mut at, mut states) = (page.at, page.states);
    let (turns, rest) = read[..coded].as_chunks_mut::<TURNS>();
    for turn in turns {
        if at > bits {
            return Err(PageError::Damaged);
        }
        *turn = states;
        at += read_turn(bytes, at, links, &mut states, lowest)[TURNS];
    }
    if at > bits {
        return Err(PageError::Damaged);
    }
    if !rest.is_empty() {
        rest.iter_mut().zip(states).for_each(|(slot, state)| *slot = state);
        at += read_turn(bytes, at, links, &mut states, lowest)[rest.len()];
    }
    (page.at, page.states) = (at, states);
    Ok(())
}

/// Advances each state once, reading from bit `at`. Returns the number of bits read before each state,
/// and the total.
#[inline(always)]
#[allow(unsafe_code)]
fn read_turn(
    bytes: &[u8],
    at: usize,
    links: &[Link],
    states: &mut [u32; TURNS],
    lowest: impl Fn(u64, u32) -> u64,
) -> [usize; TURNS + 1] {
    let word = word_at(bytes, at) >> (at % 8);
    let of = states.map(|state| {
        debug_assert!((state as usize) < links.len());
        // SAFETY: a state is either a number of `size_log` bits, or the successor of another state;
        // tables are checked for valid successors.
        unsafe { *links.get_unchecked(state as usize) }
    });
    // The next round depends on the last sum, so it is computed in few steps.
    let [first, second, third, fourth] = of.map(Link::bits);
    let half = first + second;
    let begins = [0, first, half, half + third];
    for n in 0..TURNS {
        states[n] = of[n].next() + lowest(word >> (begins[n] & 63), of[n].bits()) as u32;
    }
    [0, first, half, half + third, half + (third + fourth)].map(|bits| bits as usize)
}

/// Adds offsets and deltas to the numbers of a batch, and returns the position of the bit after them.
#[inline(always)]
fn read_offsets<const ORDER: usize>(
    page: &mut NumberPage<'_>,
    coded: usize,
    out: &mut [i64; BATCH],
    read: impl Fn(&[u8], usize, u32) -> u64 + Copy,
) -> Result<usize, PageError> {
    let (table, NumberScratch { bytes, states }) = (&page.table.states, &*page.scratch);
    let (bytes, links, lowers) = (&bytes[..], &table.links[..], &table.lowers[..]);
    let (mut at, mut moments) = (page.at, page.moments);
    let (decoded, behind) = out.split_at_mut(coded);
    let (turns, rest) = decoded.as_chunks_mut::<TURNS>();
    let (of_turns, of_rest) = states[..coded].as_chunks::<TURNS>();
    for (slots, states) in turns.iter_mut().zip(of_turns) {
        if at > page.bits {
            return Err(PageError::Damaged);
        }
        for (slot, state) in slots.iter_mut().zip(states) {
            at = read_offset::<ORDER>(bytes, at, (links, lowers), *state, &mut moments, slot, read);
        }
    }
    if at > page.bits {
        return Err(PageError::Damaged);
    }
    for (slot, state) in rest.iter_mut().zip(of_rest) {
        at = read_offset::<ORDER>(bytes, at, (links, lowers), *state, &mut moments, slot, read);
    }
    // The last numbers follow from the deltas before them.
    behind.iter_mut().take(ORDER).for_each(|slot| *slot = next_number::<ORDER>(0, &mut moments));
    page.moments = moments;
    Ok(at)
}

/// Reads the offset of a state whose link was read.
#[inline(always)]
#[allow(unsafe_code)]
fn read_offset<const ORDER: usize>(
    bytes: &[u8],
    at: usize,
    (links, lowers): (&[Link], &[u64]),
    state: u32,
    moments: &mut [u64; ORDER_MAX],
    slot: &mut i64,
    read: impl Fn(&[u8], usize, u32) -> u64,
) -> usize {
    let state = state as usize;
    debug_assert!(state < links.len() && links.len() == lowers.len());
    // SAFETY: there are as many lowest numbers as links, and the link of this state was read.
    let (link, lower) = unsafe { (*links.get_unchecked(state), *lowers.get_unchecked(state)) };
    *slot = next_number::<ORDER>(lower.wrapping_add(read(bytes, at, link.offset_bits())), moments);
    at + link.offset_bits() as usize
}

/// Returns the next number, given the next encoded value.
#[inline(always)]
fn next_number<const ORDER: usize>(coded: u64, [next, distance]: &mut [u64; ORDER_MAX]) -> i64 {
    let number = if ORDER == 0 { coded } else { *next };
    if ORDER == 2 {
        *next = next.wrapping_add(*distance);
        *distance = distance.wrapping_add(coded);
    } else {
        *next = next.wrapping_add(coded);
    }
    number as i64
}

/// Reads a word from the byte of a bit on. The bit begins a round within the page or belongs to such a
/// round; its values have at most [`WORD_BITS`] bits each, and padding follows the page.
#[inline(always)]
#[allow(unsafe_code)]
fn word_at(bytes: &[u8], at: usize) -> u64 {
    debug_assert!(at / 8 + size_of::<u64>() <= bytes.len());
    // SAFETY: a round begins within the page and is short enough that its words end within the padding.
    u64::from_le_bytes(unsafe { bytes.as_ptr().add(at / 8).cast::<[u8; 8]>().read_unaligned() })
}

#[inline(always)]
fn wide_or_zero(bytes: &[u8], at: usize, bits: u32) -> u64 {
    wide(bytes, at, bits as u8).unwrap_or(0)
}

/// Reads up to 64 bits.
#[inline]
fn wide(bytes: &[u8], at: usize, bits: u8) -> Option<u64> {
    let word = u128::from_le_bytes(*bytes.get(at / 8..)?.first_chunk::<16>()?) >> (at % 8);
    Some((word & ((1 << bits) - 1)) as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::numbers::compress;

    proptest! {
        #[test]
        fn all_processor_variants_read_the_same_numbers(
            numbers in prop::collection::vec(any::<i64>(), 1..600),
            shift in 0..64u32,
            order in 0..3usize,
        ) {
            let numbers: Vec<i64> = numbers.iter().map(|number| number >> shift).collect();
            let chunk = compress(&numbers, vec![numbers.len()], order, 8, Moments::Stored).unwrap();
            let table = NumberTable::new(&chunk.table, "test", 0).unwrap();
            let mut scratch = NumberScratch::default();
            let mut page = table.page(&chunk.pages, numbers.len(), Moments::Stored, &mut scratch).unwrap();
            let (mut found, mut out) = (Vec::new(), [0; BATCH]);
            while page.left > 0 {
                let (count, coded) = (page.left.min(BATCH), page.coded.min(BATCH));
                decode_batch(&mut page, coded, &mut out, lowest).unwrap();
                (page.left, page.coded) = (page.left - count, page.coded - coded);
                found.extend_from_slice(&out[..count]);
            }
            prop_assert_eq!(found, numbers);
        }

        #[test]
        fn damaged_bytes_are_read_like_the_library_or_refused(
            numbers in prop::collection::vec(-1000..1000i64, 1..600),
            order in 0..3usize,
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            cut in 0..9usize,
        ) {
            let chunk = compress(&numbers, vec![numbers.len()], order, 8, Moments::Stored).unwrap();
            let table = NumberTable::new(&chunk.table, "test", 0).unwrap();
            let mut bytes = chunk.pages[..chunk.pages.len().saturating_sub(cut)].to_vec();
            for (at, byte) in &damage {
                let len = bytes.len();
                bytes.get_mut(at.index(len.max(1))).into_iter().for_each(|slot| *slot = *byte);
            }
            let read = |any_processor: bool| -> Result<Vec<i64>, PageError> {
                let (mut scratch, mut out) = (NumberScratch::default(), [0; BATCH]);
                let mut page = table.page(&bytes, numbers.len(), Moments::Stored, &mut scratch)?;
                let mut found = Vec::new();
                while page.left > 0 {
                    let (count, coded) = (page.left.min(BATCH), page.coded.min(BATCH));
                    match any_processor {
                        true => decode_batch(&mut page, coded, &mut out, lowest)?,
                        false => page.decode(coded, &mut out)?,
                    };
                    (page.left, page.coded) = (page.left - count, page.coded - coded);
                    found.extend_from_slice(&out[..count]);
                }
                Ok(found)
            };
            prop_assert_eq!(read(true), read(false));
        }
    }
}
