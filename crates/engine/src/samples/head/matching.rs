//! Finds the series of a head that match.
//!
//! Matchers for one value use its postings. Other matchers test the label's values, each once and
//! without a lock, because users control the cost of regular expressions; or the values of the remaining
//! series, if these are not many more. Of the postings of the values that pass, only those of the remaining
//! series are joined.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use foldhash::fast::RandomState;
use roaring::RoaringBitmap;
use sandur_memory::job;
use sandur_model::{MatchOp, Matcher};

use super::postings::Postings;
use super::table::{SeriesTable, Snapshot};

/// If fewer series than this many per value remain, testing them is faster than testing the values and
/// joining their postings.
const SERIES_OF_VALUE: u64 = 8;

/// A matcher that is not for one value, the number of its label, and the number of the label's values.
struct Asked<'a> {
    matcher: &'a Matcher,
    name: Option<u32>,
    values: usize,
}

/// Returns the matching series, and a snapshot of all series.
pub(super) fn matching(table: &RwLock<SeriesTable>, matchers: &[Matcher]) -> (Snapshot, RoaringBitmap) {
    let read = || table.read().unwrap_or_else(PoisonError::into_inner);
    let (snapshot, mut found, mut asked) = {
        let table = read();
        let found = of_single_values(&table, matchers);
        let others = matchers.iter().filter(|matcher| !is_for_one_value(matcher));
        let asked: Vec<Asked<'_>> = others.map(|matcher| ask(&table, matcher)).collect();
        (table.snapshot(), found, asked)
    };
    asked.sort_by_key(|asked| asked.values);
    for Asked { matcher, name, values } in asked {
        if found.is_empty() {
            break;
        }
        let empty_passes = matcher.matches_empty();
        if found.len() < values as u64 * SERIES_OF_VALUE {
            keep_passing(&snapshot, matcher, name, &mut found);
            continue;
        }
        // Values that were added meanwhile belong to series that are not in the snapshot.
        let is_known = |value: &u32| (*value as usize) < snapshot.texts.len();
        let mut values: Vec<u32> = {
            let table = read();
            let all = name.into_iter().flat_map(|name| table.index().values(name));
            all.map(|(value, _)| value).filter(is_known).collect()
        };
        // If series without the label match, collect the values that do not match; otherwise those that
        // match.
        values.retain(|value| {
            let text = snapshot.texts.get(*value);
            job::spend(text.len()).is_ok() && matcher.matches(text) != empty_passes
        });
        let of_values = match name {
            Some(name) => joined(&read(), (name, &values), &found),
            None => Joined::Some(RoaringBitmap::new()),
        };
        match (of_values, empty_passes) {
            (Joined::All, true) => found.clear(),
            (Joined::All, false) => {}
            (Joined::Some(some), true) => found -= some,
            (Joined::Some(some), false) => found &= some,
        }
    }
    // Series that were added meanwhile are not in the snapshot.
    found.remove_range(snapshot.len() as u32..);
    (snapshot, found)
}

/// The series of some values of a label.
enum Joined {
    /// All series of the table.
    All,
    /// Those of the given series that have one of the values, and maybe others.
    Some(RoaringBitmap),
}

/// Joins the postings of some values of a label, as far as they are among these series.
fn joined(table: &SeriesTable, (name, values): (u32, &[u32]), series: &RoaringBitmap) -> Joined {
    let postings = || values.iter().filter_map(|value| table.index().postings(name, *value));
    // A series has one value of a label.
    if postings().map(Postings::len).sum::<u64>() == table.len() as u64 {
        return Joined::All;
    }
    let mut some = RoaringBitmap::new();
    match series.len() * 2 > table.len() as u64 {
        true => postings().for_each(|postings| postings.add_to(&mut some)),
        false => postings().for_each(|postings| postings.add_those_in(series, &mut some)),
    }
    Joined::Some(some)
}

/// Whether the postings of one value decide a matcher.
fn is_for_one_value(matcher: &Matcher) -> bool {
    matches!(matcher.op(), MatchOp::Equal | MatchOp::NotEqual) && !matcher.value().is_empty()
}

/// The series that match all matchers for one value.
fn of_single_values(table: &SeriesTable, matchers: &[Matcher]) -> RoaringBitmap {
    let postings = |matcher: &Matcher| {
        let (name, value) = (table.symbols().find(matcher.name())?, table.symbols().find(matcher.value())?);
        table.index().postings(name, value)
    };
    let (mut wanted, mut unwanted) = (Vec::new(), Vec::new());
    for matcher in matchers.iter().filter(|matcher| is_for_one_value(matcher)) {
        match (matcher.op(), postings(matcher)) {
            (MatchOp::Equal, None) => return RoaringBitmap::new(),
            (MatchOp::Equal, Some(found)) => wanted.push(found),
            (_, found) => unwanted.extend(found),
        }
    }
    wanted.sort_by_key(|postings| postings.len());
    let mut found = RoaringBitmap::new();
    match wanted.first() {
        Some(fewest) => fewest.add_to(&mut found),
        None => drop(found.insert_range(0..table.len() as u32)),
    }
    wanted.iter().skip(1).for_each(|postings| postings.keep_in(&mut found));
    unwanted.iter().for_each(|postings| postings.take_from(&mut found));
    found
}

fn ask<'a>(table: &SeriesTable, matcher: &'a Matcher) -> Asked<'a> {
    let name = table.symbols().find(matcher.name());
    let values = name.map_or(0, |name| table.index().value_count(name));
    Asked { matcher, name, values }
}

/// Tests the remaining series, and each value once.
fn keep_passing(snapshot: &Snapshot, matcher: &Matcher, name: Option<u32>, found: &mut RoaringBitmap) {
    let mut known: HashMap<u32, bool, RandomState> = HashMap::default();
    let mut passes = |series: u32| match name.and_then(|name| snapshot.value(series, name)) {
        None => matcher.matches_empty(),
        Some(value) => *known.entry(value).or_insert_with(|| {
            let text = snapshot.texts.get(value);
            job::spend(text.len()).is_ok() && matcher.matches(text)
        }),
    };
    // A series that was added after the snapshot may be in the set.
    let within = found.iter().take_while(|series| (*series as usize) < snapshot.len());
    *found = within.filter(|series| passes(*series)).collect();
}
