//! Grams of words: keys of needles that are too short for a minimizer, like `error`.
//!
//! A gram is [`WORD_GRAM`] consecutive letters, folded to lower case; each is a key of kind 3 of the
//! text. Numbers and ids have few such grams, and words repeat from line to line, so these keys are a
//! small part of a filter although all of them are kept.

/// Letters per gram, and of the shortest word that can be tested.
pub const WORD_GRAM: usize = 5;

/// The highest two bits of such a key; minimizers have the other three values there.
const KIND: u32 = 3;
/// The last [`WORD_GRAM`] bytes of a shift register.
const GRAM_MASK: u64 = (1 << (8 * WORD_GRAM)) - 1;
/// Multiplier of the hash; part of the format.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
/// Size of a direct-mapped memory of recent grams: a gram that it holds is not repeated.
const RECENT: usize = 4096;

/// Whether a key is a gram of a word.
pub fn is_word_key(key: u32) -> bool {
    key >> 30 == KIND
}

/// Appends the grams of words in `text` to `keys`; most repetitions are left out.
pub fn word_keys(text: &[u8], keys: &mut Vec<u32>) {
    let mut recent = [0u32; RECENT];
    let (mut gram, mut letters) = (0u64, 0usize);
    for &byte in text {
        let low = byte | 0x20;
        if low.wrapping_sub(b'a') >= 26 {
            letters = 0;
            continue;
        }
        gram = (gram << 8 | u64::from(low)) & GRAM_MASK;
        letters += 1;
        if letters >= WORD_GRAM {
            let key = KIND << 30 | (gram.wrapping_mul(MULTIPLIER) >> 34) as u32;
            let slot = &mut recent[key as usize % RECENT];
            if *slot != key {
                *slot = key;
                keys.push(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_five_letters_have_keys_in_any_case() {
        let keys = |text: &str| {
            let mut keys = Vec::new();
            word_keys(text.as_bytes(), &mut keys);
            keys
        };
        assert_eq!(keys("fail 12345 a-b-c-d-e é"), []);
        assert_eq!(keys("Error"), keys("eRROR"));
        assert_eq!(keys("errors").len(), 2);
        assert_eq!(keys("error error").len(), 1);
        assert!(keys("my_errors").contains(&keys("error")[0]));
        assert!(keys("timeout").iter().all(|key| is_word_key(*key)));
    }
}
