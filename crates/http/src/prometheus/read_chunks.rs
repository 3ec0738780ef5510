//! Encodes chunks of samples as Prometheus's clients decode them: floats by XOR, native histograms by
//! columns of XOR, each after a timestamp that is written as a second difference.
//!
//! A chunk has at most [`CHUNK_SAMPLES`] samples. A chunk of histograms has histograms of one layout
//! without a counter reset between them.

use std::ops::Range;

use sandur_model::histogram::{Buckets, CounterReset};
use sandur_model::{FloatHistogram, is_stale};

/// Maximum number of samples of a chunk.
pub const CHUNK_SAMPLES: usize = 120;

/// The type of a chunk; its number in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkKind {
    /// Floats.
    Xor = 1,
    /// Histograms with float counts.
    FloatHistogram = 3,
}

/// An encoded chunk.
pub struct Chunk {
    /// Timestamps of the first and the last sample, milliseconds.
    pub bounds_ms: (i64, i64),
    /// Its type.
    pub kind: ChunkKind,
    /// Its encoding.
    pub bytes: Vec<u8>,
}

/// Writes bits, the most significant bit of a byte first.
struct Bits {
    bytes: Vec<u8>,
    /// Unused bits of the last byte.
    free: u32,
}

impl Bits {
    fn put(&mut self, value: u64, mut count: u32) {
        while count > 0 {
            if self.free == 0 {
                self.bytes.push(0);
                self.free = 8;
            }
            let part = self.free.min(count);
            let bits = (value >> (count - part)) & ((1 << part) - 1);
            if let Some(last) = self.bytes.last_mut() {
                *last |= (bits as u8) << (self.free - part);
            }
            self.free -= part;
            count -= part;
        }
    }

    fn put_varint(&mut self, value: u64) {
        let mut rest = value;
        while rest >= 0x80 {
            self.put((rest & 0x7F) | 0x80, 8);
            rest >>= 7;
        }
        self.put(rest, 8);
    }

    /// Writes an integer with one of nine sizes, each with a prefix of its own.
    fn put_sized(&mut self, value: u64, fits: impl Fn(u32) -> bool) {
        const SIZES: [u32; 7] = [3, 6, 9, 12, 18, 25, 56];
        if value == 0 {
            return self.put(0, 1);
        }
        for (n, size) in SIZES.into_iter().enumerate() {
            if fits(size) {
                let ones = n as u32 + 1;
                self.put((1 << (ones + 1)) - 2, ones + 1);
                return self.put(value, size);
            }
        }
        self.put(0xFF, 8);
        self.put(value, 64);
    }

    fn put_signed(&mut self, value: i64) {
        self.put_sized(value as u64, |size| fits(value, size));
    }

    fn put_unsigned(&mut self, value: u64) {
        self.put_sized(value, |size| value >> size == 0);
    }
}

/// Whether a number can be written with `bits` bits.
fn fits(value: i64, bits: u32) -> bool {
    let half = 1i64 << (bits - 1);
    (1 - half..=half).contains(&value)
}

/// A column of floats: each is written as the XOR with the one before.
#[derive(Clone, Copy)]
struct Column {
    before: u64,
    /// Leading and trailing zeros of the window in use.
    window: Option<(u32, u32)>,
}

impl Column {
    fn new(first: f64) -> Self {
        Self { before: first.to_bits(), window: None }
    }

    fn put(&mut self, bits: &mut Bits, value: f64) {
        let changed = self.before ^ value.to_bits();
        self.before = value.to_bits();
        if changed == 0 {
            return bits.put(0, 1);
        }
        bits.put(1, 1);
        // The number of leading zeros has five bits.
        let (leading, trailing) = (changed.leading_zeros().min(31), changed.trailing_zeros());
        match self.window {
            Some((first, last)) if leading >= first && trailing >= last => {
                bits.put(0, 1);
                bits.put(changed >> last, 64 - first - last);
            }
            _ => {
                let count = 64 - leading - trailing;
                self.window = Some((leading, trailing));
                bits.put(1, 1);
                bits.put(u64::from(leading), 5);
                // 64 does not fit into six bits and is written as 0, which does not occur otherwise.
                bits.put(u64::from(count & 63), 6);
                bits.put(changed >> trailing, count);
            }
        }
    }
}

