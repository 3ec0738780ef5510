//! Columns of numbers: constant, packed, classed (for skewed numbers), or differences; repetitions may be
//! removed first. The encoder estimates the size of each form and chooses the smallest.

use crate::codec::varint::{unzigzag, zigzag};
use crate::error::Error;

use super::bits::{BitReader, BitWriter};
use super::classed::{get_classed, put_classed};
use super::numbers::{class_of, entropy_bits, extra_bits};
use super::repeats::{ALL_NEW, Repeats, get_repeated};
use super::sink::Sink;
use super::source::Source;
use super::words::fold;

const CONSTANT: u8 = 0;
const PACKED: u8 = 1;
const CLASSED: u8 = 2;
const DIFFERENCES: u8 = 3;
/// Plus the kind of repetitions.
const REPEATED: u8 = 4;

/// Repetitions are searched for in columns of at least this many numbers and this many bits.
const MIN_REPEATED: usize = 32;
const MIN_REPEATED_WIDTH: u32 = 4;

/// Numbers of a large column that are sampled, in runs, to estimate its size.
const SAMPLE: usize = 512;
const SAMPLE_RUN: usize = 32;

/// Reusable memory of the number encoder.
#[derive(Default)]
pub(super) struct ColumnScratch {
    plane: Vec<u8>,
    different: Vec<u64>,
    repeats: Repeats,
}

/// Bounds of the numbers, and estimates of the bits that they take.
struct Survey {
    min: u64,
    width: u32,
    packed: u64,
    classed: u64,
    differences: u64,
}

/// Returns the bits of numbers with these classes if there are `scale` / 256 times as many.
fn classed_bits(counts: &[u32], scale: u64) -> u64 {
    let (mut extra, mut total, mut symbols) = (0, 0, 0);
    for (class, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        extra += u64::from(extra_bits(class as u8)) * u64::from(count);
        total += u64::from(count);
        symbols += 1;
    }
    // A Huffman code takes at least a fraction of a bit per symbol, and about five bits to describe a
    // symbol.
    (entropy_bits(counts).max(total / 4) + extra) * scale / 256 + symbols * 5
}

fn survey(numbers: &[u64]) -> Survey {
    let min = numbers.iter().copied().min().unwrap_or(0);
    let max = numbers.iter().copied().max().unwrap_or(0);
    let width = 64 - (max - min).leading_zeros();
    let packed = u64::from(width) * numbers.len() as u64;
    if width == 0 {
        return Survey { min, width, packed, classed: 0, differences: 0 };
    }
    let (mut plain, mut differences) = ([0; 256], [0; 256]);
    let mut largest = 0;
    let runs = (numbers.len() / SAMPLE).max(1);
    let mut seen = 0;
    for run in numbers.chunks(SAMPLE_RUN).step_by(runs) {
        let mut last = run[0];
        for &number in run {
            plain[class_of(number - min) as usize] += 1;
            let difference = zigzag(number.wrapping_sub(last) as i64);
            differences[class_of(difference) as usize] += 1;
            largest |= difference;
            last = number;
        }
        seen += run.len() as u64;
    }
    let scale = numbers.len() as u64 * 256 / seen;
    let counted = |largest: u64| 0..usize::from(class_of(largest)) + 1;
    let classed = classed_bits(&plain[counted(max - min)], scale);
    let differences = classed_bits(&differences[counted(largest)], scale);
    Survey { min, width, packed, classed, differences }
}

/// Appends a column of numbers; the reader knows how many.
pub(super) fn put_numbers(numbers: &[u64], scratch: &mut ColumnScratch, sink: &mut Sink) {
    if numbers.is_empty() {
        return;
    }
    let survey = survey(numbers);
    let worth_it = numbers.len() >= MIN_REPEATED && survey.width >= MIN_REPEATED_WIDTH;
    if !worth_it || !put_repeated(numbers, &survey, scratch, sink) {
        put_plain(numbers, &survey, &mut scratch.plane, sink);
    }
}

fn put_repeated(numbers: &[u64], all: &Survey, scratch: &mut ColumnScratch, sink: &mut Sink) -> bool {
    let ColumnScratch { plane, different, repeats } = scratch;
    let found = repeats.find(numbers.len(), |i| fold(0, numbers[i]), |a, b| numbers[a] == numbers[b]);
    let Some(choice) = found else { return false };
    different.clear();
    different.extend(repeats.firsts().map(|at| numbers[at]));
    let rest = survey(different);
    let smallest = |s: &Survey| s.packed.min(s.classed).min(s.differences);
    // Repetitions cost time to read: they must save more than a little.
    let limit = smallest(all) - smallest(all) / 32;
    if choice.bits + smallest(&rest) + 64 >= limit {
        return false;
    }
    sink.directory.push(REPEATED + choice.tag);
    repeats.put(choice, plane, sink);
    put_plain(different, &rest, plane, sink);
    true
}

