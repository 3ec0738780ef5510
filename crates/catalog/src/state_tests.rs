//! Goal: the state machine follows its documentation for every edit and precondition, and a transaction
//! that is written twice or late changes nothing. Method: handwritten entries, and random entries of
//! which each is also delivered again later.

use sandur_format::catalog_entry::{
    DeleteProgress, DeleteRequest, EDITS_NEWEST, EDITS_UNSTATED, NodePhase, TenantDeletes, WalKind,
};
use sandur_model::{Dataset, Roles, RuleShards, TenantId};

use super::*;
use crate::test_blocks::{WRITER, block};

const SESSION: Id = Id(50);

fn register(incarnation: Id) -> Edit {
    register_reader(incarnation, None)
}

fn register_reader(incarnation: Id, reads: Option<BlockForms>) -> Edit {
    let (address, host) = ("a:1".to_owned(), "h".to_owned());
    Edit::Register {
        incarnation,
        address,
        host,
        started_ms: 5,
        wal: WalKind::Bucket,
        edits: EDITS_NEWEST,
        reads,
    }
}

/// A snapshot in which `WRITER` is registered, and methods to commit to it.
struct Log {
    state: Snapshot,
    sequence: u64,
}

impl Log {
    fn new() -> Self {
        let mut log = Self { state: Snapshot::default(), sequence: 0 };
        log.applied(vec![register(WRITER)], vec![]);
        log
    }

    fn entry(&mut self, edits: Vec<Edit>, preconditions: Vec<Precondition>) -> Entry {
        self.sequence += 1;
        let transaction = Transaction { sequence: self.sequence, author: WRITER, preconditions, edits };
        let (number, base) = (self.state.number() + 1, self.state.number());
        Entry { number, session: SESSION, base, before: None, transactions: vec![transaction] }
    }

    fn commit(&mut self, edits: Vec<Edit>, preconditions: Vec<Precondition>) -> Outcome {
        let entry = self.entry(edits, preconditions);
        self.state.apply(&entry).remove(0)
    }

    #[track_caller]
    fn applied(&mut self, edits: Vec<Edit>, preconditions: Vec<Precondition>) {
        assert_eq!(self.commit(edits, preconditions), Outcome::Applied);
    }

    /// Commits edits that must be rejected, and checks that only the number and the session have changed.
    #[track_caller]
    fn fault(&mut self, edits: Vec<Edit>) -> EditFault {
        let before = self.state.clone();
        let outcome = self.commit(edits, vec![]);
        let mut after = self.state.clone();
        (after.number, after.sessions) = (before.number, Arc::clone(&before.sessions));
        assert_eq!(after, before);
        match outcome {
            Outcome::Rejected(Rejection::Edit { fault, .. }) => fault,
            other => panic!("{other:?}"),
        }
    }
}

fn floor(from: u64, to: u64) -> Edit {
    Edit::Floor { incarnation: WRITER, from, to }
}

#[test]
fn a_flush_is_atomic_and_only_one_of_two_succeeds() {
    let mut log = Log::new();
    let flush = |id| vec![Edit::AddBlock(block(id, "a", 1)), floor(0, 3)];
    let guard = vec![Precondition::FloorIs { incarnation: WRITER, at: 0 }];
    log.applied(flush(1), guard.clone());
    let second = log.commit(flush(2), guard.clone());
    assert_eq!(second, Outcome::Rejected(Rejection::Precondition(guard[0].clone())));
    assert_eq!(log.fault(flush(3)), EditFault::Floor);
    assert_eq!(log.state.writer(WRITER).unwrap().floor, 3);
    assert_eq!(log.state.all_blocks().map(|b| b.id.0).collect::<Vec<_>>(), [1]);
}

#[test]
fn floors_only_rise_and_never_pass_the_fence() {
    let mut log = Log::new();
    log.applied(vec![floor(0, 5)], vec![]);
    assert_eq!(log.fault(vec![floor(5, 4)]), EditFault::Floor);
    assert_eq!(log.fault(vec![floor(4, 6)]), EditFault::Floor);
    assert_eq!(log.fault(vec![Edit::Seal { incarnation: WRITER, fence: 4 }]), EditFault::Fence);
    let seal = Edit::Seal { incarnation: WRITER, fence: 9 };
    log.applied(vec![seal.clone(), floor(5, 7)], vec![Precondition::Live { incarnation: WRITER }]);
    assert_eq!(log.fault(vec![floor(7, 10)]), EditFault::Floor);
    log.applied(vec![seal], vec![Precondition::Sealed { incarnation: WRITER }]);
    assert_eq!(log.fault(vec![Edit::Seal { incarnation: WRITER, fence: 10 }]), EditFault::Sealed);
    let live = Precondition::Live { incarnation: WRITER };
    assert_eq!(log.commit(vec![], vec![live.clone()]), Outcome::Rejected(Rejection::Precondition(live)));
}

