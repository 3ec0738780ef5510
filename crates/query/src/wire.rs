//! The form in which requests and partial results travel between processes: labels, columns of numbers, exact
//! sums and histograms.
//!
//! **Form.** Messages of protobuf ([`sandur_protobuf`]). Columns of floats are their bytes, little-endian,
//! so that they travel bit for bit. A message begins with the version of its form; a process refuses
//! versions that it does not know, and skips fields that it does not know.
//!
//! **Invariants.** What is written is read back unchanged. A reader neither panics nor recurses, whatever
//! the bytes are, and reserves the memory of each element before it keeps it. So a message takes no more
//! memory than its reservation allows.

use std::sync::Arc;

use sandur_memory::Reservation;
use sandur_model::exact::{ExactSum, ExactSums, Moments, Wide};
use sandur_model::histogram::{Buckets, CounterReset, HistogramSum, LayoutParts};
use sandur_model::{FloatHistogram, Labels};
use sandur_protobuf::{Malformed, Reader, Wire, Writer, unzigzag, zigzag};

use crate::error::Error;

/// The version of requests and partial results that this process writes and reads.
pub const VERSION: u64 = 1;
/// The field of the version in every message.
const VERSION_FIELD: u32 = 1;

/// Bytes of an element of a list in addition to its content.
const ELEMENT_BYTES: u64 = 64;

/// Begins a message: writes the version.
pub fn begin(out: &mut Vec<u8>) {
    out.varint(VERSION_FIELD, VERSION);
}

/// The error for bytes that are no message of this form.
pub fn malformed(what: impl std::fmt::Display) -> Error {
    Error::Invalid(format!("a message between processes cannot be read: {what}"))
}

fn of_protobuf(Malformed { offset, what }: Malformed) -> Error {
    malformed(format_args!("{what} at byte {offset}"))
}

/// Reads a message and what is nested in it.
pub struct Fields<'a> {
    reader: Reader<'a>,
    at: (u32, Wire),
}

impl<'a> Fields<'a> {
    /// The fields of a message. Fails if its version is another one.
    pub fn of_message(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut fields = Self::new(Reader::new(bytes));
        let version = if fields.field()? == Some(VERSION_FIELD) { fields.number()? } else { 0 };
        match version {
            VERSION => Ok(fields),
            other => Err(Error::Invalid(format!(
                "the message has version {other}, and this process reads version {VERSION}: processes of \
                 these versions cannot answer parts of one query"
            ))),
        }
    }

    /// The fields of a request of another process. Fails as [`Fields::of_message`] does, and if the request
    /// has more than `bytes_max` bytes.
    pub fn of_request(bytes: &'a [u8], bytes_max: usize) -> Result<Self, Error> {
        if bytes.len() > bytes_max {
            let found = bytes.len();
            return Err(Error::Limit(format!("the request has {found} bytes, at most {bytes_max}")));
        }
        Self::of_message(bytes)
    }

    fn new(reader: Reader<'a>) -> Self {
        Self { reader, at: (0, Wire::Varint) }
    }

    /// The number of the next field; `None` at the end. Its value must be read or skipped.
    pub fn field(&mut self) -> Result<Option<u32>, Error> {
        let key = self.reader.key().map_err(of_protobuf)?;
        Ok(key.map(|key| {
            self.at = key;
            key.0
        }))
    }

    fn expect(&self, wire: Wire) -> Result<(), Error> {
        match self.at.1 == wire {
            true => Ok(()),
            false => Err(malformed(format_args!("field {} has another type", self.at.0))),
        }
    }

    /// An unsigned integer.
    pub fn number(&mut self) -> Result<u64, Error> {
        self.expect(Wire::Varint)?;
        self.reader.varint().map_err(of_protobuf)
    }

    /// A signed integer.
    pub fn signed(&mut self) -> Result<i64, Error> {
        self.number().map(unzigzag)
    }

    /// A float.
    pub fn double(&mut self) -> Result<f64, Error> {
        self.expect(Wire::Fixed64)?;
        self.reader.double().map_err(of_protobuf)
    }

