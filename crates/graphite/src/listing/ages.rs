//! Estimates when a path last had a value, without reading values: by whether the path occurs in each of
//! several time windows before the present.
//!
//! **Invariant.** Paths are queried in order, so that each scan is read once.

use sandur_query::{Error, TextScan};

/// The lengths of the windows before the present, in seconds.
pub(crate) const WINDOWS: [i64; 6] = [300, 3_600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400];

/// The paths that occur in one window.
struct Window {
    /// The last instant that no shorter window includes.
    until: i64,
    scan: Box<dyn TextScan>,
    batch: std::vec::IntoIter<String>,
    next: Option<String>,
    is_over: bool,
}

impl Window {
    /// Whether the window has a path; skips the paths before it.
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

/// Estimated times of last values; without windows there are none.
#[derive(Default)]
pub(crate) struct Ages {
    windows: Vec<Window>,
    oldest: i64,
}

impl Ages {
    /// By the scans of paths in each of [`WINDOWS`].
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

    /// An upper bound of the time of the last value of a path, in seconds since 1970; 0 if there are no
    /// windows.
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
