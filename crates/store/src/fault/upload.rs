//! Multipart uploads with faults, in both of upstream's interfaces.
//!
//! With `MultipartStore` the caller numbers and repeats the parts, so all faults apply to everything.
//! With `MultipartUpload` the caller cannot repeat a part, because real stores repeat it internally;
//! there parts only have latency, unless a fault is scripted for them. In scripts and traces the path of
//! a part is that of the object with `#` and the number of the part.

use async_trait::async_trait;
use futures_util::FutureExt;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{MultipartId, MultipartUpload, PutPayload, PutResult, Result, UploadPart};

use super::FaultStore;
use super::plan::Op;

pub(super) struct FaultUpload {
    store: FaultStore,
    path: Path,
    inner: Box<dyn MultipartUpload>,
    parts: u32,
}

impl std::fmt::Debug for FaultUpload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FaultUpload({})", self.path)
    }
}

impl FaultUpload {
    pub fn new(store: FaultStore, path: Path, inner: Box<dyn MultipartUpload>) -> Self {
        Self { store, path, inner, parts: 0 }
    }
}

#[async_trait]
impl MultipartUpload for FaultUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (store, number) = (self.store.clone(), self.parts);
        self.parts += 1;
        let name = format!("{}#{number}", self.path);
        let sending = self.inner.put_part(data);
        let part = async move {
            let fate = store.travel_spared(Op::Upload, &name).await?;
            let outcome = sending.await;
            store.answer(fate, outcome).await
        };
        part.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let fate = self.store.travel(Op::Upload, self.path.as_ref()).await?;
        let outcome = self.inner.complete().await;
        if outcome.is_ok() {
            self.store.world.mark_written(&self.path);
        }
        self.store.answer(fate, outcome).await
    }

    async fn abort(&mut self) -> Result<()> {
        let fate = self.store.travel(Op::Upload, self.path.as_ref()).await?;
        let outcome = self.inner.abort().await;
        self.store.answer(fate, outcome).await
    }
}

#[async_trait]
impl MultipartStore for FaultStore {
    async fn create_multipart(&self, path: &Path) -> Result<MultipartId> {
        let fate = self.travel(Op::Upload, path.as_ref()).await?;
        let outcome = self.world.objects().create_multipart(path).await;
        self.answer(fate, outcome).await
    }

    async fn put_part(
        &self,
        path: &Path,
        id: &MultipartId,
        part_idx: usize,
        data: PutPayload,
    ) -> Result<PartId> {
        let name = format!("{path}#{part_idx}");
        let fate = self.travel(Op::Upload, &name).await?;
        let outcome = self.world.objects().put_part(path, id, part_idx, data).await;
        self.answer(fate, outcome).await
    }

    async fn complete_multipart(
        &self,
        path: &Path,
        id: &MultipartId,
        parts: Vec<PartId>,
    ) -> Result<PutResult> {
        let fate = self.travel(Op::Upload, path.as_ref()).await?;
        let outcome = self.world.objects().complete_multipart(path, id, parts).await;
        if outcome.is_ok() {
            self.world.mark_written(path);
        }
        self.answer(fate, outcome).await
    }

    async fn abort_multipart(&self, path: &Path, id: &MultipartId) -> Result<()> {
        let fate = self.travel(Op::Upload, path.as_ref()).await?;
        let outcome = self.world.objects().abort_multipart(path, id).await;
        self.answer(fate, outcome).await
    }
}
