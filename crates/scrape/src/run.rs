//! The loops: one per target, and one that discovers targets.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use sandur_base::BoxFuture;
use sandur_memory::{MemoryBudget, Reservation};
use sandur_model::{SampleBatch, TenantId};
use sandur_runtime::{Env, Lane, Shutdown, ShutdownSignal, Task};
use tokio::sync::Notify;
use xxhash_rust::xxh3::xxh3_64;

use crate::batches::Batches;
use crate::board::{Board, DiscoveryStatus, Health, TargetStatus};
use crate::config::{JobConfig, ScrapeFile};
use crate::discovery::{DiscoveryMetrics, InCluster, Resolver, Surroundings, Watched};
use crate::fetch::{ACCEPT, Fetch, FetchRequest, Fetched};
use crate::scrape::{Counts, Report, ScrapeReader};
use crate::series::SeriesMemory;
use crate::target::{Found, Target, targets};
use sandur_targets::{KnownFiles, TargetGroup};

/// The largest number of targets of all jobs, and of dropped targets that are shown.
const TARGETS_MAX: usize = 10_000;
/// The largest body in bytes.
const BODY_BYTES_MAX: u64 = 64 << 20;
/// The largest size, of a body and of the remembered series, that is processed without the CPU pool.
const INLINE_BYTES_MAX: u64 = 256 << 10;
/// Files of targets are read at least this often, because reading them is cheap.
const REFRESH_MAX: Duration = Duration::from_secs(30);
/// The time between the change of a source and the new list of targets, so that sources that change together
/// make one list.
const SETTLE: Duration = Duration::from_secs(1);

/// Receives batches.
pub trait Sink: Send + Sync {
    /// Returns once the batch is stored. An error says why it is not.
    fn store(&self, batch: SampleBatch) -> BoxFuture<'_, Result<(), String>>;
}

/// Everything that scrapes need.
#[derive(Clone)]
pub struct Scraper {
    /// Clock, tasks and randomness.
    pub env: Env,
    /// The tenant of the samples.
    pub tenant: TenantId,
    /// Fetches the texts of targets.
    pub fetch: Arc<dyn Fetch>,
    /// Stores batches.
    pub sink: Arc<dyn Sink>,
    /// Shows the state of targets.
    pub board: Arc<Board>,
    /// The budget for bodies and for remembered series.
    pub memory: MemoryBudget,
    /// Counts look-ups of targets.
    pub metrics: DiscoveryMetrics,
}

/// The kind of discovery in files, as users see it.
const KIND_FILE: &str = "file";

/// The state of files that were not read yet.
fn status_of_files(job: &JobConfig, patterns: &[String]) -> DiscoveryStatus {
    let source = patterns.join(", ");
    DiscoveryStatus { job: job.name.clone(), kind: KIND_FILE, source, ..DiscoveryStatus::default() }
}

/// What a scraper knows between two discoveries.
#[derive(Default)]
struct Known {
    /// The files of each job, and the number of their state on the board.
    files: BTreeMap<String, (usize, KnownFiles)>,
    /// The sources in the network, in the order of jobs.
    watched: Vec<Watched>,
}

/// A running loop.
struct Running {
    stop: Shutdown,
    task: Task<()>,
    number: u64,
}

impl Scraper {
    /// Scrapes until the server stops.
    pub async fn run(self, file: ScrapeFile, stopping: ShutdownSignal) {
        let jobs: Vec<Arc<JobConfig>> = file.jobs.into_iter().map(Arc::new).collect();
        self.board.set_jobs(jobs.iter().map(|job| job.name.clone()).collect());
        let changed = Arc::new(Notify::new());
        let mut known = Known { watched: self.watch(&jobs, &stopping, &changed), ..Known::default() };
        let mut running: BTreeMap<(String, Target), Running> = BTreeMap::new();
        let mut next_number = 0;
        let refresh =
            jobs.iter().flat_map(|job| &job.files).map(|files| files.refresh.min(REFRESH_MAX)).min();
        loop {
            let found = self.discover(&jobs, &mut known).await;
            let gone: Vec<(String, Target)> =
                running.keys().filter(|key| !found.contains_key(*key)).cloned().collect();
            let ended: Vec<Running> = gone.iter().filter_map(|key| running.remove(key)).collect();
            // All loops are stopped before any of them is joined, because each may wait for an answer
            // that does not come.
            ended.iter().for_each(|ended| ended.stop.trigger());
            for ended in ended {
                let _ = ended.task.join().await;
                self.board.remove(ended.number);
            }
            for (key, job) in found {
                if running.contains_key(&key) {
                    continue;
                }
                next_number += 1;
                running.insert(key.clone(), self.start(job, key.1, next_number));
            }
            if self.wait(refresh, &changed, &stopping).await.is_break() {
                return;
            }
        }
    }

