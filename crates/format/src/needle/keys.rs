//! Minimizers of folded grams: the keys of texts and needles.
//!
//! One source serves every processor: on x86-64 with AVX2 the same function is compiled a second time
//! with wider vectors. It only uses wrapping integer arithmetic, so both give the same keys.

/// Bytes per gram.
pub const GRAM: usize = 6;
/// Consecutive grams of which the least hash is kept.
pub const WINDOW: usize = 11;
/// Shortest needle that has a whole window: a span id of 16 hex digits just fits.
pub const NEEDLE_MIN: usize = GRAM + WINDOW - 1;

/// Windows per step. The arrays of a step (four of 4 bytes per window) stay in the first-level cache.
const STEP: usize = 1024;
/// Hashes that a step needs.
const HASHES: usize = STEP + WINDOW - 1;
/// Bytes that a step needs, and as many more as make the hash loop a multiple of 32.
const BYTES: usize = HASHES + GRAM + 32;

/// Keys met within the last few thousand are not repeated: a direct-mapped memory of this many keys.
const RECENT: usize = 4096;

/// Appends the keys of `text` to `keys`; most repetitions are left out. Texts of less than
/// [`NEEDLE_MIN`] bytes have none.
pub fn text_keys(text: &[u8], keys: &mut Vec<u32>) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the function needs AVX2 and nothing else, and the processor has it.
        #[allow(unsafe_code)]
        unsafe {
            text_keys_avx2(text, keys)
        };
        return;
    }
    text_keys_portable(text, keys);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn text_keys_avx2(text: &[u8], keys: &mut Vec<u32>) {
    every_key(text, keys);
}

fn text_keys_portable(text: &[u8], keys: &mut Vec<u32>) {
    every_key(text, keys);
}

/// The keys of a needle, all of which a text must have that holds it. Empty when the needle is too
/// short to be tested.
///
/// With `ignore_ascii_case` the needle stands for every text that is equal after folding ASCII letters.
/// The caller guarantees that its matching folds nothing else: Unicode also folds the Kelvin sign to
/// `k` and the long s to `s`, so a Unicode-aware pattern with `k` or `s` must not be given as a literal.
/// Filters fold on both sides, so the keys are the same in both cases.
pub fn needle_keys(literal: &[u8], ignore_ascii_case: bool) -> Vec<u32> {
    let _ = ignore_ascii_case;
    let mut keys = Vec::new();
    text_keys(literal, &mut keys);
    keys.sort_unstable();
    keys.dedup();
    keys
}

#[inline(always)]
fn fold(byte: u8) -> u8 {
    byte | (u8::from(byte.wrapping_sub(b'A') < 26) << 5)
}

#[inline(always)]
fn mix(low: u32, high: u32) -> u32 {
    // Two odd multipliers and a shift: enough to make the order of grams arbitrary. Never 0, which
    // marks an empty place among the recent keys.
    let mixed = low.wrapping_mul(0x9E37_79B1) ^ high.wrapping_mul(0x85EB_CA77);
    (mixed ^ (mixed >> 15)).wrapping_mul(0x2C1B_3C6D) | 1
}

#[inline(always)]
fn every_key(text: &[u8], keys: &mut Vec<u32>) {
    if text.len() < NEEDLE_MIN {
        return;
    }
    let windows = text.len() - NEEDLE_MIN + 1;
    let mut recent = Recent { keys: [0; RECENT], last: 0 };
    let mut minima = [0u32; STEP];
    let mut start = 0;
    while start < windows {
        let count = (windows - start).min(STEP);
        let end = (start + count + NEEDLE_MIN - 1).min(text.len());
        window_minima(&text[start..end], &mut minima);
        recent.append_new(&minima[..count], keys);
        start += count;
    }
}

/// Minima of all whole windows of `text`, which is at most one step long. Positions after the last
/// whole window hold anything.
#[inline(always)]
fn window_minima(text: &[u8], minima: &mut [u32; STEP]) {
    let mut folded = [0u8; BYTES];
    for (to, from) in folded.iter_mut().zip(text) {
        *to = fold(*from);
    }
    let mut hashes = [0u32; HASHES + 22];
    hash_grams(&folded, &mut hashes);
    // Minima over 2, 4, 8 and then 11 hashes: each pass joins two windows of the pass before.
    let mut pairs = [0u32; HASHES + 21];
    for (at, pair) in pairs.iter_mut().enumerate() {
        *pair = hashes[at].min(hashes[at + 1]);
    }
    let mut fours = [0u32; HASHES + 19];
    for (at, four) in fours.iter_mut().enumerate() {
        *four = pairs[at].min(pairs[at + 2]);
    }
    let mut eights = [0u32; STEP + 16];
    for (at, eight) in eights.iter_mut().enumerate() {
        *eight = fours[at].min(fours[at + 4]);
    }
    for (at, minimum) in minima.iter_mut().enumerate() {
        *minimum = eights[at].min(eights[at + WINDOW - 8]);
    }
}

#[inline(always)]
fn hash_grams(folded: &[u8; BYTES], hashes: &mut [u32; HASHES + 22]) {
    for (at, hash) in hashes.iter_mut().enumerate() {
        let byte = |n: usize| u32::from(folded[at + n]);
        let low = byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
        let high = byte(4) | byte(5) << 8;
        *hash = mix(low, high);
    }
}

/// Leaves out keys that were met recently.
struct Recent {
    keys: [u32; RECENT],
    last: u32,
}

impl Recent {
    #[inline(always)]
    fn append_new(&mut self, minima: &[u32], keys: &mut Vec<u32>) {
        let mut changed = [0u32; STEP];
        let mut count = 0;
        let mut last = self.last;
        for &minimum in minima {
            changed[count % STEP] = minimum;
            count += usize::from(minimum != last);
            last = minimum;
        }
        self.last = last;
        let start = keys.len();
        keys.resize(start + count, 0);
        let mut kept = start;
        for &key in &changed[..count] {
            let slot = &mut self.keys[(key >> 3) as usize % RECENT];
            keys[kept] = key;
            kept += usize::from(*slot != key);
            *slot = key;
        }
        keys.truncate(kept);
    }
}