/// Encodes the floats of a series.
pub fn floats(times: &[i64], values: &[f64]) -> Vec<Chunk> {
    let chunks = times.chunks(CHUNK_SAMPLES).zip(values.chunks(CHUNK_SAMPLES));
    chunks.map(|(times, values)| float_chunk(times, values)).collect()
}

fn float_chunk(times: &[i64], values: &[f64]) -> Chunk {
    let mut bits = Bits { bytes: (times.len() as u16).to_be_bytes().to_vec(), free: 0 };
    let (mut before, mut step) = (0i64, 0i64);
    let mut column = Column::new(0.0);
    for (n, (time, value)) in times.iter().zip(values).enumerate() {
        match n {
            0 => {
                bits.put_varint(((time << 1) ^ (time >> 63)) as u64);
                bits.put(value.to_bits(), 64);
                column = Column::new(*value);
            }
            1 => {
                step = time.wrapping_sub(before);
                bits.put_varint(step as u64);
                column.put(&mut bits, *value);
            }
            _ => {
                let new = time.wrapping_sub(before);
                put_change(&mut bits, new.wrapping_sub(step));
                step = new;
                column.put(&mut bits, *value);
            }
        }
        before = *time;
    }
    let bounds_ms = (times[0], times[times.len() - 1]);
    Chunk { bounds_ms, kind: ChunkKind::Xor, bytes: bits.bytes }
}

/// Writes the second difference of the timestamps.
fn put_change(bits: &mut Bits, change: i64) {
    match change {
        0 => bits.put(0, 1),
        change if fits(change, 14) => {
            bits.put(0b10, 2);
            bits.put(change as u64, 14);
        }
        change if fits(change, 17) => {
            bits.put(0b110, 3);
            bits.put(change as u64, 17);
        }
        change if fits(change, 20) => {
            bits.put(0b1110, 4);
            bits.put(change as u64, 20);
        }
        change => {
            bits.put(0b1111, 4);
            bits.put(change as u64, 64);
        }
    }
}

/// Encodes the histograms of a series.
pub fn histograms<H: AsRef<FloatHistogram>>(times: &[i64], histograms: &[H]) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    let mut start = 0;
    for n in 1..=histograms.len() {
        let goes_on = n < histograms.len()
            && n - start < CHUNK_SAMPLES
            && is_same_chunk(histograms[n - 1].as_ref(), histograms[n].as_ref());
        if !goes_on {
            chunks.push(histogram_chunk(times, histograms, start..n));
            start = n;
        }
    }
    chunks
}

/// Whether two histograms can be in one chunk, so that decoding returns both unchanged.
fn is_same_chunk(before: &FloatHistogram, next: &FloatHistogram) -> bool {
    if is_stale(before.sum) || is_stale(next.sum) {
        return is_stale(before.sum) && is_stale(next.sum);
    }
    let is_gauge = |of: &FloatHistogram| of.reset == CounterReset::Gauge;
    let no_reset = match next.reset {
        CounterReset::Gauge | CounterReset::NotReset => true,
        CounterReset::Reset => false,
        CounterReset::Unknown => !next.detect_reset(before),
    };
    let layout = |of: &FloatHistogram| {
        (of.schema, of.zero_threshold.to_bits(), of.positive.spans(), of.negative.spans())
    };
    is_gauge(before) == is_gauge(next)
        && no_reset
        && layout(before) == layout(next)
        && before
            .bounds
            .iter()
            .map(|bound| bound.to_bits())
            .eq(next.bounds.iter().map(|bound| bound.to_bits()))
}

