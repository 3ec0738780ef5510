//! Holdings: the blocks and spans of heads that contain the rows of a time range. They determine whether
//! a result may have changed, and where a query can be split in time without reading data twice.
//!
//! **Invariant.** If the versions of all holdings that touch a time range are the same at two instants,
//! then every query over the range has the same result throughout the time between them.

use sandur_model::{DAY_NS, TimeRange};
use xxhash_rust::xxh3::xxh3_128;

/// A block, or a span of a head, with rows of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// A lower bound of its timestamps, in nanoseconds since the epoch, inclusive.
    pub first: i64,
    /// An upper bound of its timestamps, inclusive.
    pub last: i64,
    /// Identifies this state of this holding: differs from every other state and every other holding, and is
    /// a hash or a sum of hashes, because versions are added ([`add_versions`]).
    pub version: u128,
    /// Raw bytes of its rows.
    pub bytes: u64,
    /// The first and last instant of the block that it is a part of; its own ones if it is a block or a span
    /// of a head.
    pub block: (i64, i64),
}

/// The most candidates for cuts; the distance between candidates is increased to stay below it.
const CANDIDATES_MAX: i64 = 4_096;

/// Adds to each of `sums` the versions of the holdings that touch its reach, multiplied by a number of the
/// salt. The starts and the ends of `reaches` must rise. `salt` distinguishes several reaches that contribute
/// to the same sum. If several holdings are replaced by one with the sum of their versions, then sums of
/// reaches that touch all of them stay the same.
pub fn add_versions(holdings: &[Holding], reaches: &[TimeRange], salt: u64, sums: &mut [u128]) {
    // The change of the sum at each reach: a holding costs two additions, however many reaches it
    // touches.
    let mut changes = vec![0u128; reaches.len() + 1];
    let factor = xxh3_128(&salt.to_le_bytes()) | 1;
    for holding in holdings {
        let begin = reaches.partition_point(|reach| reach.end <= holding.first);
        let end = reaches.partition_point(|reach| reach.start <= holding.last);
        if begin < end {
            let version = holding.version.wrapping_mul(factor);
            changes[begin] = changes[begin].wrapping_add(version);
            changes[end] = changes[end].wrapping_sub(version);
        }
    }
    let mut state = 0u128;
    for (sum, change) in sums.iter_mut().zip(changes) {
        state = state.wrapping_add(change);
        *sum = sum.wrapping_add(state);
    }
}

/// Instants at which the range can be split such that no block of a day or less is split. They are
/// multiples of `interval`. Each part is at least `length_min` long, and contains at least
/// `bytes_min(n)` raw bytes, where `n` is the number of the part, if enough data remains. Parts are
/// counted from the end of the range when `newest_first`. The instants are in the order of the parts; an
/// instant belongs to the part after it in time.
pub fn cuts(
    holdings: &[Holding],
    range: TimeRange,
    (interval, length_min): (i64, i64),
    newest_first: bool,
    bytes_min: impl Fn(usize) -> u64,
) -> Vec<i64> {
    let (first, last) = held(holdings, range);
    if interval <= 0 || first >= last {
        return Vec::new();
    }
    let fewest = last.saturating_sub(first) / interval / CANDIDATES_MAX + 1;
    let interval = interval.saturating_mul(fewest);
    let base = first.div_euclid(interval);
    let slot = |at: i64| (at.clamp(first, last).div_euclid(interval) - base) as usize;
    let slots = slot(last) + 1;
    let mut bytes = vec![0u64; slots];
    let mut crossed = vec![0i64; slots + 1];
    for holding in holdings.iter().filter(|h| range.touches(h.first, h.last)) {
        let (from, to) = (slot(holding.block.0), slot(holding.block.1));
        bytes[slot(holding.first)] += holding.bytes;
        // A block longer than a day has few rows of each day, so both parts may read it.
        if holding.block.1.saturating_sub(holding.block.0) <= DAY_NS {
            // Cut number n is the boundary before slot n.
            crossed[from + 1] += 1;
            crossed[to + 1] -= 1;
        }
    }
    let mut open = 0;
    let is_free: Vec<bool> = crossed
        .iter()
        .map(|change| {
            open += change;
            open == 0
        })
        .collect();
    let order: Vec<usize> = if newest_first { (1..slots).rev().collect() } else { (1..slots).collect() };
    let mut found = Vec::new();
    let mut before = if newest_first { last } else { first };
    let mut gathered = 0u64;
    for n in order {
        gathered += bytes[if newest_first { n } else { n - 1 }];
        let at = (base + n as i64).saturating_mul(interval);
        let is_long = at.abs_diff(before) >= length_min.unsigned_abs();
        if is_free[n] && is_long && gathered >= bytes_min(found.len()).max(1) {
            found.push(at);
            (before, gathered) = (at, 0);
        }
    }
    found
}