    /// A nested message.
    pub fn message(&mut self) -> Result<Fields<'a>, Error> {
        self.expect(Wire::Bytes)?;
        self.reader.message().map(Fields::new).map_err(of_protobuf)
    }

    /// Bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], Error> {
        self.expect(Wire::Bytes)?;
        self.reader.bytes().map_err(of_protobuf)
    }

    /// A text.
    pub fn text(&mut self) -> Result<&'a str, Error> {
        std::str::from_utf8(self.bytes()?).map_err(|_| malformed("a text is not UTF-8"))
    }

    /// Skips the value of a field that this version does not know.
    pub fn skip(&mut self) -> Result<(), Error> {
        self.reader.skip(self.at.1).map_err(of_protobuf)
    }

    /// Words of eight bytes.
    fn words<T>(&mut self, memory: &mut Reservation, word: impl Fn([u8; 8]) -> T) -> Result<Vec<T>, Error> {
        let bytes = self.bytes()?;
        let (words, []) = bytes.as_chunks::<8>() else {
            return Err(malformed(format_args!("field {} has no whole number of words", self.at.0)));
        };
        memory.grow(bytes.len() as u64 + ELEMENT_BYTES)?;
        Ok(words.iter().map(|bytes| word(*bytes)).collect())
    }

    /// Floats.
    pub fn floats(&mut self, memory: &mut Reservation) -> Result<Vec<f64>, Error> {
        self.words(memory, f64::from_le_bytes)
    }

    /// Unsigned integers of eight bytes.
    pub fn integers(&mut self, memory: &mut Reservation) -> Result<Vec<u64>, Error> {
        self.words(memory, u64::from_le_bytes)
    }

    /// Times.
    pub fn times(&mut self, memory: &mut Reservation) -> Result<Vec<i64>, Error> {
        self.words(memory, i64::from_le_bytes)
    }

    /// Packed signed integers that fit into 32 bits.
    fn packed(&mut self, memory: &mut Reservation) -> Result<Vec<i32>, Error> {
        self.expect(Wire::Bytes)?;
        let mut packed = self.reader.message().map_err(of_protobuf)?;
        memory.grow(packed.rest().len() as u64 * 4 + ELEMENT_BYTES)?;
        let mut all = Vec::new();
        while !packed.is_at_end() {
            let value = unzigzag(packed.varint().map_err(of_protobuf)?);
            all.push(i32::try_from(value).map_err(|_| malformed("an integer has more than 32 bits"))?);
        }
        Ok(all)
    }

    /// A label set.
    pub fn labels(&mut self, memory: &mut Reservation) -> Result<Labels, Error> {
        let mut fields = self.message()?;
        let (mut pairs, mut name) = (Vec::new(), None);
        while let Some(field) = fields.field()? {
            match (field, name.take()) {
                (1, None) => name = Some(fields.text()?),
                (2, Some(name)) => {
                    let value = fields.text()?;
                    memory.grow((name.len() + value.len()) as u64 + ELEMENT_BYTES)?;
                    pairs.push((name, value));
                }
                _ => return Err(malformed("labels are pairs of a name and a value")),
            }
        }
        match pairs.is_sorted_by(|a, b| a.0 < b.0) && name.is_none() {
            true => Ok(Labels::from_pairs(pairs)),
            false => Err(malformed("labels are not sorted by name")),
        }
    }

    /// A histogram.
    pub fn histogram(&mut self, memory: &mut Reservation) -> Result<FloatHistogram, Error> {
        let mut fields = self.message()?;
        let mut of = FloatHistogram::default();
        memory.grow(size_of::<FloatHistogram>() as u64)?;
        while let Some(field) = fields.field()? {
            match field {
                1 => of.reset = reset_of(fields.number()?)?,
                2 => of.schema = schema_of(fields.signed()?)?,
                3 => of.zero_threshold = fields.double()?,
                4 => of.zero_count = fields.double()?,
                5 => of.count = fields.double()?,
                6 => of.sum = fields.double()?,
                7 => of.positive.indices = fields.packed(memory)?,
                8 => of.positive.counts = fields.floats(memory)?,
                9 => of.negative.indices = fields.packed(memory)?,
                10 => of.negative.counts = fields.floats(memory)?,
                11 => of.bounds = fields.floats(memory)?.into(),
                _ => fields.skip()?,
            }
        }
        let is_valid = |buckets: &Buckets| {
            buckets.indices.len() == buckets.counts.len() && buckets.indices.is_sorted_by(|a, b| a < b)
        };
        match is_valid(&of.positive) && is_valid(&of.negative) {
            true => Ok(of),
            false => Err(malformed("the buckets of a histogram are not valid")),
        }
    }

    fn wide(&mut self, memory: &mut Reservation) -> Result<Wide, Error> {
        let mut fields = self.message()?;
        let (mut first, mut digits) = (0, Vec::new());
        while let Some(field) = fields.field()? {
            match field {
                1 => first = fields.signed()?,
                2 => digits = fields.words(memory, i64::from_le_bytes)?,
                _ => fields.skip()?,
            }
        }
        let first = i32::try_from(first).ok();
        first.and_then(|first| Wide::from_digits(first, digits)).ok_or_else(|| malformed("digits of no sum"))
    }

    /// An exact sum.
    pub fn sum<const K: usize>(&mut self, memory: &mut Reservation) -> Result<ExactSum<K>, Error> {
        let mut fields = self.message()?;
        let (mut parts, mut wide) = ([0.0; K], None);
        while let Some(field) = fields.field()? {
            match field {
                1 => {
                    let floats = fields.floats(memory)?;
                    parts = floats.try_into().map_err(|_| malformed("a sum has other parts"))?;
                }
                2 => wide = Some(fields.wide(memory)?),
                _ => fields.skip()?,
            }
        }
        Ok(ExactSum::from_parts(parts, wide))
    }

    /// Exact sums of a number of steps.
    pub fn sums(&mut self, steps: usize, memory: &mut Reservation) -> Result<ExactSums, Error> {
        let mut fields = self.message()?;
        let (mut high, mut low, mut step, mut wide) = (Vec::new(), Vec::new(), 0, Vec::new());
        while let Some(field) = fields.field()? {
            match field {
                1 => high = fields.floats(memory)?,
                2 => low = fields.floats(memory)?,
                3 => step = fields.number()? as usize,
                4 => {
                    memory.grow(ELEMENT_BYTES)?;
                    wide.push((step, fields.wide(memory)?));
                }
                _ => fields.skip()?,
            }
        }
        let sums = ExactSums::from_columns(steps, high, low);
        let mut sums = sums.ok_or_else(|| malformed("sums of another number of steps"))?;
        for (step, wide) in wide {
            if step >= steps {
                return Err(malformed("a sum of a step that does not exist"));
            }
            sums.prepare(steps);
            sums.merge(step, &ExactSum::from_parts([0.0; 2], Some(wide)));
        }
        Ok(sums)
    }

    /// Moments.
    pub fn moments(&mut self, memory: &mut Reservation) -> Result<Moments, Error> {
        let mut fields = self.message()?;
        let (mut count, mut sum, mut squares) = (0, ExactSum::default(), ExactSum::default());
        while let Some(field) = fields.field()? {
            match field {
                1 => count = fields.number()?,
                2 => sum = fields.sum(memory)?,
                3 => squares = fields.sum(memory)?,
                _ => fields.skip()?,
            }
        }
        Ok(Moments::from_parts(count, sum, squares))
    }

    /// A sum of histograms.
    pub fn histogram_sum(&mut self, memory: &mut Reservation) -> Result<HistogramSum, Error> {
        let mut fields = self.message()?;
        let (mut count, mut hints, mut layouts) = (0, 0, Vec::new());
        while let Some(field) = fields.field()? {
            match field {
                1 => count = fields.number()?,
                2 => hints = u8::try_from(fields.number()?).map_err(|_| malformed("unknown reset hints"))?,
                3 => layouts.push(fields.layout(memory)?),
                _ => fields.skip()?,
            }
        }
        HistogramSum::from_layouts((count, hints), layouts).ok_or_else(|| malformed("a sum of no histograms"))
    }

    fn layout(&mut self, memory: &mut Reservation) -> Result<LayoutParts, Error> {
        let mut fields = self.message()?;
        memory.grow(size_of::<LayoutParts>() as u64 + ELEMENT_BYTES)?;
        let (positive, negative, sums) = (Vec::new(), Vec::new(), Vec::new());
        let bounds = Arc::default();
        let mut of = LayoutParts { schema: 0, zero_threshold: 0.0, bounds, positive, negative, sums };
        while let Some(field) = fields.field()? {
            match field {
                1 => of.schema = schema_of(fields.signed()?)?,
                2 => of.zero_threshold = fields.double()?,
                3 => of.bounds = fields.floats(memory)?.into(),
                4 => of.positive = fields.packed(memory)?,
                5 => of.negative = fields.packed(memory)?,
                6 => {
                    memory.grow(ELEMENT_BYTES)?;
                    of.sums.push(fields.sum(memory)?);
                }
                _ => fields.skip()?,
            }
        }
        Ok(of)
    }
}

