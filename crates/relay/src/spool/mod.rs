//! A bounded queue on disk: frames of lines in segments, read in the order in which they were written.
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
    segment: u64,
}

/// A queue on disk.
pub struct Spool {
    disk: Arc<dyn Disk>,
    options: Options,
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
/// Bytes that may be delivered again after a crash.
const POSITION_EVERY_BYTES: u64 = 4 << 20;

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
        spool.start_at(position);
        Ok(spool)
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

    fn start_at(&mut self, position: Option<(u64, u64)>) {
        if let (Some((number, offset)), Some(first)) = (position, self.segments.first())
            && first.number == number
            && offset <= first.bytes
        {
            self.position = offset;
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
            } else if self.disk.truncate(&file, last.bytes).is_err() {
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

    /// The next lines, at most `bytes_max` of them unless one frame holds more; they stay until confirmed.
    pub fn peek(&mut self, bytes_max: usize) -> io::Result<Option<Batch>> {
        let (mut batch, mut lines) = (Batch { lines: Vec::new(), points: 0, end: 0, segment: 0 }, Vec::new());
        while let Some(first) = self.segments.first() {
            let (file, mut at) = (name(first.number), self.position);
            while let Some(header) = self.frame(&file, at, first.bytes, &mut lines)? {
                if !batch.lines.is_empty() && batch.lines.len() + header.bytes > bytes_max {
                    break;
                }
                batch.lines.extend_from_slice(&lines);
                batch.points += u64::from(header.points);
                at += (HEADER_BYTES + header.bytes) as u64;
            }
            if !batch.lines.is_empty() {
                (batch.end, batch.segment) = (at, first.number);
                return Ok(Some(batch));
            }
            if at < first.bytes {
                let lost = first.points.saturating_sub(self.read_points);
                tracing::warn!(file, at, lost, "a spool's segment is damaged; the rest of it is left out");
                self.lost += lost;
            }
            self.drop_first();
        }
        Ok(None)
    }

    /// The batch that was read last was delivered.
    pub fn confirm(&mut self, batch: &Batch) {
        let Some(first) = self.segments.first().filter(|first| first.number == batch.segment) else { return };
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
        self.segments.is_empty()
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Points that were lost since this was last asked.
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }
}

#[cfg(test)]
pub(crate) mod tests;
