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
    let mut head = Head::default();
    head.nested(2, field_bytes(timestamp_bytes) + field_bytes(line.len()) + pairs_bytes);
    head.nested(1, timestamp_bytes);
    head.varint(1 << 3);
    head.varint(seconds);
    head.varint(2 << 3);
    head.varint(nanos);
    head.nested(2, line.len());
    stream.put(&head.bytes[..head.length]);
    stream.put(line);
    for pair in metadata {
        let mut head = Head::default();
        head.nested(3, pair_bytes(pair));
        stream.put(&head.bytes[..head.length]);
        stream.bytes(1, pair.0.as_bytes());
        stream.bytes(2, pair.1.as_bytes());
    }
}

/// The integers before the text of an entry. They are appended to the request at once, which takes a third of
/// the time of appending each of them.
struct Head {
    bytes: [u8; HEAD_BYTES_MAX],
    length: usize,
}

/// Five tags of one byte and five integers of at most ten bytes.
const HEAD_BYTES_MAX: usize = 5 + 5 * 10;

impl Default for Head {
    fn default() -> Self {
        Self { bytes: [0; HEAD_BYTES_MAX], length: 0 }
    }
}

impl Head {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    fn byte(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    /// Begins a message or text whose length is known, with a field number less than 16.
    fn nested(&mut self, field: u8, length: usize) {
        self.byte(field << 3 | 2);
        self.varint(length as u64);
    }
}

/// The size of a field with this content, whose number is less than 16.
fn field_bytes(content: usize) -> usize {
    1 + varint_bytes(content as u64) + content
}
