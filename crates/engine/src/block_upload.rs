//! A new block on its way into the store: the one path of flushes and merges.
//!
//! What the store gets goes into the cache as well, so that the first query for new rows finds them. An
//! object that no commit names is garbage: the process that knows deletes it at once, else collection does.

use bytes::Bytes;
use sandur_format::block::BlockSummary;
use sandur_format::catalog_entry::BlockMeta;
use sandur_store::{Intent, Store, Upload};

use crate::block_bytes::{BlockBytes, WriteThrough};
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

    /// Stores the next pieces; with the last ones of all comes the footer.
    pub(crate) async fn write(&mut self, pieces: Vec<Bytes>, has_footer: bool) -> Result<(), Error> {
        self.through.pieces(&pieces, has_footer);
        for piece in pieces {
            self.upload.write(piece).await?;
        }
        Ok(())
    }

    /// Ends the object, which must hold what its writer says.
    pub(crate) async fn finish(self, summary: &BlockSummary) -> Result<(), Error> {
        let size = self.upload.finish().await?;
        if size != summary.size {
            let (path, wanted) = (self.path, summary.size);
            return Err(Error::Internal(format!("block '{path}' took {size} bytes of {wanted}")));
        }
        Ok(())
    }
}

/// Deletes the object of a block that no commit names and none will; false when the store does not answer.
/// What is left then is found by garbage collection.
pub(crate) async fn delete_unneeded(store: &Store, meta: &BlockMeta) -> bool {
    let deleted = store.delete(&meta.path(), Intent::gc()).await;
    if let Err(error) = &deleted {
        tracing::warn!(path = meta.path(), %error, "a block that is not needed could not be deleted");
    }
    deleted.is_ok()
}