#[test]
fn a_writer_is_forgotten_only_when_sealed_and_drained() {
    let mut log = Log::new();
    let forget = || vec![Edit::Forget { incarnation: WRITER }];
    assert_eq!(log.fault(forget()), EditFault::NotDrained);
    log.applied(vec![Edit::Seal { incarnation: WRITER, fence: 2 }], vec![]);
    assert_eq!(log.fault(forget()), EditFault::NotDrained);
    log.applied(vec![floor(0, 2), Edit::Forget { incarnation: WRITER }], vec![]);
    assert!(log.state.writers().is_empty());
    log.applied(forget(), vec![]);
    assert_eq!(log.fault(vec![Edit::AddBlock(block(1, "a", 1))]), EditFault::Unregistered);
    assert_eq!(log.fault(vec![floor(2, 3)]), EditFault::Unregistered);
    let registered = Precondition::Registered { incarnation: WRITER };
    assert!(matches!(log.commit(vec![], vec![registered]), Outcome::Rejected(_)));
}

#[test]
fn registering_twice_is_idempotent_or_an_error() {
    let mut log = Log::new();
    log.applied(vec![floor(0, 4)], vec![]);
    log.applied(vec![register(WRITER)], vec![]);
    assert_eq!(log.state.writer(WRITER).unwrap().floor, 4);
    let (address, host) = ("b:2".to_owned(), "h".to_owned());
    let (started_ms, wal, edits, reads) = (5, WalKind::Bucket, EDITS_NEWEST, None);
    let other = Edit::Register { incarnation: WRITER, address, host, started_ms, wal, edits, reads };
    assert_eq!(log.fault(vec![other]), EditFault::Registered);
    log.applied(vec![Edit::Seal { incarnation: WRITER, fence: 4 }], vec![]);
    assert_eq!(log.fault(vec![register(WRITER)]), EditFault::Registered);
}

#[test]
fn a_block_is_added_removed_and_deleted() {
    let mut log = Log::new();
    log.applied(vec![Edit::AddBlock(block(1, "a", 1)), Edit::AddBlock(block(2, "a", 1))], vec![]);
    let merge = |inputs: [u128; 2], output| {
        let remove = |id| Edit::RemoveBlock { id: Id(id), at_ms: 77 };
        let edits = vec![remove(inputs[0]), remove(inputs[1]), Edit::AddBlock(block(output, "a", 1))];
        (edits, vec![Precondition::BlocksPresent(inputs.map(Id).to_vec())])
    };
    let (edits, guard) = merge([1, 2], 3);
    log.applied(edits, guard);
    let (edits, guard) = merge([1, 2], 4);
    assert!(matches!(log.commit(edits, guard), Outcome::Rejected(Rejection::Precondition(_))));
    assert_eq!(log.state.all_blocks().map(|b| b.id.0).collect::<Vec<_>>(), [3]);
    let removed = log.state.removed_block(Id(1)).unwrap();
    assert_eq!((removed.at_ms, removed.meta.id), (77, Id(1)));
    assert_eq!(log.fault(vec![Edit::AddBlock(block(1, "a", 1))]), EditFault::Removed);
    log.applied(vec![Edit::Deleted { ids: vec![Id(1), Id(9), Id(3)] }], vec![]);
    assert!(log.state.removed_block(Id(1)).is_none() && log.state.removed_block(Id(2)).is_some());
    assert!(log.state.block(Id(3)).is_some(), "only removed blocks can be deleted");
    log.applied(vec![Edit::RemoveBlock { id: Id(1), at_ms: 1 }], vec![]);
    log.applied(vec![Edit::AddBlock(block(3, "a", 1))], vec![]);
    assert_eq!(log.fault(vec![Edit::AddBlock(block(3, "a", 2))]), EditFault::Duplicate);
    let swap = vec![Edit::RemoveBlock { id: Id(3), at_ms: 1 }, Edit::AddBlock(block(3, "a", 1))];
    assert_eq!(log.fault(swap), EditFault::Removed);
}

