//! What carbonapi's protobuf messages have in common: a limit on their length, floats of four bytes, and
//! texts in requests.

use sandur_protobuf::{Malformed, Reader, Wire, Writer as _};

use crate::error::{Error, Result};

/// Writes a message in a field, of at most 2 GiB, as protobuf demands.
pub(crate) fn message(
    out: &mut Vec<u8>,
    field: u32,
    write: impl FnOnce(&mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    out.message(field, |out| {
        let begin = out.len();
        write(out)?;
        let length = out.len() - begin;
        match i32::try_from(length) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Limit(format!("a message of {length} bytes is too long for protobuf"))),
        }
    })
}

/// Writes a float of four bytes unless it is 0.
pub(crate) fn float(out: &mut Vec<u8>, field: u32, value: f32) {
    if value != 0.0 {
        out.fixed32(field, value.to_bits());
    }
}

/// Reads a text.
pub(crate) fn text(message: &mut Reader<'_>) -> std::result::Result<String, Malformed> {
    let text = std::str::from_utf8(message.bytes()?);
    text.map(str::to_owned).map_err(|_| message.malformed("a text is not valid UTF-8"))
}

/// Reads a request that has at most `most` items in field 1; `read` reads an item or another field.
pub(crate) fn items(
    body: &[u8],
    most: usize,
    mut read: impl FnMut(&mut Reader<'_>, (u32, Wire)) -> std::result::Result<(), Malformed>,
) -> std::result::Result<(), Malformed> {
    let (mut message, mut count) = (Reader::new(body), 0);
    while let Some(key) = message.key()? {
        if key.0 == 1 {
            count += 1;
            if key.1 != Wire::Bytes || count > most {
                return Err(message.malformed("an item has another type, or there are too many"));
            }
        }
        read(&mut message, key)?;
    }
    Ok(())
}
