//! Counts of neighbouring samples that differ, from prefix counts of the series.

use sandur_memory::job::spend;
use sandur_query::Error;

use super::Floats;
use crate::functions::window::is_change;
use crate::run::Scratch;

pub fn changes(floats: &Floats<'_>, out: &mut Vec<f64>, scratch: &mut Scratch) -> Result<(), Error> {
    count(floats, out, scratch, is_change)
}

pub fn resets(floats: &Floats<'_>, out: &mut Vec<f64>, scratch: &mut Scratch) -> Result<(), Error> {
    count(floats, out, scratch, |before, value| value < before)
}

fn count(
    floats: &Floats<'_>,
    out: &mut Vec<f64>,
    scratch: &mut Scratch,
    differs: impl Fn(f64, f64) -> bool,
) -> Result<(), Error> {
    let values = floats.values;
    scratch.add(values.len() as u64 * 4)?;
    spend(values.len())?;
    let mut counts = Vec::with_capacity(values.len());
    let (mut count, mut before) = (0u32, values[0]);
    for value in values {
        count += u32::from(differs(before, *value));
        before = *value;
        counts.push(count);
    }
    out.extend(floats.windows().map(|(first, last)| f64::from(counts[last] - counts[first])));
    Ok(())
}
