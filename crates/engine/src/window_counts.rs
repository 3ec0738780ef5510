//! The number of windows with blocks that each node merges.
//!
//! Counting reads all blocks of the catalog, which takes about 0.1 s for a million blocks. So it runs on the
//! CPU pool, once for each state of the catalog and each set of members; requests that come meanwhile wait
//! for the same count.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandur_catalog::Snapshot;
use sandur_catalog::placement::{PlaceKey, Placement};
use sandur_model::{Role, TimeRange};
use sandur_runtime::{Env, Lane};
use tokio::sync::Mutex;

/// Windows by the id of the node that merges them.
pub(crate) type WindowsByNode = BTreeMap<String, u64>;

/// The last count.
#[derive(Default)]
pub(crate) struct WindowCounts(Mutex<Option<Counted>>);

struct Counted {
    catalog: u64,
    placement: Arc<Placement>,
    windows: Arc<WindowsByNode>,
}

impl WindowCounts {
    /// The windows of each node by this state.
    pub(crate) async fn of(
        &self,
        env: &Env,
        snapshot: &Arc<Snapshot>,
        placement: &Arc<Placement>,
    ) -> Arc<WindowsByNode> {
        let mut last = self.0.lock().await;
        let is_of_now = |counted: &&Counted| {
            counted.catalog == snapshot.number() && Arc::ptr_eq(&counted.placement, placement)
        };
        if let Some(counted) = last.as_ref().filter(is_of_now) {
            return Arc::clone(&counted.windows);
        }
        let parts = (Arc::clone(snapshot), Arc::clone(placement));
        let windows = Arc::new(env.run_cpu(Lane::Query, move || count(&parts.0, &parts.1)).await);
        *last = Some(Counted {
            catalog: snapshot.number(),
            placement: Arc::clone(placement),
            windows: Arc::clone(&windows),
        });
        windows
    }
}

fn count(snapshot: &Snapshot, placement: &Placement) -> WindowsByNode {
    let mut windows: BTreeMap<&str, u64> = BTreeMap::new();
    for dataset in snapshot.datasets() {
        // Blocks come by the start of their window, which is all that the key of a window depends on.
        let mut before = None;
        for block in snapshot.blocks(dataset, TimeRange::ALL) {
            if before.replace(block.window.start) == Some(block.window.start) {
                continue;
            }
            if let Some(owner) = placement.owner(Role::Compact, PlaceKey::of_window(dataset, block.window)) {
                *windows.entry(&owner.id).or_default() += 1;
            }
        }
    }
    windows.into_iter().map(|(id, number)| (id.to_owned(), number)).collect()
}
