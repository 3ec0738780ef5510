//! Jump consistent hashing (Lamping, Veach 2014), and the rehash with xorshift64* by which
//! carbon-c-relay finds the next replica.

/// Returns the bucket of a key among `buckets`, which is at least 1.
pub(crate) fn bucket(mut key: u64, buckets: usize) -> usize {
    let (mut bucket, mut next) = (0_i64, 0_i64);
    while next < buckets as i64 {
        bucket = next;
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        let scale = (1_u64 << 31) as f64 / ((key >> 33) + 1) as f64;
        next = ((bucket + 1) as f64 * scale) as i64;
    }
    bucket as usize
}

/// Returns the key of the next replica.
pub(crate) fn rehash(mut key: u64) -> u64 {
    key ^= key >> 12;
    key ^= key << 25;
    key ^= key >> 27;
    key.wrapping_mul(2_685_821_657_736_338_717)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_bucket_gets_keys_and_no_other_bucket_does() {
        for key in (0..2_000).map(rehash) {
            let (before, after) = (bucket(key, 9), bucket(key, 10));
            assert!(after == before || after == 9, "{key}: {before} to {after}");
        }
        assert_eq!(bucket(u64::MAX, 1), 0);
    }
}
