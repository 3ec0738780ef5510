//! Finds the blocks in a bucket by one listing, which also has the sizes of all files.
//!
//! Thanos and Mimir write `meta.json` last and delete it first. A folder that has the name of a block and no
//! `meta.json` is a block that is being uploaded or deleted, which neither of them reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandur_runtime::Env;
use sandur_store::{Access, Intent, ObjectInfo, Store, StoreOptions};
use sandur_terminal::Failed;

use super::pieces::Bucket;
use super::place::{BLOCKS_MAX, DELETION_MARK, DEPTH_MAX, Files, Found, META, Objects};

/// Characters of the name of a block, a ULID.
const ULID_CHARACTERS: usize = 26;

/// The blocks of a bucket.
pub struct Listing {
    /// The bucket.
    pub bucket: Bucket,
    /// The blocks.
    pub blocks: Vec<Found>,
    /// Folders of blocks without `meta.json`.
    pub partial: Vec<String>,
}

/// Opens the bucket of a URL and lists its blocks.
pub async fn list(env: Env, url: &str) -> Result<Listing, Failed> {
    let options = StoreOptions { access: Access::ReadOnly, probe: false, ..StoreOptions::default() };
    let opened = Store::open(url, env.clone(), options).await;
    let store = opened.map_err(|error| Failed::new(error.to_string()))?;
    list_store(Bucket::new(env, store)).await
}

/// Lists the blocks of an open store.
pub async fn list_store(bucket: Bucket) -> Result<Listing, Failed> {
    let objects = bucket.store.list("", Intent::block()).await;
    let objects = objects.map_err(|error| Failed::new(error.to_string()))?;
    let mut by_folder = BTreeMap::<&str, Vec<&ObjectInfo>>::new();
    for object in &objects {
        let folder = block_of(&object.path).filter(|folder| folder.split('/').count() <= DEPTH_MAX);
        folder.into_iter().for_each(|folder| by_folder.entry(folder).or_default().push(object));
    }
    let mut listing = Listing { bucket, blocks: Vec::new(), partial: Vec::new() };
    for (folder, of_block) in by_folder {
        listing.add(folder, &of_block)?;
    }
    Ok(listing)
}

/// The folder of the block to which an object belongs, or might belong; empty for a block at the URL itself.
fn block_of(path: &str) -> Option<&str> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    match name {
        META | DELETION_MARK | "index" | "tombstones" => Some(folder),
        _ if folder == "chunks" => Some(""),
        _ => folder.strip_suffix("/chunks"),
    }
}

/// Whether a folder has the name of a block.
fn is_block_name(folder: &str) -> bool {
    let name = folder.rsplit('/').next().unwrap_or_default();
    name.len() == ULID_CHARACTERS && name.bytes().all(|b| b.is_ascii_alphanumeric())
}

impl Listing {
    fn add(&mut self, folder: &str, objects: &[&ObjectInfo]) -> Result<(), Failed> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let named = |object: &&ObjectInfo| Some((object.path.strip_prefix(&prefix)?.to_owned(), object.size));
        let sizes: Vec<(String, u64)> = objects.iter().filter_map(named).collect();
        let has = |name: &str| sizes.iter().any(|(known, _)| known == name);
        let (base, _) = self.bucket.store.url().split_once('?').unwrap_or((self.bucket.store.url(), ""));
        let name = format!("{}/{folder}", base.trim_end_matches('/'));
        let name = name.trim_end_matches('/').to_owned();
        let is_marked = has(DELETION_MARK);
        if !has(META) {
            if !is_marked && is_block_name(folder) {
                self.partial.push(name);
            }
            return Ok(());
        }
        if self.blocks.len() >= BLOCKS_MAX {
            return Err(Failed::new(format!(
                "{base} has more than {BLOCKS_MAX} blocks: import the prefixes below it apart"
            )));
        }
        let objects = Objects { bucket: self.bucket.clone(), prefix, sizes, pieces: Arc::default() };
        self.blocks.push(Found { name, is_marked, files: Files::Bucket(objects) });
        Ok(())
    }
}
