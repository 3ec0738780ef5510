//! When a path had a value last, as far as it can be told without reading values: in which of some times
//! before the present it is known.
//!
//! **Invariant.** Paths are asked about in their order, so each scan is read once.

use sandur_query::{Error, TextScan};

/// Seconds before the present that are told apart.
pub(crate) const WINDOWS: [i64; 6] = [300, 3_600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400];

/// The paths of one of these times.
struct Window {
    /// The last instant that none of the shorter times has.
    until: i64,
    scan: Box<dyn TextScan>,
    batch: std::vec::IntoIter<String>,
    next: Option<String>,
    is_over: bool,
}

impl Window {
    /// Whether it has a path; those before it are passed.
    async fn has(&mut self, path: &str) -> Result<bool, Error> {
        while !self.is_over && self.next.as_deref().is_none_or(|next| next < path) {
            self.next = self.batch.next();
            if self.next.is_none() {
                match self.scan.next().await? {
                    Some(batch) => {
                        let texts: Vec<String> = batch.iter().map(str::to_owned).collect();
                        self.batch = texts.into_iter();
                    }
                    None => self.is_over = true,
                }
            }
        }
        Ok(self.next.as_deref() == Some(path))
    }
}

/// Times of last values; without any they are not told.
#[derive(Default)]
pub(crate) struct Ages {
    windows: Vec<Window>,
    oldest: i64,
}

impl Ages {
    /// By the paths of each of [`WINDOWS`].
    pub(crate) fn by(scans: Vec<Box<dyn TextScan>>, now: i64) -> Self {
        let windows = scans.into_iter().enumerate().map(|(place, scan)| Window {
            until: place.checked_sub(1).map_or(now, |shorter| now - WINDOWS[shorter]),
            scan,
            batch: Vec::new().into_iter(),
            next: None,
            is_over: false,
        });
        Self { windows: windows.collect(), oldest: now - WINDOWS[WINDOWS.len() - 1] }
    }

    /// An instant that the last value of a path is not after; 0 when it is not told.
    pub(crate) async fn last(&mut self, path: &str) -> Result<i64, Error> {
        if self.windows.is_empty() {
            return Ok(0);
        }
        for window in &mut self.windows {
            if window.has(path).await? {
                return Ok(window.until);
            }
        }
        Ok(self.oldest)
    }
}
