//! The upload of a new block to the store, for flushes and merges.
//!
//! The pieces that go to the store go into the cache as well, so that the first query for new rows finds
//! them there. An object that no commit names is garbage: the process that wrote it deletes it at once,
//! otherwise garbage collection does.

use bytes::Bytes;
use sandur_format::block::BlockSummary;
use sandur_format::catalog_entry::BlockMeta;
use sandur_store::{Intent, Store, Upload};

use crate::blocks::bytes::{BlockBytes, WriteThrough};
use crate::error::Error;

/// A block that is being stored.
pub(crate) struct BlockUpload {
    path: String,
    upload: Upload,
    through: WriteThrough,
}

impl BlockUpload {
    /// Begins the object of a block.
    pub(crate) async fn begin(store: &Store, bytes: &BlockBytes, meta: &BlockMeta) -> Result<Self, Error> {
        let path = meta.path();
        let upload = store.upload(&path, Intent::block()).await?;
        let through = bytes.write_through(meta.id, &meta.dataset.tenant);
        Ok(Self { path, upload, through })
    }

    /// Stores the next pieces. With `has_footer` the last one is the footer.
    pub(crate) async fn write(&mut self, pieces: Vec<Bytes>, has_footer: bool) -> Result<(), Error> {
        self.through.pieces(&pieces, has_footer);
        for piece in pieces {
            self.upload.write(piece).await?;
        }
        Ok(())
    }

    /// Completes the object, whose size must be that of the summary.
    pub(crate) async fn finish(self, summary: &BlockSummary) -> Result<(), Error> {
        let size = self.upload.finish().await?;
        if size != summary.size {
            let (path, wanted) = (self.path, summary.size);
            return Err(Error::Internal(format!("block '{path}' took {size} bytes of {wanted}")));
        }
        Ok(())
    }
}

/// Deletes the object of a block that no commit names or will name. Returns false when the store fails;
/// then garbage collection deletes it.
pub(crate) async fn delete_unneeded(store: &Store, meta: &BlockMeta) -> bool {
    let deleted = store.delete(&meta.path(), Intent::gc()).await;
    if let Err(error) = &deleted {
        tracing::warn!(path = meta.path(), %error, "a block that is not needed could not be deleted");
    }
    deleted.is_ok()
}
