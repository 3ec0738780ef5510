//! Opens the scans of paths for listings, which are read while the answer is written.

use std::sync::Arc;

use sandur_model::{MatchOp, Matcher, TimeRange, graphite_level};
use sandur_query::{Error, QueryContext, SeriesRequest};

use super::matchers::{NAME, of_pattern};
use super::{StoredSeries, seconds};
use crate::listing::{Ages, Listing, ListingForm, ListingRequest, ListingSource, WINDOWS};

impl StoredSeries<'_> {
    /// The listing of a request; `now` is in seconds since 1970.
    pub async fn listing(
        &self,
        context: &QueryContext,
        request: ListingRequest,
        now: i64,
    ) -> Result<Listing, Error> {
        let mut source = ListingSource { paths: None, ages: Ages::default(), rules: Arc::clone(&self.rules) };
        if let Some(matchers) = context.compute_here(|| Ok(conditions(&request)))? {
            if matches!(request.form, ListingForm::Details(_)) {
                let mut scans = Vec::with_capacity(WINDOWS.len());
                for window in WINDOWS {
                    let range = seconds((now.saturating_sub(window), i64::MAX));
                    scans.push(
                        self.samples
                            .texts(context, SeriesRequest::new(matchers.clone(), range).values(NAME))
                            .await?,
                    );
                }
                source.ages = Ages::by(scans, now);
            }
            let all = self.samples.texts(context, SeriesRequest::new(matchers, TimeRange::ALL).values(NAME));
            source.paths = Some(all.await?);
        }
        Ok(Listing::new(context.clone(), request, source))
    }
}

/// The label matchers of series whose paths may be listed; `None` if there are none.
fn conditions(request: &ListingRequest) -> Option<Vec<Matcher>> {
    match &request.pattern {
        None => Matcher::new(graphite_level(0)?, MatchOp::NotEqual, "").ok().map(|is_path| vec![is_path]),
        Some(pattern) => {
            let conditions = of_pattern(pattern)?;
            Some(if request.leaves_only { conditions.of_leaves() } else { conditions.levels })
        }
    }
}