    /// Starts the sources of targets in the network.
    fn watch(
        &self,
        jobs: &[Arc<JobConfig>],
        stopping: &ShutdownSignal,
        changed: &Arc<Notify>,
    ) -> Vec<Watched> {
        let around = Surroundings {
            env: self.env.clone(),
            board: Arc::clone(&self.board),
            metrics: self.metrics.clone(),
            fetch: Arc::clone(&self.fetch),
            resolver: Resolver::system(&self.env, &self.memory),
            cluster: InCluster::system(),
            stopping: stopping.clone(),
            changed: Arc::clone(changed),
        };
        jobs.iter().map(|job| Watched::start(job, &around)).collect()
    }

    /// Waits until files are due or a source has changed. Breaks if the server stops.
    async fn wait(
        &self,
        refresh: Option<Duration>,
        changed: &Notify,
        stopping: &ShutdownSignal,
    ) -> ControlFlow<()> {
        let is_due = async {
            let due = async {
                match refresh {
                    Some(refresh) => self.env.sleep(refresh).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => {}
                () = changed.notified() => self.env.sleep(SETTLE).await,
            }
        };
        tokio::select! {
            () = stopping.triggered() => ControlFlow::Break(()),
            () = is_due => ControlFlow::Continue(()),
        }
    }

    /// Reads the files of a job, and shows what failed.
    async fn read_files(
        &self,
        mut files: KnownFiles,
        patterns: Vec<String>,
        number: usize,
    ) -> (KnownFiles, Vec<TargetGroup>) {
        let memory = self.memory.clone();
        let read = move || {
            let groups = files.read(&patterns, &memory);
            (files, groups)
        };
        let (files, listed) = self.env.run_blocking(read).await;
        let error = files.errors().next().map(|(path, error)| match files.errors().len() {
            1 => format!("{path}: {error}"),
            all => format!("{path}: {error} (and {} more files)", all - 1),
        });
        self.metrics.refreshed(KIND_FILE, error.is_none());
        self.board.change_discovery(number, |status| {
            status.targets = listed.iter().map(|group| group.targets.len()).sum();
            match error {
                None => (status.last_success_ns, status.last_error) = (self.env.now_ns(), String::new()),
                Some(error) => {
                    status.failures += 1;
                    status.last_error = error;
                }
            }
        });
        (files, listed)
    }

    /// Returns the targets of all jobs, without duplicates.
    async fn discover(
        &self,
        jobs: &[Arc<JobConfig>],
        known: &mut Known,
    ) -> BTreeMap<(String, Target), Arc<JobConfig>> {
        let (mut found, mut dropped) = (BTreeMap::new(), Vec::new());
        for (number, job) in jobs.iter().enumerate() {
            let patterns: Vec<String> = job.files.iter().flat_map(|files| files.patterns.clone()).collect();
            let mut groups: Vec<TargetGroup> = job.groups.clone();
            if !patterns.is_empty() {
                let (number, files) = known.files.remove(&job.name).unwrap_or_else(|| {
                    (self.board.add_discovery(status_of_files(job, &patterns)), KnownFiles::default())
                });
                let (files, listed) = self.read_files(files, patterns, number).await;
                known.files.insert(job.name.clone(), (number, files));
                groups.extend(listed);
            }
            groups.extend(known.watched.get(number).map(Watched::groups).unwrap_or_default());
            let mut of_job = 0;
            for target in groups.iter().flat_map(|group| targets(job, group)) {
                match target {
                    Ok(Found::Dropped(labels)) if dropped.len() < TARGETS_MAX => {
                        dropped.push((job.name.clone(), labels));
                    }
                    Ok(Found::Dropped(_)) => {}
                    Err(error) => tracing::error!(job = job.name, error, "a target is skipped"),
                    Ok(Found::Target(_)) if found.len() >= TARGETS_MAX => {
                        tracing::error!(
                            job = job.name,
                            TARGETS_MAX,
                            "there are more targets than can be scraped"
                        );
                        break;
                    }
                    Ok(Found::Target(_)) if job.target_limit > 0 && of_job >= job.target_limit => {
                        tracing::error!(job = job.name, limit = job.target_limit, "target_limit exceeded");
                        break;
                    }
                    Ok(Found::Target(target)) => {
                        of_job += 1;
                        found.insert((job.name.clone(), *target), Arc::clone(job));
                    }
                }
            }
        }
        self.board.set_dropped(dropped);
        found
    }

    fn start(&self, job: Arc<JobConfig>, target: Target, number: u64) -> Running {
        self.board.put(
            number,
            TargetStatus {
                job: job.name.clone(),
                url: target.url.clone(),
                labels: target.labels.clone(),
                discovered: target.discovered.clone(),
                interval: target.interval,
                timeout: target.timeout,
                ..TargetStatus::default()
            },
        );
        let stop = Shutdown::default();
        let scraped = Loop { scraper: self.clone(), job, target: Arc::new(target), number };
        let task = self.env.spawn("scrape", scraped.run(stop.signal()));
        Running { stop, task, number }
    }
}

/// The loop of one target.
struct Loop {
    scraper: Scraper,
    job: Arc<JobConfig>,
    target: Arc<Target>,
    number: u64,
}

/// The state of a loop between scrapes, and its memory.
struct Remembered {
    series: SeriesMemory,
    held: Reservation,
}

impl Loop {
    async fn run(self, stop: ShutdownSignal) {
        let env = self.scraper.env.clone();
        let mut known = match self.scraper.memory.reserve(0) {
            Ok(held) => Remembered { series: SeriesMemory::default(), held },
            Err(error) => return tracing::error!(target = self.target.url, %error, "a target is not scraped"),
        };
        // Scrapes are spread over the interval; each target always has the same offset.
        let interval = self.target.interval.as_nanos().max(1) as u64;
        let mut wait = Duration::from_nanos(xxh3_64(self.target.url.as_bytes()) % interval);
        loop {
            if env.timeout(wait, stop.triggered()).await.is_some() {
                return self.end(known).await;
            }
            let began = env.monotonic();
            known = self.scrape(known).await;
            let took = env.monotonic().saturating_sub(began).as_nanos() as u64;
            // A late scrape skips the scrapes that it missed.
            wait = Duration::from_nanos(interval - took % interval);
        }
    }

