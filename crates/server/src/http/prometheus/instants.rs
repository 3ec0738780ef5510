//! Floats of series over the steps of a query as JSON.
//!
//! Series of an answer have the same steps: the text of an instant is made once, for the first series, and
//! copied for the others. Others than those of the first series are written out.

use super::numbers;

/// Most instants whose text is kept, which takes no more memory than a piece.
const KEPT_MAX: usize = 4_096;
/// Longest text that is kept: seconds with decimals fit.
const TEXT_BYTES: usize = 23;

/// The text before the number of an instant, `,[1700000000,"`.
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

/// The instants of an answer, as far as they are known.
#[derive(Default)]
pub struct Instants {
    /// By rising time.
    known: Vec<Instant>,
    /// The place of the first that is not before the next one of the series that is written.
    at: usize,
    /// For the text of one.
    scratch: Vec<u8>,
}

impl Instants {
    /// A series begins.
    pub fn begin(&mut self) {
        self.at = 0;
    }

    /// Appends the floats that are left of a series, of which some are written, until the piece has so many
    /// bytes; how many are written then.
    pub fn push_floats(
        &mut self,
        (out, piece_bytes): (&mut Vec<u8>, usize),
        done: usize,
        left: impl ExactSizeIterator<Item = (i64, f64)>,
    ) -> usize {
        let all = done + left.len();
        let mut written = done;
        for (ms, value) in left {
            if out.len() >= piece_bytes {
                return written;
            }
            let begin = out.len();
            self.push_begin(out, ms);
            if written == 0 {
                // A comma stands before the others.
                out.splice(begin..=begin, *b",\"values\":[");
            }
            numbers::plain(out, value);
            out.extend_from_slice(b"\"]");
            written += 1;
        }
        if written == all && written > done {
            out.push(b']');
        }
        written
    }

    /// Appends what stands before the number of an instant, a comma first.
    fn push_begin(&mut self, out: &mut Vec<u8>, ms: i64) {
        while self.known.get(self.at).is_some_and(|instant| instant.ms < ms) {
            self.at += 1;
        }
        if self.at == self.known.len() && self.at < KEPT_MAX {
            self.known.extend(Instant::of(ms, &mut self.scratch));
        }
        match self.known.get(self.at) {
            Some(instant) if instant.ms == ms => {
                // All bytes there can be are copied at once, which is quicker than those that there are.
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

    /// What is written of series in pieces of any size, after bytes that are there already.
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
                assert!(done > before, "a piece takes at least one sample");
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
    fn floats_are_written_as_one_by_one() {
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
