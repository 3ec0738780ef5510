//! Loki's push: `PushRequest{streams=1:{labels=1, entries=2:{timestamp=1:{seconds=1, nanos=2}, line=2,
//! structuredMetadata=3:{name=1, value=2}}}}`.

use sandur_model::SECOND_NS;

use crate::writer::{Writer, varint_bytes};

/// Adds a stream, whose entries `write` adds with [`entry`]. Its length is padded, so that the entries are
/// not moved.
pub fn stream<W: Writer>(request: &mut W, labels: &str, write: impl FnOnce(&mut W)) {
    let stream = request.open(1);
    request.bytes(1, labels.as_bytes());
    write(request);
    request.close(stream);
}

/// Adds an entry with its structured metadata to a stream. Its length is computed first, so that nothing is
/// moved.
pub fn entry<'a>(
    stream: &mut impl Writer,
    timestamp_ns: i64,
    line: &[u8],
    metadata: impl IntoIterator<Item = (&'a str, &'a str)> + Clone,
) {
    let seconds = timestamp_ns.div_euclid(SECOND_NS) as u64;
    let nanos = timestamp_ns.rem_euclid(SECOND_NS) as u64;
    let timestamp_bytes = 2 + varint_bytes(seconds) + varint_bytes(nanos);
    let pair_bytes = |(name, value): (&str, &str)| field_bytes(name.len()) + field_bytes(value.len());
    let pairs_bytes: usize = metadata.clone().into_iter().map(|pair| field_bytes(pair_bytes(pair))).sum();
    nested(stream, 2, field_bytes(timestamp_bytes) + field_bytes(line.len()) + pairs_bytes);
    nested(stream, 1, timestamp_bytes);
    stream.varint(1, seconds);
    stream.varint(2, nanos);
    stream.bytes(2, line);
    for pair in metadata {
        nested(stream, 3, pair_bytes(pair));
        stream.bytes(1, pair.0.as_bytes());
        stream.bytes(2, pair.1.as_bytes());
    }
}

/// Begins a message whose length is known.
fn nested(out: &mut impl Writer, field: u32, length: usize) {
    out.raw_varint(u64::from(field) << 3 | 2);
    out.raw_varint(length as u64);
}

/// The size of a field with this content, whose number is less than 16.
fn field_bytes(content: usize) -> usize {
    1 + varint_bytes(content as u64) + content
}
