//! A bounded queue on disk: frames of lines in segments, read in the order in which they were written. A
//! separate file is read before the segments; it holds lines that a broken connection may have lost
//! ([`Spool::put_ahead`]).
//!
//! **Invariants.** At most [`Options::bytes_max`] bytes are on disk. When the limit is reached, the
//! oldest segment is dropped and its points are counted as lost. A damaged frame ends its segment; the
//! frames before it are delivered. A crash loses at most what [`Sync`] permits, and repeats at most what
//! was read since the position was last written. Calls block.

mod disk;
mod frame;

use std::io;
use std::sync::Arc;
use std::time::Duration;

pub use disk::{Directory, Disk};
pub use frame::LINES_BYTES_MAX;
use frame::{HEADER_BYTES, Header};

/// When written lines must survive a loss of power. A killed process loses nothing of them, because the
/// operating system writes what was handed to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Before the call returns.
    Always,
    /// At most this time after the write.
    Every(Duration),
    /// When the operating system decides.
    Never,
}

/// The limits of a spool and its durability.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The largest number of bytes on disk.
    pub bytes_max: u64,
    /// Bytes of a segment after which the next one is begun.
    pub segment_bytes: u64,
    /// When writes are made durable.
    pub sync: Sync,
}

impl Default for Options {
    fn default() -> Self {
        let sync = Sync::Every(Duration::from_secs(1));
        Self { bytes_max: 10 << 30, segment_bytes: 64 << 20, sync }
    }
}

/// A segment file.
#[derive(Clone, Debug)]
struct Segment {
    number: u64,
    bytes: u64,
    points: u64,
}

/// Lines that were read and are not confirmed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The lines, each with its end.
    pub lines: Vec<u8>,
    /// Number of points among them.
    pub points: u64,
    end: u64,
    /// The number of their segment; `None` if they are from the file that precedes the segments.
    segment: Option<u64>,
}

/// The file that is read before the segments.
struct Ahead {
    bytes: u64,
    /// Number of points after the position.
    points: u64,
    position: u64,
}

/// A queue on disk.
pub struct Spool {
    disk: Arc<dyn Disk>,
    options: Options,
    ahead: Option<Ahead>,
    segments: Vec<Segment>,
    /// The number of the next segment. Numbers are not reused.
    next: u64,
    /// Offset of the next frame to read in the first segment.
    position: u64,
    /// Bytes that were read since the position was last written.
    unwritten: u64,
    /// Number of points before the position in the first segment.
    read_points: u64,
    is_synced: bool,
    synced_at: Duration,
    lost: u64,
}

const POSITION: &str = "position";
const AHEAD: &str = "ahead";
/// Bytes that may be delivered again after a crash.
const POSITION_EVERY_BYTES: u64 = 4 << 20;

const LEFT_OUT: &str = "a file of a spool is damaged or missing; the rest of it is skipped";

/// Returns whether another process removed a file.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

fn name(number: u64) -> String {
    format!("{number:016x}.spool")
}

impl Spool {
    /// Opens a spool with its existing files. An incomplete frame at the end of a segment, as a crash
    /// leaves it, is truncated.
    pub fn open(disk: Arc<dyn Disk>, mut options: Options) -> io::Result<Self> {
        options.segment_bytes = options.segment_bytes.min(options.bytes_max / 4).max(1);
        let mut segments = Vec::new();
        for (file, bytes) in disk.list()? {
            let number = file.strip_suffix(".spool").and_then(|hex| u64::from_str_radix(hex, 16).ok());
            if let Some(number) = number.filter(|number| name(*number) == file) {
                segments.push(Segment { number, bytes, points: 0 });
            }
        }
        segments.sort_by_key(|segment| segment.number);
        let mut spool = Self {
            disk,
            options,
            ahead: None,
            segments: Vec::new(),
            next: 0,
            position: 0,
            unwritten: 0,
            read_points: 0,
            is_synced: true,
            synced_at: Duration::ZERO,
            lost: 0,
        };
        let position = spool.written_position();
        let last = segments.last().map_or(0, |last| last.number.saturating_add(1));
        spool.next = last.max(position.map_or(0, |(number, _)| number));
        for segment in segments {
            // Only the last segment can have been cut by a crash; the frames of others are verified when
            // they are read.
            let verifies = segment.number.saturating_add(1) == last;
            spool.recover(segment, position, verifies)?;
        }
        spool.recover_ahead()?;
        Ok(spool)
    }

