//! Listings of the paths of series, read and written in pieces: carbonserver's `metrics/list`,
//! `metrics/list_query` and `metrics/details`.
//!
//! **Invariants.** Paths are sorted and distinct. Only a batch of paths and a piece of the answer are in
//! memory, whatever the number of paths.

mod ages;
mod form;

use std::sync::Arc;

use sandur_memory::job::spend;
use sandur_query::{Error, QueryContext, TextScan};

pub(crate) use ages::{Ages, WINDOWS};
pub use form::ListingForm;

use crate::glob::Pattern;
use crate::schemas::StorageRules;
use form::Totals;

/// A piece is complete when it has this many bytes.
const PIECE_BYTES: usize = 64 << 10;

/// The parameters of a listing.
#[derive(Clone, Debug)]
pub struct ListingRequest {
    /// The pattern of the paths; all paths without one.
    pub pattern: Option<Pattern>,
    /// Whether paths below a matching one are omitted.
    pub leaves_only: bool,
    /// The output format.
    pub form: ListingForm,
}

/// The source of a listing.
pub(crate) struct ListingSource {
    /// The paths that may match; `None` if no path can.
    pub(crate) paths: Option<Box<dyn TextScan>>,
    /// The estimated times of last values, for formats that include them.
    pub(crate) ages: Ages,
    pub(crate) rules: Arc<StorageRules>,
}

/// A listing in progress.
pub struct Listing {
    context: QueryContext,
    request: ListingRequest,
    source: ListingSource,
    totals: Totals,
    /// Whether the first piece is complete: after it, the answer cannot be changed to an error.
    is_sent: bool,
    is_over: bool,
}

impl Listing {
    pub(crate) fn new(context: QueryContext, request: ListingRequest, source: ListingSource) -> Self {
        Self { context, request, source, totals: Totals::default(), is_sent: false, is_over: false }
    }

    /// Whether the last piece is complete.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The number of paths listed so far.
    pub fn count(&self) -> u64 {
        self.totals.count
    }

    /// The next piece of the answer.
    pub async fn piece(&mut self) -> Result<Vec<u8>, Error> {
        let mut out = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 4);
        if !self.is_sent {
            self.request.form.begin(&mut out);
        }
        let context = self.context.clone();
        while out.len() < PIECE_BYTES && !self.is_over {
            context.check()?;
            if !context.in_time(self.add_batch(&mut out)).await?? {
                self.request.form.end(&mut out, &self.totals);
                self.is_over = true;
            }
        }
        self.is_sent = true;
        Ok(out)
    }

    /// Writes the next batch; returns whether there was one.
    async fn add_batch(&mut self, out: &mut Vec<u8>) -> Result<bool, Error> {
        let Some(paths) = &mut self.source.paths else { return Ok(false) };
        let mut retries = self.context.memory_retries();
        let next = loop {
            let next = paths.next().await;
            if !self.is_sent || !retries.repeat_step_after(&next).await {
                break next?;
            }
        };
        let Some(batch) = next else { return Ok(false) };
        let listed = self.context.compute_here(|| {
            let mut listed = Vec::with_capacity(batch.len());
            for path in batch.iter() {
                spend(64 + path.len())?;
                if self.request.fits(path) {
                    listed.push(path);
                }
            }
            Ok(listed)
        })?;
        let form = self.request.form;
        for path in listed {
            let last = self.source.ages.last(path).await?;
            let bytes = if form.has_sizes() { self.source.rules.of(path).whisper_bytes() } else { None };
            form.path(out, &mut self.totals, (path, bytes.unwrap_or(0), last));
        }
        Ok(true)
    }
}

impl ListingRequest {
    /// Whether a path matches, or is below one that does.
    fn fits(&self, path: &str) -> bool {
        let Some(pattern) = &self.pattern else { return true };
        if self.leaves_only {
            return pattern.matches(path);
        }
        let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
        ends.into_iter().any(|end| pattern.matches(&path[..end]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_match_and_paths_below_them_are_listed() {
        let request = |leaves_only| ListingRequest {
            pattern: Some(Pattern::parse("servers.*.cpu").unwrap()),
            leaves_only,
            form: ListingForm::Query { limit: 10, totals_only: false },
        };
        for (path, expected) in [
            ("servers.a.cpu", (true, true)),
            ("servers.a.cpu.user", (true, false)),
            ("servers.a", (false, false)),
            ("servers.a.cpux.b", (false, false)),
        ] {
            assert_eq!((request(false).fits(path), request(true).fits(path)), expected, "{path}");
        }
    }
}