#[test]
fn an_orphan_floor_voids_transactions_with_late_blocks() {
    let mut log = Log::new();
    log.applied(vec![Edit::AddBlock(block(5, "a", 1))], vec![]);
    log.applied(vec![Edit::OrphanFloor { incarnation: WRITER, id: Id(10) }], vec![]);
    log.applied(vec![Edit::OrphanFloor { incarnation: WRITER, id: Id(4) }], vec![]);
    let late = vec![Edit::RemoveBlock { id: Id(5), at_ms: 0 }, Edit::AddBlock(block(10, "a", 1))];
    assert_eq!(log.fault(late), EditFault::Orphan);
    log.applied(vec![Edit::AddBlock(block(11, "a", 1)), Edit::AddBlock(block(5, "a", 1))], vec![]);
    assert_eq!(log.state.block_count(), 2);
}

#[test]
fn a_transaction_that_is_written_again_or_late_has_no_effect() {
    let mut log = Log::new();
    let mut first = log.entry(vec![Edit::AddBlock(block(1, "a", 1))], vec![]);
    assert_eq!(log.state.apply(&first), [Outcome::Applied]);
    log.applied(vec![Edit::RemoveBlock { id: Id(1), at_ms: 0 }], vec![]);
    log.applied(vec![Edit::Deleted { ids: vec![Id(1)] }], vec![]);
    first.number = log.state.number() + 1;
    assert_eq!(log.state.apply(&first), [Outcome::Repeated]);
    assert!(log.state.block(Id(1)).is_none());
    // Another process writes entries until the session is forgotten.
    while log.state.number() < 2 * SESSION_ENTRIES {
        let number = log.state.number() + 1;
        let idle = Transaction { sequence: number, author: Id(2), preconditions: vec![], edits: vec![] };
        log.state.apply(&Entry {
            number,
            session: Id(51),
            base: number - 1,
            before: None,
            transactions: vec![idle],
        });
    }
    assert_eq!(log.state.verdict(SESSION, 2), None);
    assert_eq!(log.state.session_count(), 1);
    first.number = log.state.number() + 1;
    assert_eq!(log.state.apply(&first), [Outcome::Expired]);
    assert!(log.state.block(Id(1)).is_none());
}

#[test]
fn a_session_is_remembered_as_long_as_its_transactions_are_not_expired() {
    let mut log = Log::new();
    let mut first = log.entry(vec![Edit::AddBlock(block(1, "a", 1))], vec![]);
    log.state.apply(&first);
    while log.state.number() < first.base + SESSION_ENTRIES - 1 {
        let number = log.state.number() + 1;
        log.state.apply(&Entry {
            number,
            session: Id(51),
            base: number - 1,
            before: None,
            transactions: vec![],
        });
    }
    first.number = log.state.number() + 1;
    assert_eq!(log.state.apply(&first), [Outcome::Repeated]);
    assert_eq!(log.state.verdict(SESSION, 2), Some(Verdict::Applied));
}

#[test]
fn transactions_of_one_entry_have_separate_outcomes() {
    let mut log = Log::new();
    let guard = vec![Precondition::FloorIs { incarnation: WRITER, at: 0 }];
    let mut entry = log.entry(vec![floor(0, 2)], guard.clone());
    let mut second = entry.transactions[0].clone();
    second.sequence += 1;
    let mut third = entry.transactions[0].clone();
    (third.sequence, third.edits) = (second.sequence + 1, vec![floor(2, 3)]);
    third.preconditions = vec![Precondition::FloorIs { incarnation: WRITER, at: 2 }];
    let repeated = entry.transactions[0].clone();
    entry.transactions.extend([second, third, repeated]);
    let rejected = Outcome::Rejected(Rejection::Precondition(guard[0].clone()));
    assert_eq!(log.state.apply(&entry), [Outcome::Applied, rejected, Outcome::Applied, Outcome::Repeated]);
    assert_eq!(log.state.writer(WRITER).unwrap().floor, 3);
    let verdicts = [2, 3, 4].map(|s| log.state.verdict(SESSION, s).unwrap());
    assert_eq!(verdicts, [Verdict::Applied, Verdict::Precondition(0), Verdict::Applied]);
    assert!(log.state.is_decided(SESSION, 4) && !log.state.is_decided(SESSION, 5));
}

