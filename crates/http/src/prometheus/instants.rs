//! Writes the floats of series over the steps of a query as JSON.
//!
//! The series of an answer have the same steps. The text of each timestamp is formatted for the first
//! series and copied for the others. Timestamps that the first series does not have are formatted each
//! time.

use sandur_model::decimal::{WHOLE_BYTES, put_whole_float};

use super::numbers;

/// Maximum number of cached timestamps; they take no more memory than a piece.
const KEPT_MAX: usize = 4_096;
/// Maximum length of a cached text: seconds with decimals fit.
const TEXT_BYTES: usize = 23;
/// Size of the buffer for a sample with a cached timestamp and an integer value. It is constant, so that
/// the copy has a fixed length.
const SAMPLE_BYTES: usize = 48;
/// The text after a number.
const END: [u8; 2] = *b"\"]";
const _: () = assert!(TEXT_BYTES + WHOLE_BYTES + END.len() <= SAMPLE_BYTES);

/// The text of a timestamp with what precedes the value: `,[1700000000,"`.
struct Instant {
    ms: i64,
    text: [u8; TEXT_BYTES],
    len: u8,
}

impl Instant {
    fn of(ms: i64, scratch: &mut Vec<u8>) -> Option<Self> {
        scratch.clear();
        push_begin(scratch, ms);
        let mut text = [0; TEXT_BYTES];
        text.get_mut(..scratch.len())?.copy_from_slice(scratch);
        Some(Self { ms, text, len: scratch.len() as u8 })
    }
}

fn push_begin(out: &mut Vec<u8>, ms: i64) {
    out.extend_from_slice(b",[");
    numbers::seconds(out, ms);
    out.extend_from_slice(b",\"");
}

/// The cached timestamps of an answer.
#[derive(Default)]
pub struct Instants {
    /// In ascending order.
    known: Vec<Instant>,
    /// Index of the first cached timestamp that is not before the next sample of the series.
    at: usize,
    /// Buffer for formatting a timestamp.
    scratch: Vec<u8>,
}

impl Instants {
    /// Begins a series.
    pub fn begin(&mut self) {
        self.at = 0;
    }

    /// Appends the remaining floats of a series, of which `done` were written before, until the piece has
    /// `piece_bytes` bytes. Returns how many are written then.
    pub fn push_floats(
        &mut self,
        (out, piece_bytes): (&mut Vec<u8>, usize),
        done: usize,
        left: impl ExactSizeIterator<Item = (i64, f64)>,
    ) -> usize {
        let all = done + left.len();
        let mut written = done;
        if self.known.is_empty() {
            self.known.reserve_exact(left.len().min(KEPT_MAX));
        }
        for (ms, value) in left {
            if out.len() >= piece_bytes {
                return written;
            }
            let begin = out.len();
            if written == 0 || !self.push_quick(out, ms, value) {
                self.push_begin(out, ms);
                numbers::plain(out, value);
                out.extend_from_slice(&END);
            }
            if written == 0 {
                // The other samples begin with a comma.
                out.splice(begin..=begin, *b",\"values\":[");
            }
            written += 1;
        }
        if written == all && written > done {
            out.push(b']');
        }
        written
    }

    /// Appends a comma and a sample if its timestamp is cached and its value is an integer. Returns
    /// whether it did. The sample is assembled in a local buffer, which avoids a bounds check for each
    /// part.
    #[inline]
    fn push_quick(&mut self, out: &mut Vec<u8>, ms: i64, value: f64) -> bool {
        let Some(instant) = self.known.get(self.at + 1).filter(|instant| instant.ms == ms) else {
            return false;
        };
        let mut sample = [0; SAMPLE_BYTES];
        sample[..TEXT_BYTES].copy_from_slice(&instant.text);
        let at = usize::from(instant.len).min(TEXT_BYTES);
        let number = sample[at..].first_chunk_mut::<WHOLE_BYTES>();
        let Some(count) = number.and_then(|number| put_whole_float(number, value)) else { return false };
        let end = at + count;
        sample[end..end + END.len()].copy_from_slice(&END);
        let length = out.len() + end + END.len();
        out.extend_from_slice(&sample);
        out.truncate(length);
        self.at += 1;
        true
    }

    /// Appends the text before the value of a sample, with a leading comma.
    fn push_begin(&mut self, out: &mut Vec<u8>, ms: i64) {
        while self.known.get(self.at).is_some_and(|instant| instant.ms < ms) {
            self.at += 1;
        }
        if self.at == self.known.len() && self.at < KEPT_MAX {
            self.known.extend(Instant::of(ms, &mut self.scratch));
        }
        match self.known.get(self.at) {
            Some(instant) if instant.ms == ms => {
                // Copying a fixed number of bytes and truncating is faster than a copy of variable
                // length.
                let length = out.len() + usize::from(instant.len);
                out.extend_from_slice(&instant.text);
                out.truncate(length);
            }
            _ => push_begin(out, ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE_BYTES: usize = 64 << 10;

    /// What is written for the series in pieces that begin with `filled` bytes.
    fn written(series: &[Vec<(i64, f64)>], filled: usize) -> String {
        let mut instants = Instants::default();
        let mut all = String::new();
        for floats in series {
            instants.begin();
            let mut done = 0;
            while done < floats.len() {
                let mut out = vec![b' '; filled];
                let before = done;
                let left = floats[done..].iter().copied();
                done = instants.push_floats((&mut out, PIECE_BYTES), done, left);
                assert!(done > before, "a piece has at least one sample");
                all += std::str::from_utf8(&out[filled..]).unwrap();
            }
        }
        all
    }

    fn plainly(series: &[Vec<(i64, f64)>]) -> String {
        let mut out = Vec::new();
        for floats in series.iter().filter(|floats| !floats.is_empty()) {
            out.extend_from_slice(b",\"values\":[");
            for (n, (ms, value)) in floats.iter().enumerate() {
                out.extend_from_slice(if n == 0 { b"" } else { b"," });
                numbers::sample(&mut out, *ms, *value);
            }
            out.push(b']');
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn floats_are_written_as_if_each_timestamp_were_formatted() {
        let grid = |from: i64, step: i64, count: i64| -> Vec<(i64, f64)> {
            (0..count).map(|n| (from + n * step, n as f64 / 7.0)).collect()
        };
        let even = |floats: &[(i64, f64)]| floats.iter().copied().step_by(2).collect::<Vec<_>>();
        let full = grid(1_700_000_000_000, 15_000, 500);
        let series = vec![
            even(&full),
            full.clone(),
            Vec::new(),
            full[100..].to_vec(),
            grid(-9_000, 500, 40),
            grid(i64::MIN, 1, 2),
            grid(1_700_000_000_123, 15_000, 5_000),
            grid(1_700_000_000_123, 15_000, 5_000),
            vec![(1_700_000_000_000, f64::NAN), (1_700_000_015_000, -0.0), (i64::MAX, 1e300)],
        ];
        for filled in [0, PIECE_BYTES / 2, PIECE_BYTES - 1] {
            assert_eq!(written(&series, filled), plainly(&series), "{filled}");
        }
    }
}
