//! Removes hidden rows from the pages that a follower receives, and keeps the view up to date for it.

use std::sync::Arc;

use sandur_base::BoxFuture;
use sandur_model::{Dataset, LineColumn, LogPage};
use sandur_query::{Follow, Followed, QueryContext};
use sandur_runtime::Env;

use crate::error::FilterError;
use crate::logs::mask::{Mask, cut_runs};
use crate::reading::freshness::Freshness;
use crate::rules::Rulebook;
use crate::view::Views;

/// A follower without hidden rows.
pub(crate) struct MaskedFollow {
    inner: Box<dyn Follow>,
    env: Env,
    dataset: Dataset,
    views: Arc<Views>,
    freshness: Freshness,
    rulebook: Arc<Rulebook>,
}

impl MaskedFollow {
    pub fn new(
        inner: Box<dyn Follow>,
        context: &QueryContext,
        (views, freshness): (Arc<Views>, Freshness),
        rulebook: Arc<Rulebook>,
    ) -> Self {
        let (env, dataset) = (context.env().clone(), Dataset::logs(context.tenant().clone()));
        Self { inner, env, dataset, views, freshness, rulebook }
    }

    /// Removes the rows of the page that are hidden now.
    async fn mask(&mut self, page: Arc<LogPage>) -> Result<Arc<LogPage>, FilterError> {
        let rules = self.rulebook.hiding(&self.views.current().snapshot, &self.dataset).await?;
        let (first, last) = (page.timestamps.iter().min(), page.timestamps.iter().max());
        let (Some(&first), Some(&last)) = (first, last) else { return Ok(page) };
        let mask = Mask::of(rules.between(first, last).cloned().collect());
        let Some(mask) = mask else { return Ok(page) };
        let job = move || {
            let nothing = LineColumn { bytes: bytes::Bytes::new(), ends: Vec::new() };
            let lines = || Ok::<_, FilterError>(page.lines.as_ref().unwrap_or(&nothing));
            let hidden = mask.hidden(&page, lines)?;
            let mut page = Arc::unwrap_or_clone(page);
            page.runs = cut_runs(std::mem::take(&mut page.runs), &hidden);
            Ok(Arc::new(page))
        };
        self.env.run_cpu(QueryContext::lane_of(&self.dataset.tenant), job).await
    }
}

impl Follow for MaskedFollow {
    fn keep_up(&self) -> Vec<String> {
        self.freshness.keep_up()
    }

    fn next(&mut self) -> BoxFuture<'_, Option<Followed>> {
        Box::pin(async move {
            loop {
                match self.inner.next().await? {
                    Followed::Page(page) => {
                        let rows = page.rows() as u64;
                        match self.mask(page).await {
                            Ok(page) if page.runs.is_empty() => {}
                            Ok(page) => return Some(Followed::Page(page)),
                            // Rows that may be hidden are not shown.
                            Err(error) => {
                                tracing::debug!(dataset = %self.dataset, %error, "a follower loses rows");
                                return Some(Followed::Dropped(rows));
                            }
                        }
                    }
                    dropped => return Some(dropped),
                }
            }
        })
    }
}
