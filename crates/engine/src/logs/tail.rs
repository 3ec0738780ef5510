//! Followers: new rows as they are acknowledged, for `LogSource::follow`.
//!
//! Rows that are inserted into a head are delivered here as well. Delivery never blocks: a slow follower
//! loses rows and gets their number. The memory of its queue is reserved from its query's budget.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandur_base::BoxFuture;
use sandur_memory::Reservation;
use sandur_model::{Labels, LogBatch, LogPage, Matcher, StreamEntries, TenantId, matches_all};
use sandur_query::{Error, Follow, Followed, QueryContext};
use tokio::sync::Notify;

use super::head::{Row, page_of_rows};

/// The most bytes of pages in one follower's queue.
const QUEUE_BYTES_MAX: u64 = 4 << 20;
/// The most pages in one follower's queue.
const QUEUE_PAGES_MAX: usize = 1024;
/// Bytes that a row counts in addition to its content.
const ROW_BYTES: u64 = 64;

/// The followers of one engine.
#[derive(Default)]
pub(crate) struct Followers {
    list: Mutex<Vec<Arc<Follower>>>,
    count: AtomicUsize,
    closed: AtomicBool,
}

struct Follower {
    tenant: TenantId,
    matchers: Vec<Matcher>,
    queue: Mutex<Queue>,
    news: Notify,
}

#[derive(Default)]
struct Queue {
    pages: VecDeque<(Arc<LogPage>, u64)>,
    bytes: u64,
    dropped: u64,
    closed: bool,
}

impl Followers {
    /// Adds a follower of rows that arrive from now on.
    pub(crate) fn follow(
        self: &Arc<Self>,
        context: &QueryContext,
        matchers: Vec<Matcher>,
    ) -> Result<Box<dyn Follow>, Error> {
        let memory = context.budget().reserve(QUEUE_BYTES_MAX)?;
        let queue = Queue { closed: self.closed.load(Ordering::Acquire), ..Queue::default() };
        let follower = Arc::new(Follower {
            tenant: context.tenant().clone(),
            matchers,
            queue: Mutex::new(queue),
            news: Notify::new(),
        });
        let mut list = self.list();
        list.push(Arc::clone(&follower));
        self.count.store(list.len(), Ordering::Release);
        drop(list);
        Ok(Box::new(Following { follower, followers: Arc::clone(self), _memory: memory }))
    }

    /// The number of followers.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Delivers the rows of a batch to the followers that they match.
    pub(crate) fn deliver(&self, batch: &LogBatch) {
        if self.count() == 0 {
            return;
        }
        let followers: Vec<_> = self.list().iter().filter(|f| f.tenant == batch.tenant).cloned().collect();
        let mut made = Made { batch, pages: Vec::new() };
        for follower in followers {
            follower.deliver(&mut made);
        }
    }

    /// Ends all followers, also those that are added later.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        for follower in self.list().iter() {
            follower.queue().closed = true;
            follower.news.notify_one();
        }
    }

    fn list(&self) -> MutexGuard<'_, Vec<Arc<Follower>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Follower {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deliver(&self, made: &mut Made<'_>) {
        let streams: Vec<usize> = made.streams_that_match(&self.matchers);
        if streams.is_empty() {
            return;
        }
        let batch = made.batch;
        let entries = || streams.iter().flat_map(|&stream| &batch.streams[stream].entries);
        let bytes: u64 = entries().map(|entry| ROW_BYTES + u64::from(entry.line.len)).sum();
        let full =
            |queue: &Queue| queue.bytes + bytes > QUEUE_BYTES_MAX || queue.pages.len() >= QUEUE_PAGES_MAX;
        // The check comes before the copy, so that a follower that does not read costs almost nothing.
        let refused = full(&self.queue());
        let page = (!refused).then(|| made.page(&streams));
        let mut queue = self.queue();
        match page {
            Some(page) => {
                queue.pages.push_back((page, bytes));
                queue.bytes += bytes;
            }
            None => queue.dropped += entries().count() as u64,
        }
        drop(queue);
        self.news.notify_one();
    }
}

/// The pages that were made of a batch. Followers of the same streams share one.
struct Made<'a> {
    batch: &'a LogBatch,
    /// By the streams of the batch that the page has.
    pages: Vec<(Vec<usize>, Arc<LogPage>)>,
}