fn put_plain(numbers: &[u64], survey: &Survey, plane: &mut Vec<u8>, sink: &mut Sink) {
    let skewed = survey.classed.min(survey.differences);
    if survey.width == 0 {
        sink.directory.push(CONSTANT);
        sink.put(survey.min);
    } else if survey.packed <= skewed + skewed / 32 {
        sink.directory.push(PACKED);
        sink.put(survey.min);
        sink.directory.push(survey.width as u8);
        let mut bits = BitWriter::new(&mut sink.bits);
        numbers.iter().for_each(|&number| bits.put(number - survey.min, survey.width));
        bits.finish();
    } else if survey.classed <= survey.differences {
        sink.directory.push(CLASSED);
        sink.put(survey.min);
        put_classed(numbers.iter().map(|&number| number - survey.min), plane, sink);
    } else {
        sink.directory.push(DIFFERENCES);
        sink.put(numbers[0]);
        let differences = numbers.windows(2).map(|pair| zigzag(pair[1].wrapping_sub(pair[0]) as i64));
        put_classed(differences, plane, sink);
    }
}

/// Reads a column of `len` numbers and appends them to `out`. The caller bounds `len`.
pub(super) fn get_numbers(len: usize, source: &mut Source<'_>, out: &mut Vec<u64>) -> Result<(), Error> {
    if len == 0 {
        return Ok(());
    }
    let kind = source.directory.u8()?;
    if kind > REPEATED + ALL_NEW {
        return get_repeated(kind - REPEATED, len, source, out, |source, len, out| {
            let kind = if len == 0 { CONSTANT } else { source.directory.u8()? };
            get_plain(kind, len, source, out)
        });
    }
    get_plain(kind, len, source, out)
}

fn get_plain(kind: u8, len: usize, source: &mut Source<'_>, out: &mut Vec<u64>) -> Result<(), Error> {
    out.reserve(len);
    match kind {
        _ if len == 0 => {}
        CONSTANT => {
            let number = source.directory.varint()?;
            out.resize(out.len() + len, number);
        }
        PACKED => {
            let min = source.directory.varint()?;
            let width = u32::from(source.directory.u8()?);
            if width > 64 {
                return Err(source.directory.malformed("packed numbers have more than 64 bits"));
            }
            let mut bits = BitReader::new(source.bits.bytes((len * width as usize).div_ceil(8))?);
            out.extend((0..len).map(|_| min.wrapping_add(bits.get(width))));
        }
        CLASSED => {
            let min = source.directory.varint()?;
            get_classed(len, source, |number| out.push(min.wrapping_add(number)))?;
        }
        DIFFERENCES => {
            let mut last = source.directory.varint()?;
            out.push(last);
            get_classed(len - 1, source, |difference| {
                last = last.wrapping_add(unzigzag(difference) as u64);
                out.push(last);
            })?;
        }
        _ => return Err(source.directory.malformed("unknown kind of number column")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes that a column takes, after checking that it round-trips.
    fn stored(numbers: &[u64]) -> usize {
        let mut sink = Sink::default();
        put_numbers(numbers, &mut ColumnScratch::default(), &mut sink);
        let mut bytes = Vec::new();
        sink.finish(&mut bytes);
        let streams = super::super::source::Streams::read(&bytes.clone().into(), 1 << 20).unwrap();
        let mut source = streams.source(&([0; 5]..streams.end(0)));
        assert_eq!(source.directory.u8().unwrap(), 0, "no pools");
        let mut out = vec![7];
        get_numbers(numbers.len(), &mut source, &mut out).unwrap();
        assert_eq!(out[1..], *numbers);
        source.finish().unwrap();
        bytes.len()
    }

    fn mixed(n: u64) -> u64 {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    #[test]
    fn every_kind_of_column_is_small_and_round_trips() {
        let many = |f: &dyn Fn(u64) -> u64| -> Vec<u64> { (0..10_000).map(f).collect() };
        assert!(stored(&[]) < 40);
        assert!(stored(&many(&|_| u64::MAX)) < 60, "constant");
        assert!(stored(&many(&|n| 50_000 + mixed(n) % 1_000)) < 12_700, "even: ten bits each");
        assert!(stored(&many(&|n| n * 1_000 + mixed(n) % 16)) < 13_000, "rising");
        assert!(stored(&many(&|n| 1 << (mixed(n) % 40 * (mixed(n + 77) % 2)))) < 8_000, "skewed");
        assert!(stored(&many(&|n| mixed(mixed(n) % 50))) < 8_500, "few different");
        assert!(stored(&many(&|n| mixed(n / 3 + mixed(n) % 2))) < 40_000, "repeated soon");
        stored(&many(&mixed));
        stored(&[u64::MAX, 0, u64::MAX, 1]);
    }
}
