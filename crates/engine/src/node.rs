//! What every part of an engine uses: the clock and the tasks, the store, its catalog, the view, the
//! metrics.

use std::sync::Arc;
use std::time::Duration;

use sandur_catalog::Catalog;
use sandur_runtime::{Env, Shutdown};
use sandur_store::Store;

use crate::error::{Error, expect_catalog};
use crate::followed::FollowedWriters;
use crate::metrics::Metrics;
use crate::peers::AskedPeers;
use crate::place::NodePlace;
use crate::view::Views;

/// The surroundings of the parts of an engine.
pub(crate) struct Node {
    pub(crate) env: Env,
    pub(crate) store: Store,
    pub(crate) catalog: Catalog,
    pub(crate) views: Arc<Views>,
    /// What is known of the rows of other writers.
    pub(crate) followed: Arc<FollowedWriters>,
    pub(crate) metrics: Metrics,
    pub(crate) place: NodePlace,
    pub(crate) shutdown: Shutdown,
    /// The other processes of the bucket, if they are called.
    pub(crate) peers: Option<Arc<AskedPeers>>,
}

impl Node {
    pub(crate) fn new(
        env: Env,
        store: Store,
        catalog: Catalog,
        (place, peers): (NodePlace, Option<AskedPeers>),
    ) -> Arc<Self> {
        let peers = peers.map(Arc::new);
        let views = Arc::new(Views::new(env.clone(), catalog.snapshot()));
        let followed = Arc::new(FollowedWriters::new(env.clone()));
        let (metrics, shutdown) = (Metrics::default(), Shutdown::default());
        Arc::new(Self { env, store, catalog, views, followed, metrics, place, shutdown, peers })
    }

    /// Fails once the catalog is lost, because nothing that is acknowledged or written after that could
    /// be committed.
    pub(crate) fn expect_catalog(&self) -> Result<(), Error> {
        expect_catalog(&self.catalog)
    }

    /// Waits for the duration or until the engine stops. Returns false when it stops.
    pub(crate) async fn pause(&self, duration: Duration) -> bool {
        let signal = self.shutdown.signal();
        self.env.timeout(duration, signal.triggered()).await.is_none()
    }
}
