//! Reads backups and verifies that they are whole.

use std::collections::BTreeSet;

use sandur_base::Id;
use sandur_catalog::CatalogCopy;
use sandur_format::catalog_entry::BackupManifest;
use sandur_runtime::Env;
use sandur_store::Intent;

use crate::copy::verify_blocks;
use crate::error::Error;
use crate::place::{self, Place};
use crate::rules;
use crate::step::{Progress, Step};
use crate::wal;

impl Place {
    /// Reads the catalog of a backup.
    pub(crate) async fn read_catalog(
        &self,
        manifest: &BackupManifest,
        env: &Env,
    ) -> Result<CatalogCopy, Error> {
        let below = place::below(manifest.id);
        Ok(CatalogCopy::read(&self.store, env, &below, (manifest.at, manifest.root)).await?)
    }

    /// Reads catalog, WAL and rules of a backup and fails if they are damaged, or if a block is missing or
    /// has another size.
    pub(crate) async fn expect_whole(
        &self,
        manifest: &BackupManifest,
        env: &Env,
    ) -> Result<CatalogCopy, Error> {
        let copy = self.read_catalog(manifest, env).await?;
        let below = wal::below(manifest.id, manifest.attempt);
        for object in &manifest.wal {
            wal::read_copy(&self.store, &below, object).await?;
        }
        for object in &manifest.rules {
            rules::read_copy(&self.store, manifest.id, object).await?;
        }
        let sizes = self.blocks().await?;
        for block in copy.snapshot.all_blocks() {
            let path = block.path();
            let listed = sizes.get(&path).copied();
            // A listing may be older than the newest blocks.
            let size = match listed {
                Some(size) => Some(size),
                None => self.store.head(&path, Intent::gc()).await?.map(|object| object.size),
            };
            let problem = match size {
                Some(size) if size == block.size => continue,
                Some(size) => format!("it has {size} bytes, the catalog says {}", block.size),
                None => "it is missing".to_owned(),
            };
            return Err(Error::Damaged { url: self.url(), path, problem });
        }
        Ok(copy)
    }

    /// Reads every object of a backup, every page of its blocks too, and fails if one is damaged. Blocks in
    /// `verified` are not read again; those that are sound are added to it.
    pub async fn verify(
        &self,
        manifest: &BackupManifest,
        env: &Env,
        progress: &Progress,
        verified: &mut BTreeSet<Id>,
    ) -> Result<(), Error> {
        let copy = self.expect_whole(manifest, env).await?;
        let blocks = copy.snapshot.all_blocks().filter(|block| !verified.contains(&block.id));
        let blocks: Vec<_> = blocks.cloned().collect();
        let bytes = blocks.iter().map(|block| block.size).sum();
        progress(Step::Blocks { blocks: blocks.len() as u64, bytes });
        verify_blocks(&self.store, blocks, progress, verified).await
    }
}