/// Returns a request for lines of the given hours, both inclusive.
fn delete_of(id: u128, tenant: &str, first_hour: i64, last_hour: i64) -> DeleteRequest {
    DeleteRequest {
        id: Id(id),
        dataset: Dataset::logs(TenantId::new(tenant).unwrap()),
        query: r#"{app="a"}"#.into(),
        start_ms: first_hour * 3_600_000,
        end_ms: last_hour * 3_600_000,
        created_ms: 9,
    }
}

#[test]
fn a_delete_is_finished_when_every_block_of_its_time_is_clean() {
    let mut log = Log::new();
    let request = delete_of(7, "a", 1, 2);
    let (dataset, id) = (request.dataset.clone(), request.id);
    let start = || Edit::StartDelete { dataset: dataset.clone(), id };
    let finish = || Edit::FinishDelete { dataset: dataset.clone(), id, at_ms: 5 };
    let cancel = |started| Edit::CancelDelete { dataset: dataset.clone(), id, started };
    for n in 0..4 {
        log.applied(vec![Edit::AddBlock(block(n, "a", n as i64))], vec![]);
    }
    log.applied(vec![Edit::AddBlock(block(9, "b", 1))], vec![]);
    assert_eq!((log.fault(vec![start()]), log.state.delete_generation(&dataset)), (EditFault::NoDelete, 0));
    log.applied(vec![Edit::CreateDelete(request.clone())], vec![]);
    let created = log.state.number();
    assert_eq!(log.state.delete_generation(&dataset), created);
    assert_eq!(log.fault(vec![finish()]), EditFault::DeleteNotStarted);
    let other = DeleteRequest { query: "{}".into(), ..request.clone() };
    assert_eq!(log.fault(vec![Edit::CreateDelete(other)]), EditFault::Duplicate);
    log.applied(vec![start()], vec![]);
    let at = log.state.number();
    let state = |log: &Log| {
        let record = log.state.delete(&dataset, id).unwrap();
        let unclean: Vec<u128> = log.state.unclean_blocks(record).map(|b| b.id.0).collect();
        (record.progress, unclean, log.state.delete_percent(record))
    };
    // The block of hour 2 begins after the last instant, at the full hour.
    assert_eq!(state(&log), (DeleteProgress::Started { at, blocks: 1 }, vec![1], 0));
    assert_eq!(log.fault(vec![cancel(false)]), EditFault::DeleteStarted);
    assert_eq!(log.fault(vec![finish()]), EditFault::DeleteUnfinished);
    let too_new = Edit::BlocksClean { ids: vec![Id(1)], through: at + 9 };
    assert_eq!(log.fault(vec![too_new]), EditFault::Future);
    log.applied(vec![Edit::BlocksClean { ids: vec![Id(1), Id(77)], through: at }], vec![]);
    assert_eq!(state(&log).2, 99);
    // A flush that began before the request was started adds lines of it.
    log.applied(vec![Edit::AddBlock(block(20, "a", 1))], vec![]);
    assert_eq!(log.fault(vec![finish()]), EditFault::DeleteUnfinished);
    let clean = BlockMeta { deletes_through: at, ..block(21, "a", 1) };
    let rewrite = vec![Edit::AddBlock(clean), Edit::RemoveBlock { id: Id(20), at_ms: 1 }];
    log.applied(rewrite, vec![Precondition::BlocksPresent(vec![Id(20)])]);
    log.applied(vec![finish()], vec![]);
    assert_eq!(state(&log), (DeleteProgress::Processed { at_ms: 5 }, vec![], 100));
    assert_eq!(log.fault(vec![cancel(true)]), EditFault::DeleteProcessed);
    assert_eq!(log.fault(vec![start()]), EditFault::DeleteProcessed);
    assert!(log.state.delete_generation(&dataset) > at);
}

#[test]
fn a_delete_can_be_cancelled_until_it_is_processed() {
    let mut log = Log::new();
    let request = delete_of(7, "a", 1, 2);
    let (dataset, id) = (request.dataset.clone(), request.id);
    log.applied(vec![Edit::CreateDelete(request.clone())], vec![]);
    log.applied(vec![Edit::CancelDelete { dataset: dataset.clone(), id, started: false }], vec![]);
    assert_eq!(log.state.deletes(&dataset).count(), 0);
    assert_eq!(log.state.delete_generation(&dataset), log.state.number(), "hidden lines have changed");
    log.applied(vec![Edit::CreateDelete(request)], vec![]);
    log.applied(vec![Edit::StartDelete { dataset: dataset.clone(), id }], vec![]);
    log.applied(vec![Edit::CancelDelete { dataset: dataset.clone(), id, started: true }], vec![]);
    assert_eq!(log.state.deletes(&dataset).count(), 0);
}

