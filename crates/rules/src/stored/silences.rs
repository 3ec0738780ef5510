//! The silences of tenants: stored, changed and read like rules.

use std::sync::{Arc, Mutex, PoisonError};

use sandur_memory::Reservation;
use sandur_model::TenantId;
use sandur_runtime::Env;

use super::StoredRules;
use super::change::Of;
use super::document::Document;
use super::error::StoredError;
use crate::data::Instant;
use crate::silence::{Mute, Posted, Silence, SilenceError, Silences};

/// Memory of an answer, in multiples of the bytes of silences.
const ANSWER_PER_BYTE: u64 = 6;
/// Bytes of a silence in an answer without its texts.
const SILENCE_BYTES: u64 = 1_024;

impl StoredRules {
    /// Adds a silence, or changes the one whose id is given. Returns the id of the silence that holds then.
    pub async fn set_silence(
        &self,
        tenant: &TenantId,
        posted: Posted,
        from_previous: bool,
    ) -> Result<String, StoredError> {
        let env = &self.0.parts.env;
        let (now, id, of) = (Instant::of_ns(env.now_ns()), new_id(env), posted.id.clone());
        let silence = posted.silence(id, now);
        let checked = move || silence.check(now).map(|()| silence);
        let silence = env.run_blocking(checked).await?;
        // The edit may be made several times, over the changes of other processes.
        let set = Arc::new(Mutex::new(String::new()));
        let noted = Arc::clone(&set);
        let edit = move |document: &mut Document| {
            let (id, has_changed) = document.set_silence(silence.clone(), of.as_deref(), now)?;
            *noted.lock().unwrap_or_else(PoisonError::into_inner) = id;
            Ok(has_changed)
        };
        self.change(Of { tenant: tenant.clone(), from_previous }, Box::new(edit)).await?;
        Ok(set.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Ends a silence. One that is over stays as it is.
    pub async fn expire_silence(
        &self,
        tenant: &TenantId,
        id: &str,
        from_previous: bool,
    ) -> Result<(), StoredError> {
        let (now, id) = (Instant::of_ns(self.0.parts.env.now_ns()), id.to_owned());
        let edit = move |document: &mut Document| document.expire_silence(&id, now);
        self.change(Of { tenant: tenant.clone(), from_previous }, Box::new(edit)).await
    }

    /// The silences of a tenant, with memory for an answer. Reads the index first.
    pub async fn list_silences(&self, tenant: &TenantId) -> Result<(Vec<Silence>, Reservation), StoredError> {
        self.read_changes().await?;
        let document = self.lock().document(tenant)?;
        let bytes = document.silences().values().map(|silence| silence.bytes() as u64 + SILENCE_BYTES);
        let memory = self.memory().reserve(bytes.sum::<u64>() * ANSWER_PER_BYTE)?;
        Ok((document.silences().values().cloned().collect(), memory))
    }

    /// A silence. Reads the index first.
    pub async fn silence(&self, tenant: &TenantId, id: &str) -> Result<Silence, StoredError> {
        self.read_changes().await?;
        let document = self.lock().document(tenant)?;
        document.silences().get(id).cloned().ok_or(StoredError::NotFound("silence does not exist"))
    }

    /// The silences of a tenant that hold now.
    pub fn silences(&self, tenant: &TenantId) -> Arc<Silences> {
        self.lock().silences(tenant)
    }
}

impl Mute for StoredRules {
    fn silences(&self, tenant: &TenantId) -> Arc<Silences> {
        self.lock().silences(tenant)
    }
}

/// A random id in the form of Alertmanager's.
fn new_id(env: &Env) -> String {
    let (high, low) = (env.random_u64(), env.random_u64());
    // Version 4 and variant 1 of RFC 9562.
    let (high, low) = (high & !0xF000 | 0x4000, low & !(3 << 62) | 1 << 63);
    let (a, b, c) = (high >> 32, high >> 16 & 0xFFFF, high & 0xFFFF);
    format!("{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}", low >> 48, low & 0xFFFF_FFFF_FFFF)
}

impl From<SilenceError> for StoredError {
    fn from(error: SilenceError) -> Self {
        Self::Refused(error.to_string())
    }
}
