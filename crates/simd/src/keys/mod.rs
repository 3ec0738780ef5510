//! Minimizers of folded grams: the keys of texts and needles.
//!
//! A gram is [`GRAM`] bytes, with letters folded to lower case. It is one of three kinds, in this order:
//! * 0, text: no digit;
//! * 1, mixed: a digit together with a character that cannot occur in an id; all digits count as `0`;
//! * 2, id: letters, digits and `-` only, with a digit.
//!
//! The hash of a gram begins with its kind, so a window selects an id gram only when it lies completely
//! within an id. Timestamps, durations and counters differ in every line, and no query searches for them
//! by substring; they produce keys that repeat from line to line, which halves the size of the filter.
//! Ids of [`NEEDLE_MIN`] characters and more keep all of their digits.
//!
//! A text is processed in steps whose arrays fit into the first-level cache: fold and classify bytes,
//! hash grams, take the minima of windows, keep those that change. The stages that compilers do not
//! vectorize have a second implementation for AVX2; both return the same keys.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod stages;
#[cfg(test)]
mod tests;
mod words;

pub use stages::{GRAM, NEEDLE_MIN, WINDOW};
use stages::{Portable, every_key};
pub use words::{WORD_GRAM, is_word_key, word_keys};

/// Whether a key is from an id, which few pages have.
pub fn is_id_key(key: u32) -> bool {
    key >> 30 == 2
}

/// Appends the keys of `text` to `keys`; most repetitions are omitted. Texts of less than [`NEEDLE_MIN`]
/// bytes have none.
pub fn text_keys(text: &[u8], keys: &mut Vec<u32>) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("popcnt") {
        // SAFETY: the function requires only these two features, and the processor has them.
        #[allow(unsafe_code)]
        unsafe {
            avx2::text_keys(text, keys)
        };
        return;
    }
    text_keys_portable(text, keys);
}

/// [`text_keys`] for every processor.
fn text_keys_portable(text: &[u8], keys: &mut Vec<u32>) {
    every_key::<Portable>(text, keys);
}

/// Returns the keys of a needle: minimizers, and grams of its words. A text that holds the needle has all
/// of them. Empty when the needle is too short to be tested.
///
/// With `ignore_ascii_case` the needle represents every text that is equal after folding ASCII letters.
/// The caller guarantees that its matching folds nothing else: Unicode also folds the Kelvin sign to `k`
/// and the long s to `s`, so a literal of a Unicode-aware pattern with `k` or `s` must not be passed.
/// Filters fold on both sides, so the keys are the same in both cases.
pub fn needle_keys(literal: &[u8], ignore_ascii_case: bool) -> Vec<u32> {
    let _ = ignore_ascii_case;
    let mut keys = Vec::new();
    text_keys(literal, &mut keys);
    word_keys(literal, &mut keys);
    keys.sort_unstable();
    keys.dedup();
    keys
}
