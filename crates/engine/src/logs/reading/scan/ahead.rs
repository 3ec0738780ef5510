//! Plans clusters ahead of the query, in the order of the clusters.
//!
//! A plan waits for footers and then for filters, which may be slow to read; clusters that are planned
//! concurrently wait concurrently. A query for the latest rows may need one cluster only. So in an
//! ordered scan the number of concurrent plans starts small and grows with the number of plans that were
//! not enough. Planning starts with the first request for a plan.

use std::collections::VecDeque;
use std::sync::Arc;

use sandur_query::{Error, Order};
use sandur_runtime::Task;

use super::plan::{Cluster, Plan, Planner};

/// The most clusters that are planned concurrently. Bounds the open footers.
const AT_ONCE_MAX: usize = 8;
/// Concurrent plans at the start of an ordered scan for rare rows: the first cluster seldom has enough rows.
const AT_ONCE_FOR_NEEDLES: usize = 4;

/// The plans of a scan.
pub(super) struct PlansAhead {
    planner: Arc<Planner>,
    clusters: VecDeque<Cluster>,
    planning: VecDeque<(Cluster, Task<Result<Plan, Error>>)>,
    /// The least and the most clusters that are planned concurrently.
    least: usize,
    most: usize,
    given: usize,
}

impl PlansAhead {
    /// Plans of clusters in the order of the selection.
    pub(super) fn new(planner: Planner, clusters: VecDeque<Cluster>) -> Self {
        let least = match planner.selection.order {
            Order::Any => AT_ONCE_MAX,
            Order::NewestFirst | Order::OldestFirst if planner.needles.is_empty() => 1,
            Order::NewestFirst | Order::OldestFirst => AT_ONCE_FOR_NEEDLES,
        };
        Self {
            planner: Arc::new(planner),
            clusters,
            planning: VecDeque::new(),
            least,
            most: AT_ONCE_MAX,
            given: 0,
        }
    }

    /// Returns the next plan; `None` after the last one. When memory is short, only one cluster is planned
    /// at a time from then on. After a refusal for the only one, the next call plans it again.
    pub(super) async fn next(&mut self) -> Result<Option<Plan>, Error> {
        let most = if self.planner.context.saves_memory() { 1 } else { self.most };
        let at_once = self.given.clamp(self.least, AT_ONCE_MAX).min(most);
        while self.planning.len() < at_once
            && let Some(cluster) = self.clusters.pop_front()
        {
            let task = self.plan(cluster.clone());
            self.planning.push_back((cluster, task));
        }
        let Some((cluster, task)) = self.planning.pop_front() else { return Ok(None) };
        let mut plan = done(task).await;
        if matches!(plan, Err(Error::OverBudget(_))) && !self.planning.is_empty() {
            self.most = 1;
            while let Some((later, task)) = self.planning.pop_back() {
                // It must end before the next one begins, so that its memory is released.
                _ = done(task).await;
                self.clusters.push_front(later);
            }
            plan = done(self.plan(cluster.clone())).await;
        }
        match plan {
            Err(Error::OverBudget(_)) => self.clusters.push_front(cluster),
            _ => self.given += 1,
        }
        plan.map(Some)
    }

    fn plan(&self, cluster: Cluster) -> Task<Result<Plan, Error>> {
        let planner = Arc::clone(&self.planner);
        self.planner.context.env().spawn("plan a scan", async move { planner.plan(cluster).await })
    }

    /// Whether the next plan is complete.
    pub(super) fn is_ready(&self) -> bool {
        self.planning.front().is_some_and(|(_, task)| task.is_finished())
    }
}

async fn done(task: Task<Result<Plan, Error>>) -> Result<Plan, Error> {
    task.join().await.map_err(|error| Error::Internal(error.to_string()))?
}
