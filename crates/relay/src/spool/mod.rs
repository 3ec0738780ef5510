//! A bounded queue on disk: frames of lines in segments, read in the order in which they were written. In
//! front of them is a file of what a connection that broke may have lost ([`Spool::put_ahead`]).
//!
//! **Invariants.** At most [`Options::bytes_max`] bytes lie on disk: the oldest segment gives way, and its
//! points are counted as lost. A frame that is damaged ends its segment; what came before it is delivered. A
//! crash loses what [`Sync`] says at most, and delivers again at most what was read since the position was
//! last written. Calls block.

mod disk;
mod frame;

use std::io;
use std::sync::Arc;
use std::time::Duration;

pub use disk::{Directory, Disk};
pub use frame::LINES_BYTES_MAX;
use frame::{HEADER_BYTES, Header};

/// When what was written must survive a loss of power. A process that is killed loses nothing by it: what was
/// handed to the system is written by the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Before the call returns.
    Always,
    /// No later than this after it was written.
    Every(Duration),
    /// When the system sees fit.
    Never,
}

/// How a spool behaves.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes on disk.
    pub bytes_max: u64,
    /// Bytes of a segment, after which another one is begun.
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

/// A segment.
#[derive(Clone, Debug)]
struct Segment {
    number: u64,
    bytes: u64,
    points: u64,
}

/// Lines that were read and not yet confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The lines.
    pub lines: Vec<u8>,
    /// Points among them.
    pub points: u64,
    end: u64,
    /// Its segment; none when it is of what is in front of them.
    segment: Option<u64>,
}

/// The file in front of the segments.
struct Ahead {
    bytes: u64,
    /// Points behind the position.
    points: u64,
    position: u64,
}

/// A queue on disk.
pub struct Spool {
    disk: Arc<dyn Disk>,
    options: Options,
    ahead: Option<Ahead>,
    segments: Vec<Segment>,
    /// Number of the next segment; none is used again.
    next: u64,
    /// Where the next frame of the first segment begins.
    position: u64,
    /// What was read since the position was last written.
    unwritten: u64,
    /// Points before the position, of the first segment.
    read_points: u64,
    is_synced: bool,
    synced_at: Duration,
    lost: u64,
}

const POSITION: &str = "position";
const AHEAD: &str = "ahead";
/// Bytes that may be delivered again after a crash.
const POSITION_EVERY_BYTES: u64 = 4 << 20;

const LEFT_OUT: &str = "a file of a spool is damaged or gone; the rest of it is left out";

/// Whether a file was removed by somebody else.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

fn name(number: u64) -> String {
    format!("{number:016x}.spool")
}

impl Spool {
    /// Opens what is there. The end of a segment that a crash cut is cut off.
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
            // Only the last one can have been cut by a crash; what others hold is verified when it is read.
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

    /// Walks the frames of a segment; what is behind the last whole one is cut off.
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
            // A position where no frame begins is not this segment's.
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
                "the end of a spool's segment was cut off"
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

    /// Reads the header at an offset; `None` where no frame fits.
    fn header(&self, file: &str, at: u64, end: u64) -> io::Result<Option<Header>> {
        let mut header = [0; HEADER_BYTES];
        if at + HEADER_BYTES as u64 > end || self.disk.read(file, at, &mut header)? < HEADER_BYTES {
            return Ok(None);
        }
        Ok(Header::read(&header).filter(|header| at + (HEADER_BYTES + header.bytes) as u64 <= end))
    }

    /// Reads the frame at an offset; `None` where there is no whole one.
    fn frame(&self, file: &str, at: u64, end: u64, lines: &mut Vec<u8>) -> io::Result<Option<Header>> {
        let Some(header) = self.header(file, at, end)? else { return Ok(None) };
        lines.resize(header.bytes, 0);
        let read = self.disk.read(file, at + HEADER_BYTES as u64, lines)?;
        Ok(Some(header).filter(|header| read == header.bytes && header.holds(lines)))
    }

    /// Adds lines, at most [`LINES_BYTES_MAX`] bytes of them, to the end. After an error nothing was added.
    pub fn push(&mut self, lines: &[u8], points: u32, now: Duration) -> io::Result<()> {
        let mut frame = Vec::with_capacity(HEADER_BYTES + lines.len());
        frame::write(lines, points, &mut frame);
        self.make_room(frame.len() as u64);
        if self.segments.last().is_none_or(|last| last.bytes >= self.options.segment_bytes) {
            // A segment that is full is not looked at again when the next one is made durable.
            if self.options.sync != Sync::Never {
                self.sync(now)?;
            }
            self.begin_segment();
        }
        let Some(last) = self.segments.last_mut() else { return Ok(()) };
        let file = name(last.number);
        if let Err(error) = self.disk.append(&file, &frame) {
            // What was added of the frame must not stand before the next one.
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

    /// Whether something was written whose time to be made durable has come.
    pub fn is_sync_due(&self, now: Duration) -> bool {
        let is_due = match self.options.sync {
            Sync::Always => true,
            Sync::Every(every) => now.saturating_sub(self.synced_at) >= every,
            Sync::Never => false,
        };
        is_due && !self.is_synced
    }

    /// Makes what was written durable if its time has come.
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

    /// Puts lines in front of all that are there, to be read next. After an error nothing has changed.
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
            tracing::warn!(%error, "lines of a broken connection may be lost with the machine's power");
        }
        Ok(())
    }

    /// The next lines, at most `bytes_max` of them unless one frame holds more; they stay until confirmed.
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

    /// Frames of a file from a position on; none when there is no whole one.
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

    /// The batch that was read last was delivered.
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
            tracing::warn!(%error, "what a broken connection had lost is written again after a restart");
        }
    }

    /// Writes the position, so that a restart does not deliver again what was confirmed.
    pub fn write_position(&mut self) {
        // Segments below this number are gone.
        let number = self.segments.first().map_or(self.next, |first| first.number);
        let mut bytes = [number.to_le_bytes(), self.position.to_le_bytes()].concat();
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        match self.disk.replace(POSITION, &bytes) {
            Ok(()) => self.unwritten = 0,
            Err(error) => tracing::warn!(%error, "the position of a spool cannot be written"),
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.ahead.is_none()
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        let ahead = self.ahead.as_ref().map_or(0, |ahead| ahead.bytes - ahead.position);
        ahead + self.segments.iter().map(|segment| segment.bytes).sum::<u64>()
    }

    /// Points that were lost since this was last asked.
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }
}

#[cfg(test)]
pub(crate) mod tests;