#[test]
fn open_and_remembered_deletes_are_bounded() {
    let mut log = Log::new();
    let most = crate::OPEN_DELETES_MAX as u128;
    let dataset = Dataset::logs(TenantId::new("a").unwrap());
    for n in 0..most {
        log.applied(vec![Edit::CreateDelete(delete_of(n, "a", 1, 2))], vec![]);
    }
    assert_eq!(log.fault(vec![Edit::CreateDelete(delete_of(most, "a", 1, 2))]), EditFault::DeletesFull);
    log.applied(vec![Edit::CreateDelete(delete_of(most, "b", 1, 2))], vec![]);
    for n in 0..most + 20 {
        if n >= most {
            log.applied(vec![Edit::CreateDelete(delete_of(n, "a", 1, 2))], vec![]);
        }
        log.applied(vec![Edit::StartDelete { dataset: dataset.clone(), id: Id(n) }], vec![]);
        let finish = Edit::FinishDelete { dataset: dataset.clone(), id: Id(n), at_ms: 1 };
        log.applied(vec![finish], vec![]);
    }
    let kept: Vec<u128> = log.state.deletes(&dataset).map(|record| record.request.id.0).collect();
    assert_eq!((kept.len(), kept[0]), (1_000, 20));
}

#[test]
fn the_total_size_of_delete_queries_is_bounded() {
    let mut log = Log::new();
    let dataset = Dataset::logs(TenantId::new("a").unwrap());
    let long = |n: u128| DeleteRequest { query: "x".repeat(16 << 10), ..delete_of(n, "a", 1, 2) };
    let fit = (crate::DELETE_QUERIES_BYTES_MAX >> 14) as u128;
    for n in 0..fit {
        log.applied(vec![Edit::CreateDelete(long(n))], vec![]);
    }
    assert_eq!(log.fault(vec![Edit::CreateDelete(long(fit))]), EditFault::DeleteQueriesFull);
    for n in 0..fit + 3 {
        if n >= fit {
            log.applied(vec![Edit::CreateDelete(long(n))], vec![]);
        }
        log.applied(vec![Edit::StartDelete { dataset: dataset.clone(), id: Id(n) }], vec![]);
        let finish = Edit::FinishDelete { dataset: dataset.clone(), id: Id(n), at_ms: 1 };
        log.applied(vec![finish], vec![]);
    }
    let kept: Vec<u128> = log.state.deletes(&dataset).map(|record| record.request.id.0).collect();
    assert_eq!((kept.len() as u128, kept[0]), (fit, 3));
}

/// A small random generator, so that the test needs no environment.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    fn edit(&mut self) -> Edit {
        let writer = Id(1_000 + u128::from(self.roll(3)));
        let id = u128::from(self.roll(30));
        let tenant = || TenantId::new(["a", "b"][(id % 2) as usize]).unwrap();
        let dataset = || Dataset::logs(tenant());
        match self.roll(13) {
            9 => Edit::CreateDelete(delete_of(id, tenant().as_str(), id as i64, id as i64 + 3)),
            10 => Edit::StartDelete { dataset: dataset(), id: Id(id) },
            11 => Edit::CancelDelete { dataset: dataset(), id: Id(id), started: self.roll(2) == 0 },
            12 => Edit::FinishDelete { dataset: dataset(), id: Id(id), at_ms: 1 },
            0 => register(writer),
            1 => Edit::RemoveBlock { id: Id(id), at_ms: 3 },
            2 => Edit::Floor { incarnation: writer, from: self.roll(4), to: self.roll(6) },
            3 if self.roll(4) == 0 => Edit::Seal { incarnation: writer, fence: self.roll(9) },
            4 => Edit::Deleted { ids: vec![Id(id)] },
            5 if self.roll(6) == 0 => Edit::OrphanFloor { incarnation: writer, id: Id(id / 4) },
            6 if self.roll(3) == 0 => Edit::Forget { incarnation: writer },
            _ => Edit::AddBlock(BlockMeta {
                writer,
                ..block(id, ["a", "b"][self.roll(2) as usize], id as i64)
            }),
        }
    }
}

