//! The bytes of rows of a log query. Label sets are written once; rows refer to them.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use sandur_memory::Reservation;
use sandur_model::Labels;
use sandur_protobuf::Writer as _;
use sandur_query::wire::{Fields, Put as _, malformed};
use sandur_query::{Error, LogRow, RankedRow, RowKey};

/// The numbers of label sets in the order in which they are written.
#[derive(Default)]
struct Known(HashMap<Arc<Labels>, u64>);

impl Known {
    /// The number of a label set; writes it if it is new.
    fn number(&mut self, field: u32, labels: &Arc<Labels>, out: &mut Vec<u8>) -> u64 {
        let next = self.0.len() as u64;
        *self.0.entry(Arc::clone(labels)).or_insert_with(|| {
            out.put_labels(field, labels);
            next
        })
    }
}

/// Writes rows: label sets as one field, rows as another.
pub fn write((labels, rows): (u32, u32), of: &[RankedRow], out: &mut Vec<u8>) {
    let mut known = Known::default();
    for RankedRow { key, row } in of {
        let numbers = [&key.stream, &row.stream, &row.metadata].map(|set| known.number(labels, set, out));
        out.message(rows, |out| {
            out.put_signed(1, row.timestamp);
            out.bytes(2, &row.line);
            (3..).zip(numbers).for_each(|(field, number)| out.varint(field, number));
            for (name, value) in row.parsed.iter() {
                out.bytes(6, name.as_bytes());
                out.bytes(7, value.as_bytes());
            }
        });
    }
}

/// Reads a row.
pub fn read(
    fields: &mut Fields<'_>,
    sets: &[Arc<Labels>],
    memory: &mut Reservation,
) -> Result<RankedRow, Error> {
    let (mut timestamp, mut line, mut numbers) = (0, Bytes::new(), [u64::MAX; 3]);
    let (mut parsed, mut name): (Vec<(Box<str>, Box<str>)>, Option<&str>) = (Vec::new(), None);
    memory.grow(size_of::<RankedRow>() as u64 + 48)?;
    while let Some(field) = fields.field()? {
        match field {
            1 => timestamp = fields.signed()?,
            2 => {
                let bytes = fields.bytes()?;
                memory.grow(bytes.len() as u64)?;
                line = Bytes::copy_from_slice(bytes);
            }
            3..=5 => numbers[field as usize - 3] = fields.number()?,
            6 => name = Some(fields.text()?),
            7 => {
                let value = fields.text()?;
                let name = name.take().ok_or_else(|| malformed("a value without a name"))?;
                memory.grow((name.len() + value.len()) as u64 + 32)?;
                parsed.push((name.into(), value.into()));
            }
            _ => fields.skip()?,
        }
    }
    let set = |number: u64| {
        let set = usize::try_from(number).ok().and_then(|number| sets.get(number));
        set.cloned().ok_or_else(|| malformed("a row refers to labels that do not exist"))
    };
    let [key, stream, metadata] = [set(numbers[0])?, set(numbers[1])?, set(numbers[2])?];
    let parsed = if parsed.is_empty() { Arc::default() } else { Arc::new(parsed) };
    let row = LogRow { timestamp, line, stream, metadata, parsed };
    Ok(RankedRow { key: RowKey { timestamp, stream: key, item: 0, row: 0 }, row })
}