fn schema_of(schema: i64) -> Result<i32, Error> {
    i32::try_from(schema).map_err(|_| malformed("a histogram of an unknown schema"))
}

fn reset_of(number: u64) -> Result<CounterReset, Error> {
    let reset = usize::try_from(number).ok().and_then(|number| CounterReset::ALL.get(number));
    reset.copied().ok_or_else(|| malformed("an unknown reset hint"))
}

/// Writes what [`Fields`] reads.
pub trait Put: Writer + Sized {
    /// Writes a signed integer.
    fn put_signed(&mut self, field: u32, value: i64) {
        self.varint(field, zigzag(value));
    }

    /// Writes floats; an empty list too.
    fn put_floats(&mut self, field: u32, values: &[f64]) {
        put_words(self, field, values.iter().map(|value| value.to_le_bytes()));
    }

    /// Writes unsigned integers of eight bytes.
    fn put_integers(&mut self, field: u32, values: &[u64]) {
        put_words(self, field, values.iter().map(|value| value.to_le_bytes()));
    }

    /// Writes times.
    fn put_times(&mut self, field: u32, times: &[i64]) {
        put_words(self, field, times.iter().map(|time| time.to_le_bytes()));
    }

    /// Writes a label set.
    fn put_labels(&mut self, field: u32, labels: &Labels) {
        self.message(field, |out| out.put_pairs(labels.iter()));
    }