fn histogram_chunk<H: AsRef<FloatHistogram>>(times: &[i64], all: &[H], of: Range<usize>) -> Chunk {
    let first = all[of.start].as_ref();
    let flags = match first.reset {
        CounterReset::Unknown => 0,
        CounterReset::NotReset => 0b0100_0000,
        CounterReset::Reset => 0b1000_0000,
        CounterReset::Gauge => 0b1100_0000,
    };
    let mut bytes = (of.len() as u16).to_be_bytes().to_vec();
    bytes.push(flags);
    let mut bits = Bits { bytes, free: 0 };
    let is_end = is_stale(first.sum);
    put_layout(&mut bits, first, is_end);
    let values = |of: &FloatHistogram| -> Vec<f64> {
        let numbers = if is_end { [0.0, 0.0, of.sum] } else { [of.count, of.zero_count, of.sum] };
        let buckets = [&of.positive, &of.negative].into_iter().filter(|_| !is_end);
        numbers
            .into_iter()
            .chain(buckets.flat_map(|buckets| buckets.iter().map(|(_, count)| count)))
            .collect()
    };
    let mut columns: Vec<Column> = Vec::new();
    let (mut before, mut step) = (0i64, 0i64);
    for n in of.clone() {
        let (time, values) = (times[n], values(all[n].as_ref()));
        if n == of.start {
            bits.put_signed(time);
            values.iter().for_each(|value| bits.put(value.to_bits(), 64));
            columns = values.into_iter().map(Column::new).collect();
        } else {
            let new = time.wrapping_sub(before);
            bits.put_signed(new.wrapping_sub(step));
            step = new;
            columns.iter_mut().zip(values).for_each(|(column, value)| column.put(&mut bits, value));
        }
        before = time;
    }
    let bounds_ms = (times[of.start], times[of.end - 1]);
    Chunk { bounds_ms, kind: ChunkKind::FloatHistogram, bytes: bits.bytes }
}

/// Writes schema, zero threshold, spans and bounds; for a stale marker an empty layout.
fn put_layout(bits: &mut Bits, of: &FloatHistogram, is_end: bool) {
    put_threshold(bits, if is_end { 0.0 } else { of.zero_threshold });
    bits.put_signed(if is_end { 0 } else { i64::from(of.schema) });
    let none = Buckets::default();
    for buckets in [&of.positive, &of.negative] {
        let spans = if is_end { none.spans() } else { buckets.spans() };
        bits.put_unsigned(spans.len() as u64);
        for span in spans {
            bits.put_unsigned(u64::from(span.length));
            bits.put_signed(i64::from(span.offset));
        }
    }
    if of.is_custom() && !is_end {
        bits.put_unsigned(of.bounds.len() as u64);
        of.bounds.iter().for_each(|bound| put_bound(bits, *bound));
    }
}

/// Writes a zero threshold. Powers of two take one byte.
fn put_threshold(bits: &mut Bits, threshold: f64) {
    if threshold == 0.0 {
        return bits.put(0, 8);
    }
    let (raw, mantissa) = (threshold.to_bits(), threshold.to_bits() & ((1 << 52) - 1));
    // The mantissa is in [0.5, 1), as for C's `frexp`.
    let exponent = ((raw >> 52) & 0x7FF) as i64 - 1_022;
    if mantissa != 0 || threshold < 0.0 || !(-242..=11).contains(&exponent) {
        bits.put(255, 8);
        return bits.put(raw, 64);
    }
    bits.put((exponent + 243) as u64, 8);
}