    async fn scrape(&self, known: Remembered) -> Remembered {
        let Self { scraper, job, target, number } = self;
        let (env, began) = (&scraper.env, scraper.env.monotonic());
        let now_ns = env.now_ns();
        let now_ms = now_ns / sandur_model::MILLISECOND_NS;
        let body_max =
            if job.body_size_limit == 0 { BODY_BYTES_MAX } else { job.body_size_limit.min(BODY_BYTES_MAX) };
        let request = FetchRequest {
            url: &target.url,
            accept: ACCEPT,
            auth: &job.auth,
            tls: &job.tls,
            timeout: target.timeout,
            body_max,
            memory: &scraper.memory,
        };
        let fetched = env.timeout(target.timeout, scraper.fetch.fetch(request)).await;
        let fetched = fetched.unwrap_or_else(|| Err("context deadline exceeded".to_owned()));
        let took = env.monotonic().saturating_sub(began);
        let (mut batches, counts, mut error, mut known) = self.read(fetched, now_ms, known).await;
        let report = Report { labels: &target.labels, now_ms };
        report.write(&mut batches, error.is_none(), took, counts);
        if let Err(why) = self.store(batches).await {
            tracing::error!(target = target.url, error = why, "cannot store a scrape");
            known.series.forget_metadata();
            error.get_or_insert(format!("could not be stored: {why}"));
        }
        known.held.shrink(known.held.bytes().saturating_sub(known.series.bytes()));
        scraper.board.change(*number, |status| {
            status.health = if error.is_none() { Health::Up } else { Health::Down };
            status.last_error = error.unwrap_or_default();
            status.last_scrape_ns = now_ns;
            status.last_duration = took;
        });
        known
    }