impl Made<'_> {
    /// The numbers of the streams that have rows and match.
    fn streams_that_match(&self, matchers: &[Matcher]) -> Vec<usize> {
        let matches =
            |stream: &StreamEntries| !stream.entries.is_empty() && matches_all(matchers, &stream.labels);
        let streams = self.batch.streams.iter().enumerate();
        streams.filter(|(_, stream)| matches(stream)).map(|(number, _)| number).collect()
    }

    fn page(&mut self, streams: &[usize]) -> Arc<LogPage> {
        if let Some((_, page)) = self.pages.iter().find(|(of, _)| of == streams) {
            return Arc::clone(page);
        }
        let page = Arc::new(page_of(self.batch, streams));
        self.pages.push((streams.to_vec(), Arc::clone(&page)));
        page
    }
}

fn page_of(batch: &LogBatch, streams: &[usize]) -> LogPage {
    let mut groups: Vec<(Arc<Labels>, Vec<Row<'_>>)> = Vec::with_capacity(streams.len());
    for stream in streams.iter().map(|&stream| &batch.streams[stream]) {
        let mut rows: Vec<_> = stream.entries.iter().map(|entry| Row::of_batch(batch, entry)).collect();
        rows.sort_by_key(|row| row.entry.timestamp);
        groups.push((Arc::clone(&stream.labels), rows));
    }
    page_of_rows(&groups)
}

struct Following {
    follower: Arc<Follower>,
    followers: Arc<Followers>,
    _memory: Reservation,
}

impl Following {
    fn poll_queue(&self) -> Option<Option<Followed>> {
        let mut queue = self.follower.queue();
        if let Some((page, bytes)) = queue.pages.pop_front() {
            queue.bytes -= bytes;
            return Some(Some(Followed::Page(page)));
        }
        if queue.dropped > 0 {
            return Some(Some(Followed::Dropped(std::mem::take(&mut queue.dropped))));
        }
        queue.closed.then_some(None)
    }
}

impl Follow for Following {
    fn next(&mut self) -> BoxFuture<'_, Option<Followed>> {
        Box::pin(async move {
            loop {
                if let Some(answer) = self.poll_queue() {
                    return answer;
                }
                // The notifier keeps a notification that came before this await.
                self.follower.news.notified().await;
            }
        })
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut list = self.followers.list();
        list.retain(|other| !Arc::ptr_eq(other, &self.follower));
        self.followers.count.store(list.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandur_memory::MemoryBudget;
    use sandur_runtime::Env;

    use super::*;
    use crate::fixtures::{BatchBuilder, app_is, rows_of};

    fn context() -> QueryContext {
        let budget = MemoryBudget::root("query", 64 << 20);
        QueryContext::new(Env::simulated(1, 0), TenantId::default_tenant(), budget, Duration::from_secs(9))
    }

    #[tokio::test]
    async fn followers_get_what_matches_and_learn_what_they_lost() {
        let followers = Arc::new(Followers::default());
        let mut follow = followers.follow(&context(), app_is("a")).unwrap();
        let batch =
            BatchBuilder::new().stream("a").row(2, "two").row(1, "one").stream("b").row(1, "other").build();
        followers.deliver(&batch);
        followers.deliver(&BatchBuilder::of(TenantId::new("x").unwrap()).stream("a").row(1, "no").build());
        let Some(Followed::Page(page)) = follow.next().await else { panic!("a page") };
        assert_eq!(rows_of(&page), [("a".into(), 1, "one".into()), ("a".into(), 2, "two".into())]);
        let large = "x".repeat(3 << 20);
        for _ in 0..3 {
            followers.deliver(&BatchBuilder::new().stream("a").row(3, &large).row(4, "small").build());
        }
        assert!(matches!(follow.next().await, Some(Followed::Page(_))));
        assert!(matches!(follow.next().await, Some(Followed::Dropped(4))));
        followers.close();
        assert!(follow.next().await.is_none());
        drop(follow);
        assert_eq!(followers.count(), 0);
        let mut late = followers.follow(&context(), Vec::new()).unwrap();
        assert!(late.next().await.is_none());
    }

    #[tokio::test]
    async fn a_follower_takes_its_queue_from_the_budget() {
        let followers = Arc::new(Followers::default());
        let context = context();
        let all: Vec<_> = (0..16).map(|_| followers.follow(&context, Vec::new()).unwrap()).collect();
        let refused = followers.follow(&context, Vec::new()).err().unwrap();
        assert!(matches!(refused, Error::OverBudget(_)));
        drop(all);
        assert_eq!((context.budget().used(), followers.count()), (0, 0));
    }
}
