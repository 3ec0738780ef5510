//! Reads the footers of blocks, which describe a block without the catalog.

use sandur_format::BlockFooter;
use sandur_format::block::TRAILER_LEN;
use sandur_store::{Intent, Store};

use crate::error::Error;

/// Reads the footer of a block object of any signal. The inner error says why the footer is unusable.
pub(crate) async fn read_footer(
    store: &Store,
    path: &str,
    size: u64,
) -> Result<Result<BlockFooter, String>, Error> {
    if size < TRAILER_LEN as u64 {
        return Ok(Err(format!("has only {size} bytes")));
    }
    let missing = || Ok(Err("is missing".to_owned()));
    let tail = match store.get_range(path, size - TRAILER_LEN as u64..size, Intent::gc()).await {
        Ok(tail) => tail,
        Err(error) if error.is_not_found() => return missing(),
        Err(error @ sandur_store::Error::Length { .. }) => return Ok(Err(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    let range = match BlockFooter::locate(&tail, size) {
        Ok(range) => range,
        Err(error) => return Ok(Err(error.to_string())),
    };
    match store.get_range(path, range, Intent::gc()).await {
        Ok(bytes) => Ok(BlockFooter::open(bytes).map_err(|error| error.to_string())),
        Err(error) if error.is_not_found() => missing(),
        Err(error @ sandur_store::Error::Length { .. }) => Ok(Err(error.to_string())),
        Err(error) => Err(error.into()),
    }
}