    /// Reads the fetched text. All but short texts are processed on the CPU pool, where tenants take
    /// turns.
    async fn read(
        &self,
        fetched: Result<Fetched, String>,
        now_ms: i64,
        mut known: Remembered,
    ) -> (Batches, Counts, Option<String>, Remembered) {
        let env = self.scraper.env.clone();
        let (job, target) = (Arc::clone(&self.job), Arc::clone(&self.target));
        let tenant = self.scraper.tenant.clone();
        let body_bytes = fetched.as_ref().map_or(0, |fetched| fetched.body.len() as u64);
        let is_short = body_bytes + known.series.bytes() <= INLINE_BYTES_MAX;
        let cpu = env.clone();
        let work = move || {
            let Remembered { series: memory, held } = &mut known;
            let give_way = &|| cpu.cpu().give_way(Lane::Background);
            let (job, labels, tenant) = (&*job, &target.labels, &tenant);
            let mut reader = ScrapeReader { job, labels, memory, tenant, now_ms, held, give_way };
            let (batches, counts, error) = match fetched {
                Ok(fetched) => reader.read(&fetched.content_type, &fetched.body),
                Err(why) => (reader.missed(), Counts::default(), Some(why)),
            };
            (batches, counts, error, known)
        };
        if is_short { work() } else { env.run_cpu(Lane::Background, work).await }
    }

    /// Stores one batch after the other.
    async fn store(&self, batches: Batches) -> Result<(), String> {
        for batch in batches.into_vec() {
            self.scraper.sink.store(batch).await?;
        }
        Ok(())
    }

