//! whisper's own form: rings of points of twelve bytes.
//!
//! The first point ever written is in slot 0 of a ring. Every other point is at its distance from that
//! one in steps, modulo the size of the ring. Slots keep points of earlier rounds until they are
//! overwritten. As in whisper, a point therefore is only valid within the retention before the newest
//! one.

use crate::archive::Archive;
use crate::error::Error;
use crate::field::{f32_at, u32_at};
use crate::form::Form;
use crate::header::Header;
use crate::method::Method;
use crate::point::Point;
use crate::source::ReadAt;

/// Bytes of the header before its archives.
pub(crate) const METADATA_BYTES: usize = 16;
/// Bytes of the description of an archive.
const ARCHIVE_BYTES: usize = 12;
/// The largest number of archives of a file; whisper's tools create ten at most.
const ARCHIVES_MAX: u32 = 1_024;
/// Number of points that are read at once.
const CHUNK_POINTS: usize = 16 << 10;

/// Reads and checks the header.
pub(crate) fn header(source: &impl ReadAt, size: u64) -> Result<Header, Error> {
    let mut metadata = [0; METADATA_BYTES];
    read(source, &mut metadata, size)?;
    let field = |at| u32_at(&metadata, at).unwrap_or_default();
    let (code, count) = (field(0), field(12));
    let method = Method::of_file(code, Form::Classic);
    let method = method.ok_or_else(|| Error::Header(format!("there is no aggregation method {code}")))?;
    let x_files_factor = f32_at(&metadata, 8).unwrap_or_default();
    if !(0.0..=1.0).contains(&x_files_factor) {
        return Err(Error::Header(format!("its xFilesFactor is {x_files_factor}")));
    }
    if count > ARCHIVES_MAX {
        return Err(Error::Header(format!("it has {count} archives; the limit is {ARCHIVES_MAX}")));
    }
    let mut described = vec![0; METADATA_BYTES + count as usize * ARCHIVE_BYTES];
    read(source, &mut described, size)?;
    let archives = described[METADATA_BYTES..].chunks_exact(ARCHIVE_BYTES).map(|bytes| {
        let field = |at| u32_at(bytes, at).unwrap_or_default();
        let (offset, step, points) = (field(0), field(4), field(8));
        let bytes = u64::from(points) * Point::BYTES as u64;
        Archive { step, points, method, offset: offset.into(), bytes }
    });
    let archives: Vec<Archive> = archives.collect();
    let (form, header_bytes) = (Form::Classic, described.len() as u64);
    Ok(Header { form, method, x_files_factor, archives, header_bytes })
}

/// Fills the buffer from the start of the file.
pub(crate) fn read(source: &impl ReadAt, buffer: &mut [u8], size: u64) -> Result<(), Error> {
    let needed = buffer.len() as u64;
    if size < needed {
        return Err(Error::Short { size, needed });
    }
    Ok(source.read_at(buffer, 0)?)
}

/// Returns the points of an archive up to a time, in order.
pub(crate) fn points(source: &impl ReadAt, archive: &Archive, until: u32) -> Result<Vec<Point>, Error> {
    let (step, ring) = (i64::from(archive.step), i64::from(archive.points));
    let mut buffer = vec![0; CHUNK_POINTS.min(archive.points as usize) * Point::BYTES];
    let (mut found, mut base, mut newest) = (Vec::new(), 0, 0);
    let mut slot = 0;
    while slot < archive.points {
        let count = (archive.points - slot).min(CHUNK_POINTS as u32);
        let chunk = &mut buffer[..count as usize * Point::BYTES];
        source.read_at(chunk, archive.offset + u64::from(slot) * Point::BYTES as u64)?;
        for (slot, bytes) in (slot..).zip(chunk.chunks_exact(Point::BYTES)) {
            let Some(point) = Point::decode(bytes) else { continue };
            if slot == 0 {
                base = point.time;
            }
            let time = point.time;
            let distance = (i64::from(time) - i64::from(base)) / step;
            let is_in_place = time % archive.step == 0 && distance.rem_euclid(ring) == i64::from(slot);
            if time != 0 && time <= until && is_in_place {
                newest = newest.max(time);
                found.push(point);
            }
        }
        if base == 0 {
            return Ok(Vec::new());
        }
        slot += count;
    }
    found.retain(|point| archive.holds(point.time, newest));
    // The remaining points are in order except where the ring wraps around.
    if let Some(wrap) = found.windows(2).position(|pair| pair[1].time < pair[0].time) {
        found.rotate_left(wrap + 1);
    }
    Ok(found)
}
