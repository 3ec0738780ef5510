//! The boundary object: catalog entries up to its number may be deleted.
//!
//! It is advanced before any entry is deleted. It is read after every create and after every read of the
//! log, and never from a cache. It only grows, even when a process that was suspended advances it: the
//! store replaces the object only if it is unchanged since that process read it.

use bytes::Bytes;
use sandur_format::catalog_entry::{Boundary, LogPosition};
use sandur_store::{Created, Intent, Updated, Version};

use crate::error::Error;
use crate::names;
use crate::shared::Shared;

impl Shared {
    /// Reads the boundary; 0 when the log was never truncated.
    pub(crate) async fn read_boundary(&self) -> Result<u64, Error> {
        let number = match self.store.get(names::BOUNDARY, Intent::catalog()).await {
            Ok(bytes) => decode(&bytes)?,
            Err(error) if error.is_not_found() => 0,
            Err(error) => return Err(error.into()),
        };
        // If the boundary object was lost since, deleted numbers still do not come back.
        Ok(self.note_boundary(number))
    }

    /// Advances the boundary to at least `at`, and returns its number.
    pub(crate) async fn advance_boundary(&self, at: LogPosition) -> Result<u64, Error> {
        let number = at.number;
        let bytes = Bytes::from(Boundary { at }.encode());
        let mut seen = match self.store.get_versioned(names::BOUNDARY, Intent::catalog()).await {
            Ok((bytes, version)) => Some((decode(&bytes)?, version)),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error.into()),
        };
        loop {
            let next = match seen {
                Some((now, _)) if now >= number => {
                    self.note_boundary(now);
                    return Ok(now);
                }
                Some((_, version)) => self.replace(bytes.clone(), &version).await?,
                None => self.establish(bytes.clone()).await?,
            };
            match next {
                Attempt::Done => {
                    self.note_boundary(number);
                    return Ok(number);
                }
                // Each further round means that another process has advanced the boundary, so the loop
                // ends.
                Attempt::Changed(now) => seen = now,
            }
        }
    }

    async fn replace(&self, bytes: Bytes, version: &Version) -> Result<Attempt, Error> {
        let intent = Intent::catalog;
        Ok(match self.store.update(names::BOUNDARY, bytes, version, intent()).await? {
            Updated::Done => Attempt::Done,
            Updated::Changed(Some((now, version))) => Attempt::Changed(Some((decode(&now)?, version))),
            Updated::Changed(None) => Attempt::Changed(None),
        })
    }

    async fn establish(&self, bytes: Bytes) -> Result<Attempt, Error> {
        let intent = Intent::catalog;
        match self.store.create(names::BOUNDARY, bytes, intent()).await? {
            Created::New => Ok(Attempt::Done),
            Created::Exists(_) => {
                let (now, version) = self.store.get_versioned(names::BOUNDARY, intent()).await?;
                Ok(Attempt::Changed(Some((decode(&now)?, version))))
            }
        }
    }
}

enum Attempt {
    Done,
    /// Another process was faster; the boundary that it wrote.
    Changed(Option<(u64, Version)>),
}

fn decode(bytes: &[u8]) -> Result<u64, Error> {
    let boundary = Boundary::decode(bytes);
    let corrupt = |reason| Error::Corrupt { path: names::BOUNDARY.to_owned(), reason };
    boundary.map(|b| b.at.number).map_err(corrupt)
}
