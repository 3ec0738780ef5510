//! Copies blocks between stores and verifies the copies.
//!
//! A block is read and written in chunks, so memory does not depend on its size: each of
//! [`BLOCKS_IN_FLIGHT`] blocks takes a chunk and the buffers of an upload, at most about 50 MiB.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use sandur_base::units::MIB;
use sandur_base::{BoxFuture, Id};
use sandur_catalog::check_block;
use sandur_format::catalog_entry::BlockMeta;
use sandur_runtime::{Env, Pace};
use sandur_store::{Intent, Store};

use crate::error::Error;
use crate::step::{Progress, Step};

/// Blocks that are copied at a time.
const BLOCKS_IN_FLIGHT: usize = 4;
/// Bytes that are read with one request.
const CHUNK_BYTES: u64 = 8 * MIB;

/// Number of checks after which a block is damaged, and the pause between them: a store that fails for a
/// moment is not damage.
const CHECKS_MAX: u32 = 4;
const PAUSE: Duration = Duration::from_secs(5);

/// What is done with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It is copied, then verified.
    Copy,
    /// There is a copy of its size, which is verified; a damaged one is replaced.
    Verify,
}

/// Copies blocks from one store to another.
pub struct Copier {
    pub env: Env,
    pub from: Store,
    pub to: Store,
    pub pace: Pace,
    pub progress: Progress,
}

impl Copier {
    /// Copies and verifies blocks. Returns the paths of those that do not exist in the source.
    pub async fn blocks(&self, needed: Vec<(Arc<BlockMeta>, Need)>) -> Result<Vec<String>, Error> {
        let bytes = needed.iter().map(|(block, _)| block.size).sum();
        (self.progress)(Step::Blocks { blocks: needed.len() as u64, bytes });
        let copies = needed.into_iter().map(|(block, need)| self.begin(block, need));
        let mut running = stream::iter(copies).buffer_unordered(BLOCKS_IN_FLIGHT);
        let mut gone = Vec::new();
        while let Some(copied) = running.next().await {
            gone.extend(copied?);
        }
        Ok(gone)
    }

    /// Returns the path of a block that does not exist in the source.
    fn begin(&self, block: Arc<BlockMeta>, need: Need) -> BoxFuture<'_, Result<Option<String>, Error>> {
        Box::pin(async move {
            let is_there = self.block(&block, need).await?;
            (self.progress)(Step::Done(block.size));
            Ok((!is_there).then(|| block.path()))
        })
    }

    /// Returns false if the block does not exist in the source.
    async fn block(&self, block: &BlockMeta, need: Need) -> Result<bool, Error> {
        if need == Need::Verify && self.check(&self.to, block).await.is_ok() {
            return Ok(true);
        }
        if !self.transfer(&block.path(), block.size).await? {
            return Ok(false);
        }
        match self.check(&self.to, block).await {
            Ok(()) => Ok(true),
            Err(problem) => self.explain(block, problem).await,
        }
    }

    /// Verifies a block; repeats that, because a read may fail although the block is intact.
    async fn check(&self, store: &Store, block: &BlockMeta) -> Result<(), String> {
        let mut checks = 1;
        loop {
            match check_block(store, block).await {
                Ok(_) => return Ok(()),
                Err(problem) if checks >= CHECKS_MAX => return Err(problem),
                Err(_) => checks += 1,
            }
            self.env.sleep(PAUSE).await;
        }
    }

    /// Finds out whether the source or the copy is damaged.
    async fn explain(&self, block: &BlockMeta, problem: String) -> Result<bool, Error> {
        let path = block.path();
        let store = match self.check(&self.from, block).await {
            Ok(()) => &self.to,
            Err(_) if self.from.head(&path, Intent::gc()).await?.is_none() => return Ok(false),
            Err(_) => &self.from,
        };
        Err(Error::Damaged { url: store.url().to_owned(), path, problem })
    }

    async fn transfer(&self, path: &str, size: u64) -> Result<bool, Error> {
        let mut upload = self.to.upload(path, Intent::block()).await?;
        let mut at = 0;
        while at < size {
            let end = size.min(at + CHUNK_BYTES);
            self.pace.take(end - at).await;
            match self.from.get_range(path, at..end, Intent::block()).await {
                Ok(bytes) => upload.write(bytes).await?,
                Err(error) => {
                    upload.abort().await?;
                    return if error.is_not_found() { Ok(false) } else { Err(error.into()) };
                }
            }
            at = end;
        }
        upload.finish().await?;
        Ok(true)
    }
}

/// Verifies blocks of a store, and adds the ids of the sound ones to `verified`; fails for the first damaged
/// one.
pub async fn verify_blocks(
    store: &Store,
    blocks: Vec<Arc<BlockMeta>>,
    progress: &Progress,
    verified: &mut BTreeSet<Id>,
) -> Result<(), Error> {
    let checks = blocks.into_iter().map(|block| verify_block(store, block, progress));
    let mut running = stream::iter(checks).buffer_unordered(BLOCKS_IN_FLIGHT);
    while let Some(outcome) = running.next().await {
        verified.insert(outcome?);
    }
    Ok(())
}

fn verify_block<'a>(
    store: &'a Store,
    block: Arc<BlockMeta>,
    progress: &'a Progress,
) -> BoxFuture<'a, Result<Id, Error>> {
    Box::pin(async move {
        let outcome = check_block(store, &block).await;
        progress(Step::Done(block.size));
        outcome.map(|_| block.id).map_err(|problem| {
            let (url, path) = (store.url().to_owned(), block.path());
            Error::Damaged { url, path, problem }
        })
    })
}