/// Writes a custom bound. Multiples of 0.001 take few bits.
fn put_bound(bits: &mut Bits, bound: f64) {
    const MOST: f64 = 33_554_430.0;
    let thousandths = (bound * 1_000.0).round();
    if (0.0..=MOST).contains(&(bound * 1_000.0)) && thousandths / 1_000.0 == bound {
        bits.put_unsigned(thousandths as u64 + 1);
    } else {
        bits.put(0, 1);
        bits.put(bound.to_bits(), 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes what [`Bits`] wrote.
    struct Reading<'a>(&'a [u8], usize);

    impl Reading<'_> {
        fn bits(&mut self, count: u32) -> u64 {
            (0..count).fold(0, |value, _| {
                let bit = self.0[self.1 / 8] >> (7 - self.1 % 8) & 1;
                self.1 += 1;
                value << 1 | u64::from(bit)
            })
        }

        fn varint(&mut self) -> u64 {
            let (mut value, mut shift) = (0, 0);
            loop {
                let byte = self.bits(8);
                value |= (byte & 0x7F) << shift;
                shift += 7;
                if byte < 0x80 {
                    return value;
                }
            }
        }

        fn signed(&mut self, count: u32) -> i64 {
            let value = self.bits(count) as i64;
            if count < 64 && value > 1 << (count - 1) { value - (1 << count) } else { value }
        }

        fn ones(&mut self, most: u32) -> u32 {
            (0..most).take_while(|_| self.bits(1) == 1).count() as u32
        }

        fn xor(&mut self, before: u64, window: &mut (u32, u32)) -> u64 {
            if self.bits(1) == 0 {
                return before;
            }
            if self.bits(1) == 1 {
                let (leading, count) = (self.bits(5) as u32, self.bits(6) as u32);
                *window = (leading, 64 - leading - if count == 0 { 64 } else { count });
            }
            before ^ self.bits(64 - window.0 - window.1) << window.1
        }
    }

    fn read_floats(bytes: &[u8]) -> (Vec<i64>, Vec<u64>) {
        let mut reading = Reading(bytes, 0);
        let count = reading.bits(16);
        let (mut times, mut values, mut step, mut window) = (Vec::new(), Vec::new(), 0i64, (0, 0));
        for n in 0..count {
            if n == 0 {
                let zigzag = reading.varint();
                times.push((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64));
                values.push(reading.bits(64));
                continue;
            }
            step = if n == 1 {
                reading.varint() as i64
            } else {
                let size = [0, 14, 17, 20, 64][reading.ones(4) as usize];
                step.wrapping_add(if size == 0 { 0 } else { reading.signed(size) })
            };
            times.push(times[times.len() - 1].wrapping_add(step));
            let before = values[values.len() - 1];
            values.push(reading.xor(before, &mut window));
        }
        (times, values)
    }

    #[test]
    fn floats_are_decoded_bit_for_bit() {
        let mut times = vec![-5_000, 1_795_240_900_000, 1_795_240_915_000, 1_795_240_930_001];
        times.extend((0..400).map(|n| 1_795_240_945_000 + n * n * 977));
        let value = |n: usize| match n % 7 {
            0 => f64::from_bits(sandur_model::STALE_BITS),
            1 => f64::NAN,
            2 => -0.0,
            3 => f64::INFINITY,
            _ => (n as f64).sqrt(),
        };
        let values: Vec<f64> = (0..times.len()).map(value).collect();
        let (mut read_times, mut read_values) = (Vec::new(), Vec::new());
        for chunk in floats(&times, &values) {
            let (of_times, of_values) = read_floats(&chunk.bytes);
            assert_eq!(chunk.bounds_ms, (of_times[0], of_times[of_times.len() - 1]));
            read_times.extend(of_times);
            read_values.extend(of_values);
        }
        assert_eq!(read_times, times);
        assert_eq!(read_values, values.iter().map(|value| value.to_bits()).collect::<Vec<_>>());
    }

    #[test]
    fn a_chunk_of_histograms_ends_where_the_layout_or_a_counter_changes() {
        let spans = [sandur_model::histogram::Span { offset: 0, length: 2 }];
        let of = |count: f64, zero_threshold: f64| {
            let positive = Buckets::from_spans(&spans, vec![count, count]).unwrap();
            std::sync::Arc::new(FloatHistogram {
                positive,
                count: 2.0 * count,
                zero_threshold,
                ..FloatHistogram::default()
            })
        };
        let all = [of(1.0, 0.5), of(2.0, 0.5), of(1.0, 0.5), of(2.0, 0.25), of(2.0, 0.25)];
        let bounds: Vec<_> = histograms(&[1, 2, 3, 4, 5], &all).iter().map(|chunk| chunk.bounds_ms).collect();
        assert_eq!(bounds, [(1, 2), (3, 3), (4, 5)]);
        let first = &histograms(&[1, 2], &all[..2])[0];
        // Two samples, no hint, threshold 2^-1, schema 0, one span of two from 0, no negative ones, time 1.
        assert_eq!(first.bytes[..4], [0, 2, 0, 243]);
        let mut reading = Reading(&first.bytes, 32);
        assert_eq!((reading.bits(1), reading.bits(5)), (0, 0b10_001), "schema, spans");
        assert_eq!((reading.bits(5), reading.bits(1)), (0b10_010, 0), "length, offset");
        assert_eq!((reading.bits(1), reading.bits(5)), (0, 0b10_001), "no negative spans, time");
        assert_eq!([(); 5].map(|()| f64::from_bits(reading.bits(64))), [2.0, 0.0, 0.0, 1.0, 1.0]);
        assert_eq!(reading.bits(5), 0b10_001, "the second time");
    }
}