/// Clears numbers: repeated entries change numbers, which is the only allowed difference.
fn without_numbers(of: &TenantDeletes) -> Arc<TenantDeletes> {
    let mut of = TenantDeletes { generation: 0, ..of.clone() };
    for record in of.requests.values_mut() {
        if let DeleteProgress::Started { at, .. } = &mut record.progress {
            *at = 0;
        }
    }
    Arc::new(of)
}

/// Three variants must give the same state: delivering any earlier entry again, restoring from a
/// checkpoint's rows, and applying to a clone that is shared or not.
#[test]
fn random_histories_are_deterministic_and_idempotent() {
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let (mut once, mut twice) = (Snapshot::default(), Snapshot::default());
        let mut entries: Vec<Entry> = Vec::new();
        let mut kept = Vec::new();
        for sequence in 1..60 {
            let edits = (0..dice.roll(4)).map(|_| dice.edit()).collect();
            let preconditions = match dice.roll(3) {
                0 => vec![Precondition::FloorIs { incarnation: Id(1_000), at: dice.roll(4) }],
                _ => vec![],
            };
            let transaction = Transaction { sequence, author: Id(1), preconditions, edits };
            let number = once.number() + 1;
            let entry = Entry {
                number,
                session: SESSION,
                base: number - 1,
                before: None,
                transactions: vec![transaction],
            };
            once.apply(&entry);
            kept.push(twice.clone());
            twice.apply(&Entry { number: twice.number() + 1, ..entry.clone() });
            entries.push(entry);
            let again = entries[dice.roll(entries.len() as u64) as usize].clone();
            let number = twice.number() + 1;
            assert_eq!(twice.apply(&Entry { number, ..again }), [Outcome::Repeated], "seed {seed}");
            let parts = twice.root(Id(9), vec![]);
            assert_eq!(Snapshot::restore(parts, twice.rows()), twice, "seed {seed}");
        }
        let normal = |s: &Snapshot| {
            let deletes = s.deletes.iter().map(|(dataset, of)| (dataset.clone(), without_numbers(of)));
            let deletes = Arc::new(deletes.collect());
            Snapshot { number: 0, sessions: Arc::default(), deletes, ..s.clone() }
        };
        assert_eq!(normal(&once), normal(&twice), "seed {seed}");
    }
}
/// Blocks of samples are ordered by their commits; a merged block takes over the place of its last input,
/// whatever was committed since.
#[test]
fn blocks_of_samples_are_placed_in_the_order_of_writing() {
    let mut log = Log::new();
    let metrics = Dataset::metrics(TenantId::new("a").unwrap());
    let samples = |id| BlockMeta { dataset: metrics.clone(), ..block(id, "a", 1) };
    let remove = |id| Edit::RemoveBlock { id: Id(id), at_ms: 5 };
    // Ids do not determine the order: clocks of their makers may differ.
    log.applied(vec![Edit::AddBlock(samples(30)), Edit::AddBlock(block(31, "a", 1))], vec![]);
    log.applied(vec![Edit::AddBlock(samples(20)), Edit::AddBlock(samples(21))], vec![]);
    log.applied(vec![Edit::AddBlock(samples(10))], vec![]);
    let place = |log: &Log, id| log.state.block(Id(id)).unwrap().place;
    let places = [30, 20, 21, 10].map(|id| place(&log, id));
    assert!(places.is_sorted() && places[0] > 0, "{places:?}");
    assert_eq!(place(&log, 31), 0, "only samples have an order");
    log.applied(vec![Edit::AddBlock(samples(40)), remove(30), remove(20)], vec![]);
    assert_eq!(place(&log, 40), places[1]);
    // Adding the same block again has no effect, and it keeps its place.
    log.applied(vec![Edit::AddBlock(samples(40))], vec![]);
    assert_eq!(place(&log, 40), places[1]);
    log.applied(vec![Edit::AddBlock(samples(50))], vec![]);
    assert!(place(&log, 50) > places[3]);
    let mut blocks: Vec<BlockMeta> =
        [50, 40, 21, 10].map(|id| (**log.state.block(Id(id)).unwrap()).clone()).into();
    blocks.extend([BlockMeta { level: 1, ..samples(60) }, samples(5)]);
    blocks.sort_by_key(BlockMeta::order_of_writing);
    assert_eq!(blocks.iter().map(|block| block.id.0).collect::<Vec<_>>(), [60, 5, 40, 21, 10, 50]);
}