    /// Writes labels into the message that is open.
    fn put_pairs<'a>(&mut self, pairs: impl Iterator<Item = (&'a str, &'a str)>) {
        for (name, value) in pairs {
            self.bytes(1, name.as_bytes());
            self.bytes(2, value.as_bytes());
        }
    }

    /// Writes a histogram.
    fn put_histogram(&mut self, field: u32, of: &FloatHistogram) {
        self.message(field, |out| {
            out.varint(1, of.reset as u64);
            out.put_signed(2, i64::from(of.schema));
            out.double(3, of.zero_threshold);
            out.double(4, of.zero_count);
            out.double(5, of.count);
            out.double(6, of.sum);
            for (field, buckets) in [(7, &of.positive), (9, &of.negative)] {
                out.packed(field, buckets.indices.iter().map(|index| zigzag(i64::from(*index))));
                out.put_floats(field + 1, &buckets.counts);
            }
            out.put_floats(11, &of.bounds);
        });
    }

    /// Writes an exact sum.
    fn put_sum<const K: usize>(&mut self, field: u32, sum: &ExactSum<K>) {
        let (parts, wide) = sum.parts();
        self.message(field, |out| {
            out.put_floats(1, parts);
            wide.into_iter().for_each(|wide| put_wide(out, 2, wide));
        });
    }

    /// Writes exact sums of steps.
    fn put_sums(&mut self, field: u32, sums: &ExactSums) {
        let (high, low) = sums.columns();
        self.message(field, |out| {
            out.put_floats(1, high);
            if !low.is_empty() {
                out.put_floats(2, low);
            }
            for (step, wide) in sums.wide() {
                out.varint(3, step as u64);
                put_wide(out, 4, wide);
            }
        });
    }

    /// Writes moments.
    fn put_moments(&mut self, field: u32, moments: &Moments) {
        let (count, sum, squares) = moments.parts();
        self.message(field, |out| {
            out.varint(1, count);
            out.put_sum(2, sum);
            out.put_sum(3, squares);
        });
    }

    /// Writes a sum of histograms.
    fn put_histogram_sum(&mut self, field: u32, sum: &HistogramSum) {
        let (count, hints) = sum.count_and_hints();
        self.message(field, |out| {
            out.varint(1, count);
            out.varint(2, u64::from(hints));
            for layout in sum.layouts() {
                out.message(3, |out| {
                    out.put_signed(1, i64::from(layout.schema));
                    out.double(2, layout.zero_threshold);
                    out.put_floats(3, &layout.bounds);
                    for (field, indices) in [(4, &layout.positive), (5, &layout.negative)] {
                        out.packed(field, indices.iter().map(|index| zigzag(i64::from(*index))));
                    }
                    layout.sums.iter().for_each(|sum| out.put_sum(6, sum));
                });
            }
        });
    }
}

impl<W: Writer> Put for W {}

fn put_wide(out: &mut impl Writer, field: u32, wide: &Wide) {
    let (first, digits) = wide.clone().to_digits();
    out.message(field, |out| {
        out.put_signed(1, i64::from(first));
        put_words(out, 2, digits.iter().map(|digit| digit.to_le_bytes()));
    });
}

fn put_words(out: &mut impl Writer, field: u32, words: impl Iterator<Item = [u8; 8]>) {
    out.message(field, |out| words.for_each(|word| out.put(&word)));
}