    fn recover_ahead(&mut self) -> io::Result<()> {
        let found = self.disk.list()?.into_iter().find(|(file, _)| file == AHEAD);
        let Some((_, length)) = found else { return Ok(()) };
        let (mut ahead, mut lines) = (Ahead { bytes: 0, points: 0, position: 0 }, Vec::new());
        while let Some(header) = self.frame(AHEAD, ahead.bytes, length, &mut lines)? {
            ahead.bytes += (HEADER_BYTES + header.bytes) as u64;
            ahead.points += u64::from(header.points);
        }
        match ahead.bytes {
            0 => self.disk.remove(AHEAD),
            _ => {
                self.ahead = Some(ahead);
                Ok(())
            }
        }
    }

    fn written_position(&self) -> Option<(u64, u64)> {
        let mut bytes = [0; 20];
        let read = self.disk.read(POSITION, 0, &mut bytes).unwrap_or(0);
        let [number, offset] =
            [0, 8].map(|at| u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index])));
        let is_whole = read == 20 && crc32c::crc32c(&bytes[..16]).to_le_bytes() == bytes[16..20];
        is_whole.then_some((number, offset))
    }

    /// Scans the frames of a segment and truncates what follows the last complete one.
    fn recover(
        &mut self,
        mut segment: Segment,
        position: Option<(u64, u64)>,
        verifies: bool,
    ) -> io::Result<()> {
        let file = name(segment.number);
        if position.is_some_and(|(number, _)| segment.number < number) {
            return self.disk.remove(&file);
        }
        let (mut end, mut lines) = (0, Vec::new());
        loop {
            // A saved position that is not the start of a frame of this segment is ignored.
            if position == Some((segment.number, end)) {
                (self.position, self.read_points) = (end, segment.points);
            }
            let found = match verifies {
                true => self.frame(&file, end, segment.bytes, &mut lines)?,
                false => self.header(&file, end, segment.bytes)?,
            };
            let Some(header) = found else { break };
            end += (HEADER_BYTES + header.bytes) as u64;
            segment.points += u64::from(header.points);
        }
        if end < segment.bytes {
            tracing::warn!(
                file,
                whole = end,
                bytes = segment.bytes,
                "the incomplete end of a spool's segment was truncated"
            );
            self.disk.truncate(&file, end)?;
            segment.bytes = end;
        }
        match end {
            0 => self.disk.remove(&file),
            _ => {
                self.segments.push(segment);
                Ok(())
            }
        }
    }

    /// Reads the header at an offset. Returns `None` where no frame fits.
    fn header(&self, file: &str, at: u64, end: u64) -> io::Result<Option<Header>> {
        let mut header = [0; HEADER_BYTES];
        if at + HEADER_BYTES as u64 > end || self.disk.read(file, at, &mut header)? < HEADER_BYTES {
            return Ok(None);
        }
        Ok(Header::read(&header).filter(|header| at + (HEADER_BYTES + header.bytes) as u64 <= end))
    }

    /// Reads the frame at an offset. Returns `None` where there is no complete one.
    fn frame(&self, file: &str, at: u64, end: u64, lines: &mut Vec<u8>) -> io::Result<Option<Header>> {
        let Some(header) = self.header(file, at, end)? else { return Ok(None) };
        lines.resize(header.bytes, 0);
        let read = self.disk.read(file, at + HEADER_BYTES as u64, lines)?;
        Ok(Some(header).filter(|header| read == header.bytes && header.holds(lines)))
    }

    /// Appends lines, at most [`LINES_BYTES_MAX`] bytes. After an error nothing was appended.
    pub fn push(&mut self, lines: &[u8], points: u32, now: Duration) -> io::Result<()> {
        let mut frame = Vec::with_capacity(HEADER_BYTES + lines.len());
        frame::write(lines, points, &mut frame);
        self.make_room(frame.len() as u64);
        if self.segments.last().is_none_or(|last| last.bytes >= self.options.segment_bytes) {
            // A full segment is synced here, since later syncs only reach the last segment.
            if self.options.sync != Sync::Never {
                self.sync(now)?;
            }
            self.begin_segment();
        }
        let Some(last) = self.segments.last_mut() else { return Ok(()) };
        let file = name(last.number);
        if let Err(error) = self.disk.append(&file, &frame) {
            // A partial frame must not remain before the next one.
            if last.bytes == 0 {
                self.segments.pop();
                let _ = self.disk.remove(&file);
            } else if self.disk.truncate(&file, last.bytes).is_err() || is_gone(&error) {
                self.begin_segment();
            }
            return Err(error);
        }
        last.bytes += frame.len() as u64;
        last.points += u64::from(points);
        self.is_synced = false;
        self.sync_if_due(now)
    }

    fn begin_segment(&mut self) {
        self.segments.push(Segment { number: self.next, bytes: 0, points: 0 });
        self.next = self.next.saturating_add(1);
    }

    fn make_room(&mut self, more: u64) {
        while self.segments.len() > 1 && self.bytes() + more > self.options.bytes_max {
            self.lost += self.segments[0].points.saturating_sub(self.read_points);
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        let first = self.segments.remove(0);
        if let Err(error) = self.disk.remove(&name(first.number)) {
            tracing::warn!(%error, segment = first.number, "a spool's segment cannot be removed");
        }
        (self.position, self.read_points) = (0, 0);
        self.write_position();
    }

    /// Returns whether writes are due to be made durable.
    pub fn is_sync_due(&self, now: Duration) -> bool {
        let is_due = match self.options.sync {
            Sync::Always => true,
            Sync::Every(every) => now.saturating_sub(self.synced_at) >= every,
            Sync::Never => false,
        };
        is_due && !self.is_synced
    }

    /// Makes writes durable if they are due.
    pub fn sync_if_due(&mut self, now: Duration) -> io::Result<()> {
        if self.is_sync_due(now) { self.sync(now) } else { Ok(()) }
    }

    fn sync(&mut self, now: Duration) -> io::Result<()> {
        if !self.is_synced {
            if let Some(last) = self.segments.last() {
                self.disk.sync(&name(last.number))?;
            }
            (self.is_synced, self.synced_at) = (true, now);
        }
        Ok(())
    }

    /// Puts lines before all others, to be read next. After an error nothing has changed.
    pub fn put_ahead<'a>(&mut self, lines: impl Iterator<Item = (&'a [u8], u32)>) -> io::Result<()> {
        let (mut frames, mut points) = (Vec::new(), 0);
        for (lines, points_of) in lines {
            frame::write(lines, points_of, &mut frames);
            points += u64::from(points_of);
        }
        if let Some(before) = &self.ahead {
            let (at, mut rest) = (before.position, vec![0; (before.bytes - before.position) as usize]);
            let read = self.disk.read(AHEAD, at, &mut rest)?;
            frames.extend_from_slice(&rest[..read]);
            points += before.points;
        }
        self.disk.replace(AHEAD, &frames)?;
        self.ahead = Some(Ahead { bytes: frames.len() as u64, points, position: 0 });
        if self.options.sync != Sync::Never
            && let Err(error) = self.disk.sync(AHEAD)
        {
            tracing::warn!(%error, "lines of a broken connection would not survive a loss of power");
        }
        Ok(())
    }

    /// Returns the next lines, at most `bytes_max` bytes unless one frame is larger. They stay in the
    /// spool until they are confirmed.
    pub fn peek(&mut self, bytes_max: usize) -> io::Result<Option<Batch>> {
        if let Some(Ahead { bytes, points, position }) = self.ahead {
            let batch = self.read(None, (position, bytes), bytes_max)?;
            if !batch.lines.is_empty() {
                return Ok(Some(batch));
            }
            tracing::warn!(file = AHEAD, at = position, lost = points, "{LEFT_OUT}");
            self.lost += points;
            self.end_ahead();
        }
        while let Some(first) = self.segments.first() {
            let batch = self.read(Some(first.number), (self.position, first.bytes), bytes_max)?;
            if !batch.lines.is_empty() {
                return Ok(Some(batch));
            }
            if self.position < first.bytes {
                let (lost, at) = (first.points.saturating_sub(self.read_points), self.position);
                tracing::warn!(file = name(first.number), at, lost, "{LEFT_OUT}");
                self.lost += lost;
            }
            self.drop_first();
        }
        Ok(None)
    }

    /// Reads frames of a file from a position on. The batch is empty when there is no complete frame.
    fn read(&self, segment: Option<u64>, (position, end): (u64, u64), bytes_max: usize) -> io::Result<Batch> {
        let file = segment.map_or_else(|| AHEAD.to_owned(), name);
        let (mut batch, mut lines) =
            (Batch { lines: Vec::new(), points: 0, end: position, segment }, Vec::new());
        loop {
            let found = match self.frame(&file, batch.end, end, &mut lines) {
                Err(error) if is_gone(&error) => None,
                found => found?,
            };
            let fits =
                |header: &Header| batch.lines.is_empty() || batch.lines.len() + header.bytes <= bytes_max;
            let Some(header) = found.filter(fits) else { return Ok(batch) };
            batch.lines.extend_from_slice(&lines);
            batch.points += u64::from(header.points);
            batch.end += (HEADER_BYTES + header.bytes) as u64;
        }
    }

    /// Removes a batch that was delivered; it must be the one that was read last.
    pub fn confirm(&mut self, batch: &Batch) {
        let Some(segment) = batch.segment else { return self.confirm_ahead(batch) };
        let Some(first) = self.segments.first().filter(|first| first.number == segment) else { return };
        self.unwritten += batch.end.saturating_sub(self.position);
        let is_read = batch.end >= first.bytes;
        self.position = batch.end;
        self.read_points += batch.points;
        if is_read {
            self.drop_first();
        } else if self.unwritten >= POSITION_EVERY_BYTES {
            self.write_position();
        }
    }

    fn confirm_ahead(&mut self, batch: &Batch) {
        let Some(ahead) = &mut self.ahead else { return };
        ahead.position = batch.end;
        ahead.points = ahead.points.saturating_sub(batch.points);
        if ahead.position >= ahead.bytes {
            self.end_ahead();
        }
    }

    fn end_ahead(&mut self) {
        self.ahead = None;
        if let Err(error) = self.disk.remove(AHEAD) {
            tracing::warn!(%error, "lines of a broken connection will be sent again after a restart");
        }
    }

    /// Writes the position, so that a restart does not repeat confirmed lines.
    pub fn write_position(&mut self) {
        // Segments with smaller numbers are removed.
        let number = self.segments.first().map_or(self.next, |first| first.number);
        let mut bytes = [number.to_le_bytes(), self.position.to_le_bytes()].concat();
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        match self.disk.replace(POSITION, &bytes) {
            Ok(()) => self.unwritten = 0,
            Err(error) => tracing::warn!(%error, "the position of a spool cannot be written"),
        }
    }

    /// Returns whether the spool has no lines.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.ahead.is_none()
    }

    /// Returns the bytes on disk.
    pub fn bytes(&self) -> u64 {
        let ahead = self.ahead.as_ref().map_or(0, |ahead| ahead.bytes - ahead.position);
        ahead + self.segments.iter().map(|segment| segment.bytes).sum::<u64>()
    }

    /// Returns the number of points lost since the last call.
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }
}

#[cfg(test)]
pub(crate) mod tests;