    /// Ends all series of a removed target.
    async fn end(&self, known: Remembered) {
        let Self { scraper, target, .. } = self;
        let now_ms = scraper.env.now_ns() / sandur_model::MILLISECOND_NS;
        let gone = Err("the target was removed".to_owned());
        let (mut batches, _, _, _known) = self.read(gone, now_ms, known).await;
        Report { labels: &target.labels, now_ms }.end(&mut batches);
        if let Err(error) = self.store(batches).await {
            tracing::error!(target = target.url, error, "cannot store the end of a target's series");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::fetch::Fetched;

    #[derive(Default)]
    struct Made {
        batches: Mutex<Vec<SampleBatch>>,
    }

    impl Sink for Made {
        fn store(&self, batch: SampleBatch) -> BoxFuture<'_, Result<(), String>> {
            self.batches.lock().unwrap().push(batch);
            Box::pin(async { Ok(()) })
        }
    }

    impl Fetch for Made {
        fn fetch<'a>(&'a self, request: FetchRequest<'a>) -> BoxFuture<'a, Result<Fetched, String>> {
            Box::pin(async move {
                if request.url.contains("down") {
                    return Err("connection refused".to_owned());
                }
                if request.url.contains("silent") {
                    std::future::pending::<()>().await;
                }
                let (content_type, body) = ("text/plain".to_owned(), b"a 1\n".to_vec());
                Ok(Fetched { content_type, body, memory: request.memory.reserve(4).unwrap() })
            })
        }
    }

    fn values(batches: &[SampleBatch], name: &str, instance: &str) -> Vec<f64> {
        let of = |batch: &SampleBatch| {
            let labels = [("__name__", name), ("instance", instance)];
            let matching =
                |labels_of: &sandur_model::Labels| labels.iter().all(|(n, v)| labels_of.get(n) == Some(v));
            let series = batch.series.iter().filter(|series| matching(&series.labels));
            series.flat_map(|series| batch.samples_of(series).map(|(_, value)| value)).collect::<Vec<_>>()
        };
        batches.iter().flat_map(of).collect()
    }

    fn file_of_targets(directory: &std::path::Path, targets: &[String]) -> ScrapeFile {
        list(directory, targets);
        let text = format!(
            "scrape_configs:\n- job_name: j\n  scrape_interval: 10s\n  \
             file_sd_configs: [{{files: ['{}']}}]\n",
            directory.join("t.json").display()
        );
        ScrapeFile::parse(&text).unwrap()
    }

    fn list(directory: &std::path::Path, targets: &[String]) {
        let targets: Vec<String> = targets.iter().map(|target| format!("\"{target}\"")).collect();
        let text = format!("[{{\"targets\": [{}]}}]", targets.join(","));
        std::fs::write(directory.join("t.json"), text).unwrap();
    }

    fn scraper(env: &Env, made: &Arc<Made>) -> Scraper {
        Scraper {
            env: env.clone(),
            tenant: TenantId::default_tenant(),
            fetch: Arc::<Made>::clone(made),
            sink: Arc::<Made>::clone(made),
            board: Arc::default(),
            memory: MemoryBudget::root("scrapes", 1 << 20),
            metrics: DiscoveryMetrics::default(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn removed_targets_that_do_not_answer_do_not_delay_new_ones() {
        let directory = tempfile::tempdir().unwrap();
        let silent: Vec<String> = (0..50).map(|n| format!("silent{n}:1")).collect();
        let file = file_of_targets(directory.path(), &silent);
        let (env, made) = (Env::simulated(1, 1_700_000_000_000_000_000), Arc::new(Made::default()));
        let scraper = scraper(&env, &made);
        let (board, stopping) = (Arc::clone(&scraper.board), Shutdown::default());
        let running = env.spawn("scraper", scraper.run(file, stopping.signal()));
        env.sleep(Duration::from_secs(25)).await;
        assert_eq!(board.active().len(), 50);
        list(directory.path(), &["up:1".to_owned()]);
        env.sleep(REFRESH_MAX + Duration::from_secs(25)).await;
        let active: Vec<_> = board.active().iter().map(|t| (t.url.clone(), t.health)).collect();
        assert_eq!(active, [("http://up:1/metrics".to_owned(), Health::Up)]);
        stopping.trigger();
        running.join().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn targets_are_added_and_removed() {
        let directory = tempfile::tempdir().unwrap();
        let file = file_of_targets(directory.path(), &["up:1".to_owned(), "down:1".to_owned()]);
        let (env, made) = (Env::simulated(1, 1_700_000_000_000_000_000), Arc::new(Made::default()));
        let scraper = scraper(&env, &made);
        let (board, stopping) = (Arc::clone(&scraper.board), Shutdown::default());
        let running = env.spawn("scraper", scraper.run(file, stopping.signal()));
        env.sleep(Duration::from_secs(25)).await;
        let active = board.active();
        assert_eq!(
            active.iter().map(|t| (t.url.as_str(), t.health)).collect::<Vec<_>>(),
            [("http://down:1/metrics", Health::Down), ("http://up:1/metrics", Health::Up)]
        );
        assert_eq!(active[0].last_error, "connection refused");
        {
            let batches = made.batches.lock().unwrap();
            assert!(values(&batches, "a", "up:1").len() >= 2);
            assert!(values(&batches, "up", "down:1").iter().all(|up| *up == 0.0));
            assert!(values(&batches, "up", "up:1").iter().all(|up| *up == 1.0));
        }
        list(directory.path(), &["down:1".to_owned()]);
        env.sleep(Duration::from_secs(40)).await;
        assert_eq!(board.active().len(), 1);
        let last = |name: &str| *values(&made.batches.lock().unwrap(), name, "up:1").last().unwrap();
        assert!(
            sandur_model::is_stale(last("a")) && sandur_model::is_stale(last("up")),
            "its series have ended"
        );
        stopping.trigger();
        running.join().await.unwrap();
    }
}