/// Goal: versions of blocks are active only when every writer that is not sealed reads them, and afterwards
/// no writer registers that does not.
#[test]
fn versions_of_blocks_are_activated_when_all_writers_read_them() {
    let newer = BlockForms { logs: 6, samples: 7 };
    let activate = || vec![Edit::ActivateForms(newer)];
    let mut log = Log::new();
    let (modern, third) = (Id(900), Id(901));
    log.applied(vec![register_reader(modern, Some(newer))], vec![]);
    assert!(!log.state.all_read(newer));
    assert_eq!(log.fault(activate()), EditFault::UnreadForms);
    // Neither in the transaction of a registration, nor of a writer that does not state what it reads.
    let mut both = vec![register_reader(third, Some(newer))];
    both.extend(activate());
    assert_eq!(log.fault(both.clone()), EditFault::UnreadForms);
    log.applied(vec![Edit::Seal { incarnation: WRITER, fence: 3 }], vec![]);
    assert!(log.state.all_read(newer) && log.state.forms() == BlockForms::UNSTATED);
    // The edits of a transaction see each other.
    let mut late = activate();
    late.push(register(third));
    assert_eq!(log.fault(late), EditFault::NewerForms);
    log.applied(both, vec![]);
    assert_eq!(log.state.forms(), newer);
    log.applied(activate(), vec![]);
    assert_eq!(log.fault(vec![register(Id(902))]), EditFault::NewerForms);
    let newest = BlockForms { logs: 7, samples: 7 };
    assert_eq!(log.fault(vec![Edit::ActivateForms(newest)]), EditFault::UnreadForms);
    let root = log.state.root(Id(1), Vec::new());
    assert_eq!(Snapshot::restore(root, log.state.rows()), log.state);
}

fn describe(incarnation: Id, phase: NodePhase) -> Edit {
    let (id, zone, version) = ("n-1".to_owned(), "a".to_owned(), "1".to_owned());
    let node = NodeDescription { id, zone, roles: Roles::ALL, cache_bytes: 5, phase, version };
    Edit::DescribeNode { incarnation, node }
}

/// A registration of a program that does not read descriptions of nodes.
fn register_before_nodes(incarnation: Id) -> Edit {
    let Edit::Register { address, host, started_ms, wal, reads, .. } = register(incarnation) else {
        panic!("it registers")
    };
    Edit::Register { incarnation, address, host, started_ms, wal, edits: EDITS_UNSTATED, reads }
}

/// Goal: a node is described only when every writer that is not sealed reads that, and afterwards no writer
/// registers that does not.
#[test]
fn nodes_are_described_when_all_writers_read_descriptions() {
    let mut log = Log::new();
    let (old, third) = (Id(900), Id(901));
    log.applied(vec![register_before_nodes(old)], vec![]);
    let serving = || describe(WRITER, NodePhase::Serving);
    assert_eq!(log.fault(vec![serving()]), EditFault::UnreadEdits);
    let both = vec![register(third), describe(third, NodePhase::Serving)];
    assert_eq!(log.fault(both.clone()), EditFault::UnreadEdits);
    log.applied(vec![Edit::Seal { incarnation: old, fence: 0 }], vec![]);
    assert_eq!(log.fault(vec![serving(), register_before_nodes(Id(902))]), EditFault::NewerForms);
    log.applied(both, vec![]);
    log.applied(vec![serving()], vec![]);
    assert_eq!(log.fault(vec![register_before_nodes(Id(902))]), EditFault::NewerForms);
    assert_eq!(log.fault(vec![describe(Id(77), NodePhase::Serving)]), EditFault::Unregistered);
    log.applied(vec![describe(WRITER, NodePhase::Draining)], vec![]);
    let node = log.state.writer(WRITER).unwrap().node.clone().unwrap();
    assert_eq!((node.phase, node.zone.as_str()), (NodePhase::Draining, "a"));
    // A repeated registration keeps the description, a checkpoint too.
    log.applied(vec![register(WRITER)], vec![]);
    assert_eq!(log.state.writer(WRITER).unwrap().node.as_ref(), Some(&node));
    let root = log.state.root(Id(1), Vec::new());
    let stored = sandur_format::catalog_entry::CheckpointRoot::decode(&root.encode().unwrap()).unwrap();
    assert_eq!(Snapshot::restore(stored, log.state.rows()), log.state);
}

