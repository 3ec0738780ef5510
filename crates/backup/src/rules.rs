//! Copies the rules that clients stored through the API.
//!
//! Every change of rules writes an object with a new name, then replaces the index, then deletes an object
//! that no index names any more (`docs/formats/stored-rules.md`). Each index has bytes of its own. So if the
//! index is the same before and after the objects are copied, every object that it names was there in the
//! meantime. The index is copied last, once, so a write that arrives late cannot change it.
//!
//! The contents are not decoded: rules that are damaged in the source are damaged in the same way in the
//! restored store, which reports them, and do not keep the rows from being backed up.

use std::collections::BTreeMap;

use bytes::Bytes;
use sandur_base::Id;
use sandur_format::catalog_entry::{BACKUP_RULES_MAX, RuleCopy};
use sandur_store::{Intent, Store};

use crate::error::Error;
use crate::place;
use sandur_runtime::Pace;

/// Prefix of stored rules, in a store as in a backup.
const RULES: &str = "rules";
/// The object that names the others.
const INDEX: &str = "index";
/// Most times that rules are copied because they were changed meanwhile. Only new objects are copied again.
const CHANGES_MAX: u32 = 16;

/// Copies the rules of a store to a backup.
pub async fn copy_rules(
    (from, to): (&Store, &Store),
    backup: Id,
    pace: &Pace,
) -> Result<Vec<RuleCopy>, Error> {
    let below = place::below(backup);
    let mut copied: BTreeMap<String, RuleCopy> = BTreeMap::new();
    for _ in 0..CHANGES_MAX {
        let index = read(from, INDEX).await?;
        let mut copies = Vec::new();
        for name in names(from).await? {
            let copy = match copied.get(&name) {
                Some(copy) => Some(copy.clone()),
                None => copy_object((from, to), &below, &name, pace).await?,
            };
            if let Some(copy) = copy {
                copied.insert(name, copy.clone());
                copies.push(copy);
            }
        }
        if read(from, INDEX).await? == index {
            if let Some(bytes) = index {
                copies.push(write(to, &below, INDEX, bytes).await?);
            }
            return Ok(copies);
        }
    }
    Err(Error::RulesChange { attempts: CHANGES_MAX })
}

/// Returns the names of all objects of rules below [`RULES`], except the index.
async fn names(store: &Store) -> Result<Vec<String>, Error> {
    let listed = store.list(RULES, Intent::catalog()).await?;
    let name = |path: &str| path.strip_prefix(RULES)?.strip_prefix('/').map(str::to_owned);
    let mut names: Vec<String> = listed.iter().filter_map(|object| name(&object.path)).collect();
    names.retain(|name| name != INDEX);
    if names.len() >= BACKUP_RULES_MAX {
        return Err(Error::TooManyRules { count: names.len(), limit: BACKUP_RULES_MAX });
    }
    Ok(names)
}

/// Copies an object; `None` if it was deleted meanwhile.
async fn copy_object(
    (from, to): (&Store, &Store),
    below: &str,
    name: &str,
    pace: &Pace,
) -> Result<Option<RuleCopy>, Error> {
    let Some(bytes) = read(from, name).await? else { return Ok(None) };
    pace.take(bytes.len() as u64).await;
    write(to, below, name, bytes).await.map(Some)
}

async fn read(store: &Store, name: &str) -> Result<Option<Bytes>, Error> {
    Ok(store.find(&path_of(name), Intent::catalog()).await?)
}

async fn write(to: &Store, below: &str, name: &str, bytes: Bytes) -> Result<RuleCopy, Error> {
    let path = format!("{below}/{}", path_of(name));
    let (size, checksum) = place::write_copy(to, &path, bytes, Intent::catalog()).await?;
    Ok(RuleCopy { name: name.to_owned(), size, checksum })
}

/// Returns the path of an object of rules in a store.
pub fn path_of(name: &str) -> String {
    format!("{RULES}/{name}")
}

/// Reads a copy of an object of rules and verifies it.
pub async fn read_copy(store: &Store, backup: Id, copy: &RuleCopy) -> Result<Bytes, Error> {
    let path = format!("{}/{}", place::below(backup), path_of(&copy.name));
    place::read_copy(store, path, (copy.size, copy.checksum), Intent::catalog()).await
}