/// The first and last instant in the range that holdings cover.
fn held(holdings: &[Holding], range: TimeRange) -> (i64, i64) {
    let inside = holdings.iter().filter(|h| range.touches(h.first, h.last));
    let (first, last) =
        inside.fold((i64::MAX, i64::MIN), |(first, last), h| (first.min(h.first), last.max(h.last)));
    (first.max(range.start), last.min(range.end.saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(first: i64, last: i64, version: u128) -> Holding {
        Holding { first, last, version, bytes: 10, block: (first, last) }
    }

    fn sums(holdings: &[Holding]) -> Vec<u128> {
        let reaches: Vec<TimeRange> = (0..6).map(|n| TimeRange::inclusive(n * 10 - 4, n * 10 + 9)).collect();
        let mut sums = vec![0; reaches.len()];
        add_versions(holdings, &reaches, 7, &mut sums);
        sums
    }

    /// Goal: exactly the sums of the reaches that a holding touches change with it, in any order of
    /// holdings.
    #[test]
    fn versions_change_where_a_holding_touches() {
        let base = [holding(0, 5, 1), holding(12, 33, 2), holding(40, 41, 3)];
        let before = sums(&base);
        assert_eq!(sums(&[base[2], base[0], base[1]]), before);
        for (first, last) in [(6, 6), (5, 5), (10, 15), (16, 16), (-9, 99), (60, 70), (-9, -5), (59, 59)] {
            let after = sums(&[base[0], base[1], base[2], holding(first, last, 4)]);
            for n in 0..6 {
                let touches = first <= n as i64 * 10 + 9 && last >= n as i64 * 10 - 4;
                assert_eq!(after[n] != before[n], touches, "{first}..={last} reach {n}");
            }
        }
    }

    #[test]
    fn cuts_do_not_split_blocks_and_parts_have_enough_bytes() {
        let hour = |n: i64| holding(n * 60, n * 60 + 59, n as u128);
        let hours: Vec<Holding> = (0..6).map(hour).collect();
        let all = TimeRange::new(0, 360);
        assert_eq!(cuts(&hours, all, (60, 0), false, |_| 1), [60, 120, 180, 240, 300]);
        assert_eq!(cuts(&hours, all, (60, 0), true, |_| 1), [300, 240, 180, 120, 60]);
        assert_eq!(cuts(&hours, all, (60, 0), false, |_| 20), [120, 240]);
        assert_eq!(cuts(&hours, all, (60, 0), true, |n| 10 << n), [300, 180]);
        assert_eq!(cuts(&hours, all, (60, 150), false, |_| 1), [180]);
        assert_eq!(cuts(&hours, TimeRange::new(70, 130), (60, 0), false, |_| 1), [120]);
        assert!(cuts(&hours, all, (0, 0), false, |_| 1).is_empty());
        let mut days = hours.clone();
        days.push(holding(60, 239, 9));
        assert_eq!(cuts(&days, all, (60, 0), false, |_| 1), [60, 240, 300]);
        days.push(holding(-5, 2 * DAY_NS, 10));
        assert_eq!(cuts(&days, all, (60, 0), false, |_| 1), [60, 240, 300], "a long block may be split");
        let parts =
            [(0, 29), (30, 119)].map(|part| Holding { block: (0, 119), ..holding(part.0, part.1, 1) });
        assert_eq!(
            cuts(&[parts[0], parts[1], hours[2]], TimeRange::new(0, 180), (60, 0), false, |_| 1),
            [120]
        );
        let wide = [holding(0, 1, 1), holding(i64::MAX - 1, i64::MAX, 2)];
        assert!(cuts(&wide, TimeRange::ALL, (1, 0), false, |_| 1).len() <= 1);
    }
}