/// Goal: a shard of rules has one owner at most, a repeated edit has no effect, and a seal ends ownership.
#[test]
fn a_shard_of_rules_has_one_owner() {
    let mut log = Log::new();
    let other = Id(900);
    log.applied(vec![register(other)], vec![]);
    let own = |incarnation, bits| Edit::OwnRules { incarnation, shards: RuleShards::from_bits(bits) };
    log.applied(vec![own(WRITER, 0b0111)], vec![]);
    log.applied(vec![own(WRITER, 0b0111)], vec![]);
    assert_eq!(log.fault(vec![own(other, 0b1100)]), EditFault::Owned);
    assert_eq!(log.fault(vec![own(Id(77), 0b1000)]), EditFault::Unregistered);
    log.applied(vec![own(other, 0b1000)], vec![]);
    // The edits of a transaction see each other.
    log.applied(vec![own(WRITER, 0b0011), own(other, 0b1100)], vec![]);
    log.applied(vec![register(other)], vec![]);
    assert_eq!(log.state.writer(other).unwrap().rules.bits(), 0b1100, "a repeated registration keeps it");
    assert_eq!(log.fault(vec![register_before_nodes(Id(901))]), EditFault::NewerForms);
    log.applied(vec![Edit::Seal { incarnation: WRITER, fence: 9 }, own(other, 0b1111)], vec![]);
    assert!(log.state.writer(WRITER).unwrap().rules.is_empty());
    assert_eq!(log.fault(vec![own(WRITER, 0b1_0000)]), EditFault::Sealed);
    let root = log.state.root(Id(1), Vec::new());
    let stored = sandur_format::catalog_entry::CheckpointRoot::decode(&root.encode().unwrap()).unwrap();
    assert_eq!(Snapshot::restore(stored, log.state.rows()), log.state);
}

#[test]
fn an_empty_store_activates_versions_with_the_first_registration() {
    let newer = BlockForms { logs: 6, samples: 7 };
    let mut log = Log { state: Snapshot::default(), sequence: 0 };
    log.applied(vec![register_reader(WRITER, Some(newer)), Edit::ActivateForms(newer)], vec![]);
    assert_eq!(log.state.forms(), newer);
}

/// Goal: stamps of a writer are stated only where all read them, never go back, and are kept by a checkpoint
/// and by a repeated registration.
#[test]
fn stamps_of_writers_are_stated_once_all_read_them_and_ascend() {
    let forms = BlockForms { logs: 6, samples: 8 };
    let mut log = Log { state: Snapshot::default(), sequence: 0 };
    log.applied(vec![register_reader(WRITER, Some(forms))], vec![]);
    let state = |incarnation, time| vec![Edit::StampsAfter { incarnation, time }];
    assert_eq!(log.fault(state(WRITER, 5)), EditFault::UnreadForms);
    log.applied(vec![Edit::ActivateForms(forms)], vec![]);
    assert!(!log.state.all_stamps_are_after(1));
    log.applied(state(WRITER, 5), vec![]);
    log.applied(state(WRITER, 3), vec![]);
    assert!(log.state.all_stamps_are_after(5) && !log.state.all_stamps_are_after(6));
    assert_eq!(log.state.stamps_before(), 5);
    assert_eq!(log.fault(state(Id(77), 5)), EditFault::Unregistered);
    log.applied(vec![register_reader(WRITER, Some(forms))], vec![]);
    let root = log.state.root(Id(1), Vec::new());
    let stored = sandur_format::catalog_entry::CheckpointRoot::decode(&root.encode().unwrap()).unwrap();
    assert_eq!(Snapshot::restore(stored, log.state.rows()), log.state);
    // Another writer may write before that time, until it states otherwise or all of its rows are in blocks.
    let other = Id(901);
    log.applied(vec![register_reader(other, Some(forms))], vec![]);
    assert!(!log.state.all_stamps_are_after(5));
    log.applied(vec![Edit::Seal { incarnation: other, fence: 2 }], vec![]);
    assert!(!log.state.all_stamps_are_after(5), "two of its frames are not in blocks");
    log.applied(state(other, 4), vec![]);
    log.applied(vec![Edit::Floor { incarnation: other, from: 0, to: 2 }], vec![]);
    assert!(log.state.all_stamps_are_after(5));
    // What a writer stated stays known when it is forgotten.
    log.applied(state(other, 9), vec![]);
    log.applied(vec![Edit::Forget { incarnation: other }], vec![]);
    assert_eq!(log.state.stamps_before(), 9);
}
