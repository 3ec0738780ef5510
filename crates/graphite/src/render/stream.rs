//! Writes the series of several requests one after the other, piece by piece while they are read.
//!
//! A path or a pattern of paths is read in batches. The result of a function is computed completely, one
//! request at a time.

use std::collections::VecDeque;
use std::sync::Arc;

use sandur_query::QueryContext;

use super::{RenderRequest, render, write};
use crate::error::Result;
use crate::glob::Pattern;
use crate::grammar::{Expr, parse};
use crate::series::Series;
use crate::source::{Fetched, Window};
use crate::stored::{SeriesStream, StoredSeries};

/// A piece is complete when it has this many bytes.
const PIECE_BYTES: usize = 64 << 10;

/// An answer to several requests in progress. Its formats allow the series of several requests to be
/// concatenated.
pub struct RenderStream {
    left: VecDeque<RenderRequest>,
    open: Option<(RenderRequest, SeriesStream)>,
}

impl RenderStream {
    /// The answer to these requests.
    pub fn new(requests: impl IntoIterator<Item = RenderRequest>) -> Self {
        Self { left: requests.into_iter().collect(), open: None }
    }

    /// Whether the last piece is complete.
    pub fn is_over(&self) -> bool {
        self.left.is_empty() && self.open.is_none()
    }

    /// The next piece.
    pub async fn piece(&mut self, source: &StoredSeries<'_>, context: &QueryContext) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        while body.len() < PIECE_BYTES && !self.is_over() {
            match self.open.take() {
                None => self.begin(source, context, &mut body).await?,
                Some((request, mut stream)) => {
                    let Some(found) = stream.next(context).await? else { continue };
                    body.append(&mut written(context, &request, found).await?);
                    self.open = Some((request, stream));
                }
            }
        }
        Ok(body)
    }

    /// Opens the series of the next request, or answers it completely.
    async fn begin(
        &mut self,
        source: &StoredSeries<'_>,
        context: &QueryContext,
        body: &mut Vec<u8>,
    ) -> Result<()> {
        let Some(request) = self.left.pop_front() else { return Ok(()) };
        match only_pattern(&request)? {
            None => body.append(&mut render(source, context, &request).await?.body),
            Some(pattern) => {
                let (from, until) = request.times();
                let window = Window { from, until, now: request.now };
                let stream = source.stream(context, &pattern, window).await?;
                self.open = stream.map(|stream| (request, stream));
            }
        }
        Ok(())
    }
}

/// The pattern of paths, if the request has only that target.
fn only_pattern(request: &RenderRequest) -> Result<Option<Pattern>> {
    let [target] = request.targets.as_slice() else { return Ok(None) };
    match &*parse(target)? {
        Expr::Path(path) if !path.contains([';', '$']) => Pattern::parse(path).map(Some),
        _ => Ok(None),
    }
}

async fn written(context: &QueryContext, request: &RenderRequest, found: Vec<Fetched>) -> Result<Vec<u8>> {
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let (request, share) = (request.clone(), request.x_files_factor);
    let path: Arc<str> = request.targets[0].as_str().into();
    let write = move || {
        let series = |fetched| Series::of_fetched(fetched, &path, share);
        Ok(write(&request, found.into_iter().map(series).collect()))
    };
    Ok(context.compute(write).await??.body)
}
