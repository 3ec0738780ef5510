//! Goal: every object of the catalog survives a round trip, the frozen fixtures of every version stay
//! readable, and damaged or hostile bytes cause errors. Method: one sample of each object, random
//! samples, all single-byte changes, random bodies in a valid frame.

use proptest::prelude::*;
use sandur_base::Id;
use sandur_model::{RuleShards, Signal, TenantId, TimeRange};

use super::super::frame::{self, Kind};
use super::super::*;
use super::*;

pub(in super::super) fn sample_block(n: u64) -> BlockMeta {
    let hour = 3_600_000_000_000;
    BlockMeta {
        id: Id::from_parts(1_000 + n, 7),
        writer: Id::from_parts(900, 1),
        dataset: Dataset::logs(TenantId::new("team-a").unwrap()),
        level: 1,
        window: TimeRange::new(hour * n as i64, hour * (n as i64 + 1)),
        min_ts: hour * n as i64 + 5,
        max_ts: hour * n as i64 + 9,
        rows: 1_000_000,
        raw_bytes: 200_000_000,
        size: 30_000_000,
        streams: 17,
        pages: 120,
        footer_offset: 29_000_000,
        footer_len: 1_000_000,
        deletes_through: 0,
        place: 0,
    }
}

fn sample_entry() -> Entry {
    let incarnation = Id::from_parts(900, 1);
    let register = Edit::Register {
        incarnation,
        address: "10.0.0.1:3100".into(),
        host: "host-a".into(),
        started_ms: 1_795_219_200_000,
        wal: WalKind::Bucket,
        edits: EDITS_UNSTATED,
        reads: None,
    };
    let ids = vec![Id(5), Id(6)];
    let edits = vec![
        register,
        Edit::AddBlock(sample_block(3)),
        Edit::RemoveBlock { id: Id(9), at_ms: -4 },
        Edit::Floor { incarnation, from: 0, to: 300 },
        Edit::Seal { incarnation, fence: 301 },
        Edit::Forget { incarnation },
        Edit::OrphanFloor { incarnation, id: Id(u128::MAX) },
        Edit::Deleted { ids: ids.clone() },
    ];
    let preconditions = vec![
        Precondition::FloorIs { incarnation, at: 0 },
        Precondition::Live { incarnation },
        Precondition::Registered { incarnation },
        Precondition::Sealed { incarnation },
        Precondition::BlocksPresent(ids),
    ];
    let first = Transaction { sequence: 1, author: incarnation, preconditions, edits };
    let second = Transaction { sequence: 300, author: Id(2), preconditions: vec![], edits: vec![] };
    Entry { number: 42, session: Id(77), base: 40, before: Some(0xfeed), transactions: vec![first, second] }
}

fn sample_root() -> CheckpointRoot {
    let writer = |n: u128, fence, orphan_floor| Writer {
        incarnation: Id(n),
        address: "a:1".into(),
        host: "h".into(),
        started_ms: 5,
        wal: WalKind::Local,
        floor: 9,
        fence,
        orphan_floor,
        edits: EDITS_UNSTATED,
        reads: None,
        node: None,
        stamps_after: 0,
        rules: RuleShards::NONE,
    };
    let verdicts = vec![(6, Verdict::Applied), (7, Verdict::Precondition(2)), (8, Verdict::Edit(1))];
    CheckpointRoot {
        number: 128,
        id: Id(1 << 90),
        writers: vec![writer(1, None, None), writer(2, Some(10), Some(Id(4)))],
        sessions: vec![(Id(3), Session { last_sequence: 8, at: 127, verdicts })],
        parts: vec![PartRef { rows: 2, size: 90, checksum: 0xdead_beef }],
        deletes: Vec::new(),
        chain: LogChain { linked: true, checksums: [5, 0xfeed].into() },
        forms: BlockForms::UNSTATED,
        stamps_before: 0,
    }
}

fn sample_request(n: u64) -> DeleteRequest {
    DeleteRequest {
        id: Id::from_parts(2_000 + n, 3),
        dataset: Dataset::logs(TenantId::new("team-a").unwrap()),
        query: r#"{app="api"} |= "card=""#.into(),
        start_ms: 1_795_219_200_000,
        end_ms: 1_795_222_800_999,
        created_ms: 1_795_223_000_000,
    }
}

/// All edits of delete requests.
fn sample_entry_of_deletes() -> Entry {
    let (dataset, id) = (sample_request(0).dataset, sample_request(0).id);
    let edits = vec![
        Edit::CreateDelete(sample_request(0)),
        Edit::StartDelete { dataset: dataset.clone(), id },
        Edit::CancelDelete { dataset: dataset.clone(), id, started: true },
        Edit::FinishDelete { dataset, id, at_ms: 1_795_223_100_000 },
        Edit::BlocksClean { ids: vec![Id(5), Id(6)], through: 300 },
        Edit::AddBlock(BlockMeta { deletes_through: 41, ..sample_block(3) }),
    ];
    let transaction = Transaction { sequence: 9, author: Id(2), preconditions: vec![], edits };
    Entry { number: 42, session: Id(77), base: 40, before: Some(0xfeed), transactions: vec![transaction] }
}

fn sample_root_with_deletes() -> CheckpointRoot {
    let progress = [
        DeleteProgress::Received,
        DeleteProgress::Started { at: 300, blocks: 12 },
        DeleteProgress::Processed { at_ms: 1_795_223_100_000 },
    ];
    let record = |(n, progress)| DeleteRecord { request: sample_request(n), progress };
    let requests = (0..).zip(progress).map(record).map(|r| (r.request.id, r)).collect();
    let deletes = vec![(sample_request(0).dataset, TenantDeletes { generation: 301, requests })];
    CheckpointRoot { deletes, ..sample_root() }
}

const FORMS: BlockForms = BlockForms { logs: 6, samples: 8 };

/// A registration that states versions of blocks, and the activation of later ones.
fn sample_entry_of_forms() -> Entry {
    let mut entry = sample_entry();
    let Edit::Register { reads, .. } = &mut entry.transactions[0].edits[0] else { panic!("it registers") };
    *reads = Some(FORMS);
    entry.transactions[0].edits.push(Edit::ActivateForms(FORMS));
    entry
}

fn sample_root_with_forms() -> CheckpointRoot {
    let mut root = sample_root_with_deletes();
    (root.forms, root.writers[0].reads) = (FORMS, Some(FORMS));
    root
}

fn sample_node() -> NodeDescription {
    NodeDescription {
        id: "sandur-0".into(),
        zone: "eu-1a".into(),
        roles: sandur_model::Roles::from_bits(0b1_0101),
        cache_bytes: 100 << 30,
        phase: NodePhase::Draining,
        version: "0.1.0".into(),
    }
}

/// A registration that states the edits that it reads, and the description of its node.
fn sample_entry_of_nodes() -> Entry {
    let mut entry = sample_entry_of_forms();
    let Edit::Register { edits, incarnation, .. } = &mut entry.transactions[0].edits[0] else {
        panic!("it registers")
    };
    *edits = EDITS_OF_NODES;
    let describe = Edit::DescribeNode { incarnation: *incarnation, node: sample_node() };
    entry.transactions[0].edits.push(describe);
    entry
}

fn sample_root_with_nodes() -> CheckpointRoot {
    let mut root = sample_root_with_forms();
    (root.writers[0].edits, root.writers[0].node) = (EDITS_OF_NODES, Some(sample_node()));
    root
}

const STAMP: u64 = 1_795_219_200_000 << 10 | 3;

/// The stamps of a writer.
fn sample_entry_of_stamps() -> Entry {
    let mut entry = sample_entry_of_nodes();
    entry.transactions[0].edits.push(Edit::StampsAfter { incarnation: Id(900), time: STAMP });
    entry
}

fn sample_root_with_stamps() -> CheckpointRoot {
    let mut root = sample_root_with_nodes();
    root.writers[0].stamps_after = STAMP;
    root.stamps_before = STAMP + 5;
    root
}

/// A process that owns shards of rules.
fn sample_entry_of_rules() -> Entry {
    let mut entry = sample_entry_of_nodes();
    let Edit::Register { edits, incarnation, .. } = &mut entry.transactions[0].edits[0] else {
        panic!("it registers")
    };
    *edits = EDITS_OF_RULES;
    let shards = RuleShards::from_bits(0x8000_0000_0000_0005);
    let own = Edit::OwnRules { incarnation: *incarnation, shards };
    entry.transactions[0].edits.push(own);
    entry
}

fn sample_root_with_rules() -> CheckpointRoot {
    let mut root = sample_root_with_stamps();
    (root.writers[0].edits, root.writers[0].rules) = (EDITS_OF_RULES, RuleShards::from_bits(5));
    root
}

/// Programs from before edits were stated find the versions of blocks where they were.
#[test]
fn the_version_of_edits_is_a_part_of_the_host_name_to_earlier_programs() {
    let (stated, mut before) = (sample_entry_of_nodes(), sample_entry_of_forms());
    let Edit::Register { host, .. } = &mut before.transactions[0].edits[0] else { panic!("it registers") };
    host.push_str(" [catalog 2]");
    let mut registers = stated.clone();
    registers.transactions[0].edits.pop();
    assert_eq!(registers.encode().unwrap(), before.encode().unwrap());
    let (mut root, mut before) = (sample_root_with_forms(), sample_root_with_forms());
    root.writers[0].edits = EDITS_OF_NODES;
    before.writers[0].host.push_str(" [catalog 2]");
    assert_eq!(root.encode().unwrap(), before.encode().unwrap(), "without a description the version is 5");
    assert_eq!(root.encode().unwrap()[4], 5);
    assert_eq!(sample_root_with_nodes().encode().unwrap()[4], 6);
    let mut long = stated;
    long.transactions[0].edits.push(Edit::DescribeNode {
        incarnation: Id(1),
        node: NodeDescription { zone: "z".repeat(129), ..sample_node() },
    });
    assert!(long.encode().unwrap_err().to_string().contains("zone"));
}

/// Programs from before versions were stated read such a registration: to them, the versions are a part of
/// the host name, which they store unchanged.
#[test]
fn stated_versions_are_at_the_end_of_the_host_name() {
    let (mut stated, mut before) = (sample_entry_of_forms(), sample_entry());
    stated.transactions[0].edits.pop();
    let Edit::Register { host, .. } = &mut before.transactions[0].edits[0] else { panic!("it registers") };
    host.push_str(" [log blocks 6, sample blocks 8]");
    assert_eq!(stated.encode().unwrap(), before.encode().unwrap());
    assert_eq!(Entry::decode(&before.encode().unwrap()).unwrap(), stated);
    let (mut root, mut before) = (sample_root(), sample_root());
    root.writers[0].reads = Some(FORMS);
    before.writers[0].host.push_str(" [log blocks 6, sample blocks 8]");
    assert_eq!(root.encode().unwrap(), before.encode().unwrap());
    let Edit::Register { host, .. } = &mut stated.transactions[0].edits[0] else { panic!("it registers") };
    *host = "h".repeat(1_000);
    assert!(stated.encode().unwrap_err().to_string().contains("host name"));
}

fn sample_part_with_deletes() -> Vec<PartRow> {
    let clean = |n, removed_at_ms| PartRow {
        meta: BlockMeta { deletes_through: 300 + n, ..sample_block(n) },
        removed_at_ms,
    };
    let mut rows = sample_part();
    rows.extend([clean(3, None), clean(4, Some(5))]);
    rows
}

fn sample_part() -> Vec<PartRow> {
    let row = |n, removed_at_ms| PartRow { meta: sample_block(n), removed_at_ms };
    vec![row(0, None), row(1, Some(1_795_219_200_000)), row(2, None)]
}

/// Blocks of samples with places in the order of writing, and one from before places were recorded.
fn sample_part_with_places() -> Vec<PartRow> {
    let dataset = Dataset::metrics(TenantId::new("team-a").unwrap());
    let placed = |n: u64, place, removed_at_ms| PartRow {
        meta: BlockMeta { dataset: dataset.clone(), place, deletes_through: n % 2, ..sample_block(n) },
        removed_at_ms,
    };
    let mut rows = sample_part();
    rows.extend([
        placed(5, WritePlace::of(299, 2, 1).0, None),
        placed(6, WritePlace::after(300).0, Some(5)),
        placed(7, 0, None),
    ]);
    rows
}

fn sample_position() -> LogPosition {
    LogPosition { number: 64, checksum: 0xfeed }
}

fn sample_member() -> Member {
    Member {
        incarnation: Id(900),
        counter: 12,
        address: "10.0.0.1:3100".into(),
        host: "host-a".into(),
        seen: sample_position(),
    }
}

fn sample_manifest() -> BackupManifest {
    let copy = |sequence| WalCopy { incarnation: Id(900), sequence, size: 1_000, checksum: 0xFEED };
    BackupManifest {
        id: Id(77),
        program: "0.1.0".into(),
        source: "s3://logs/prod".into(),
        began_ms: 1_795_219_200_000,
        read_ms: 1_795_219_201_000,
        ended_ms: 1_795_219_299_000,
        at: sample_position(),
        blocks: 3,
        block_bytes: 90_000_000,
        rows: 3_000_000,
        root: 0xBEEF,
        attempt: 2,
        wal: vec![copy(300), copy(301)],
        rules: Vec::new(),
    }
}

fn sample_manifest_with_rules() -> BackupManifest {
    let copy = |name: &str| RuleCopy { name: name.into(), size: 4_000, checksum: 0xFACE };
    BackupManifest { rules: vec![copy("index"), copy("t1/01J")], ..sample_manifest() }
}

fn sample_mark() -> BackupMark {
    BackupMark { id: Id(77), began_ms: 1_795_219_200_000, counter: 5 }
}

#[test]
fn backup_objects_equal_their_fixtures_and_damaged_ones_are_refused() {
    let (manifest, mark) = (sample_manifest().encode().unwrap(), sample_mark().encode());
    assert_eq!(manifest, fixture("backup-manifest-v1"));
    assert_eq!(mark, fixture("backup-mark-v1"));
    assert_eq!(BackupManifest::decode(&manifest).unwrap(), sample_manifest());
    assert_eq!(BackupMark::decode(&mark).unwrap(), sample_mark());
    for at in 0..manifest.len() {
        let mut changed = manifest.clone();
        changed[at] ^= 0x20;
        assert!(BackupManifest::decode(&changed).is_err(), "byte {at} was changed");
        assert!(BackupManifest::decode(&manifest[..at]).is_err(), "cut to {at} bytes");
    }
    assert!(BackupMark::decode(&manifest).is_err() && BackupManifest::decode(&mark).is_err());
    let long = BackupManifest { source: "x".repeat(2_000), ..sample_manifest() };
    assert!(long.encode().is_err(), "it could not be read");
}

#[test]
fn manifests_with_stored_rules_have_a_version_of_their_own() {
    let manifest = sample_manifest_with_rules().encode().unwrap();
    assert_eq!(manifest, fixture("backup-manifest-v2"));
    assert_eq!(BackupManifest::decode(&manifest).unwrap(), sample_manifest_with_rules());
    for at in 0..manifest.len() {
        let mut changed = manifest.clone();
        changed[at] ^= 0x20;
        assert!(BackupManifest::decode(&changed).is_err(), "byte {at} was changed");
        assert!(BackupManifest::decode(&manifest[..at]).is_err(), "cut to {at} bytes");
    }
    for name in ["", "/index", "t1/../../catalog/boundary", "t1//x", "."] {
        let rules = vec![RuleCopy { name: name.into(), size: 1, checksum: 1 }];
        let outside = BackupManifest { rules, ..sample_manifest() }.encode().unwrap();
        assert!(BackupManifest::decode(&outside).is_err(), "{name}");
    }
    let name = "x".repeat(2_000);
    let rules = vec![RuleCopy { name, size: 1, checksum: 1 }];
    assert!(BackupManifest { rules, ..sample_manifest() }.encode().is_err(), "it could not be read");
}

/// Reads the frozen bytes of a fixture, which are stored as hexadecimal text.
fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/src/catalog_entry/fixtures/{name}.hex", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

#[test]
fn fixtures_from_before_the_chain_are_read() {
    let unchained = |entry: Entry| Entry { before: None, ..entry };
    assert_eq!(Entry::decode(&fixture("entry-v1")).unwrap(), unchained(sample_entry()));
    assert_eq!(Entry::decode(&fixture("entry-deletes-v1")).unwrap(), unchained(sample_entry_of_deletes()));
    let unchained = |root: CheckpointRoot| CheckpointRoot { chain: LogChain::default(), ..root };
    assert_eq!(CheckpointRoot::decode(&fixture("checkpoint-root-v1")).unwrap(), unchained(sample_root()));
    let root = unchained(sample_root_with_deletes());
    assert_eq!(CheckpointRoot::decode(&fixture("checkpoint-root-v2")).unwrap(), root);
    let at = LogPosition { number: 64, checksum: 0 };
    assert_eq!(Boundary::decode(&fixture("boundary-v1")).unwrap(), Boundary { at });
    let member = Member { seen: LogPosition::default(), ..sample_member() };
    assert_eq!(Member::decode(&fixture("member-v1")).unwrap(), member);
}

#[test]
fn fixtures_equal_the_encoded_objects() {
    for (name, entry) in [
        ("entry-v2", sample_entry()),
        ("entry-deletes-v2", sample_entry_of_deletes()),
        ("entry-forms-v2", sample_entry_of_forms()),
        ("entry-nodes-v2", sample_entry_of_nodes()),
        ("entry-stamps-v2", sample_entry_of_stamps()),
        ("entry-rules-v2", sample_entry_of_rules()),
    ] {
        assert_eq!(entry.encode().unwrap(), fixture(name));
        assert_eq!(Entry::decode(&fixture(name)).unwrap(), entry);
    }
    let roots = [
        ("checkpoint-root-v3", sample_root_with_deletes()),
        ("checkpoint-root-v5", sample_root_with_forms()),
        ("checkpoint-root-v6", sample_root_with_nodes()),
        ("checkpoint-root-v7", sample_root_with_rules()),
    ];
    for (name, root) in roots {
        assert_eq!(root.encode().unwrap(), fixture(name));
        assert_eq!(CheckpointRoot::decode(&fixture(name)).unwrap(), root);
    }
    let boundary = Boundary { at: sample_position() };
    assert_eq!(boundary.encode(), fixture("boundary-v2"));
    assert_eq!(Boundary::decode(&fixture("boundary-v2")).unwrap(), boundary);
    assert_eq!(sample_member().encode().unwrap(), fixture("member-v2"));
    assert_eq!(Member::decode(&fixture("member-v2")).unwrap(), sample_member());
    assert_eq!(sample_position().encode_witness(), fixture("witness-v1"));
    assert_eq!(LogPosition::decode_witness(&fixture("witness-v1")).unwrap(), sample_position());
    // Compressed bytes may change with the library: only decoding is frozen.
    for (name, rows) in [
        ("checkpoint-part-v1", sample_part()),
        ("checkpoint-part-deletes-v1", sample_part_with_deletes()),
        ("checkpoint-part-places-v3", sample_part_with_places()),
    ] {
        assert_eq!(decode_part(&fixture(name)).unwrap(), rows);
        assert_eq!(decode_part(&encode_part(&rows).unwrap()).unwrap(), rows);
    }
}

#[test]
fn a_delete_request_covers_complete_milliseconds() {
    let request = sample_request(0);
    let range = request.range();
    assert_eq!((range.start, range.end), (1_795_219_200_000_000_000, 1_795_222_800_999_000_001));
    let long = DeleteRequest { query: "x".repeat(DELETE_QUERY_BYTES_MAX + 1), ..request };
    let transaction =
        |edit| Transaction { sequence: 1, author: Id(2), preconditions: vec![], edits: vec![edit] };
    let refused = transaction(Edit::CreateDelete(long)).encoded_len().unwrap_err();
    assert!(refused.to_string().contains("delete request: the length of its query"), "{refused}");
}

#[test]
fn every_damaged_byte_and_every_truncation_is_an_error() {
    let whole = sample_entry().encode().unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        assert!(Entry::decode(&damaged).is_err(), "byte {at}");
        assert!(Entry::decode(&whole[..at]).is_err(), "cut at {at}");
    }
    let part = encode_part(&sample_part()).unwrap();
    for at in 0..part.len() {
        let mut damaged = part.clone();
        damaged[at] ^= 1;
        assert!(decode_part(&damaged).is_err(), "byte {at}");
    }
}

/// Objects that name metrics have a higher version, so that a program without metrics refuses them.
/// Without metrics nothing changes (see the fixtures).
#[test]
fn objects_with_metrics_have_a_newer_version() {
    let metrics = Dataset::metrics(TenantId::new("team-a").unwrap());
    let block = BlockMeta { dataset: metrics.clone(), ..sample_block(3) };
    let request = DeleteRequest { dataset: metrics.clone(), ..sample_request(3) };
    let edits = [
        Edit::AddBlock(block.clone()),
        Edit::AddBlock(BlockMeta { deletes_through: 7, ..block.clone() }),
        Edit::CreateDelete(request.clone()),
        Edit::StartDelete { dataset: metrics.clone(), id: request.id },
        Edit::CancelDelete { dataset: metrics.clone(), id: request.id, started: false },
        Edit::FinishDelete { dataset: metrics.clone(), id: request.id, at_ms: 5 },
    ];
    for edit in edits {
        let mut entry = sample_entry();
        let logs = entry.encode().unwrap();
        entry.transactions[0].edits.push(edit);
        let bytes = entry.encode().unwrap();
        assert_eq!((logs[4], bytes[4]), (KIND.version, KIND.newest));
        assert_eq!(Entry::decode(&bytes).unwrap(), entry);
    }
    let rows = [PartRow { meta: block, removed_at_ms: None }, sample_part().remove(0)];
    let part = encode_part(&rows).unwrap();
    assert_eq!((encode_part(&rows[1..]).unwrap()[4], part[4]), (1, 3));
    assert_eq!(decode_part(&part).unwrap(), rows);
    let mut root = sample_root_with_deletes();
    let logs = root.encode().unwrap();
    let mut of_metrics = root.deletes[0].1.clone();
    of_metrics.requests.values_mut().for_each(|record| record.request.dataset = metrics.clone());
    root.deletes.push((metrics, of_metrics));
    assert_eq!((logs[4], root.encode().unwrap()[4]), (3, 4));
    assert_eq!(CheckpointRoot::decode(&root.encode().unwrap()).unwrap(), root);
}

#[test]
fn errors_name_the_fault() {
    let entry = sample_entry().encode().unwrap();
    assert!(matches!(Member::decode(&entry), Err(Error::Magic { .. })));
    let kind = Kind { magic: *b"SDCE", version: 4, metrics: 4, newest: 4, name: "" };
    let mut newer = frame::begin(&kind);
    newer.u64(1);
    let error = Entry::decode(&frame::seal(&kind, newer)).unwrap_err();
    assert!(error.to_string().contains("format version 4"), "{error}");
    let mut future = Entry { base: 42, ..sample_entry() };
    assert!(matches!(Entry::decode(&future.encode().unwrap()), Err(Error::Malformed { .. })));
    future.transactions = vec![future.transactions.remove(1); TRANSACTIONS_MAX + 1];
    assert!(matches!(future.encode(), Err(Error::TooLarge { .. })));
}

#[test]
fn a_block_path_is_tenant_day_id_and_writer() {
    let block = BlockMeta { window: TimeRange::new(1_795_219_200_000_000_000, 0), ..sample_block(1) };
    let path = block.path();
    assert_eq!(path, format!("blocks/team-a/2026-11-21/{}-{}", block.id, block.writer));
    let name = BlockName::parse(&path).unwrap();
    assert_eq!((name.id, name.writer), (block.id, block.writer));
}

proptest! {
    #[test]
    fn any_block_survives(
        numbers in proptest::collection::vec(any::<u64>(), 12),
        tenant in "[a-z!_.*'()-]{3,150}",
        signal in prop_oneof![Just(Signal::Logs), Just(Signal::Metrics)],
    ) {
        let n = |at: usize| numbers[at];
        let block = BlockMeta {
            id: Id(u128::from(n(0)) << 64 | u128::from(n(1))),
            writer: Id(u128::from(n(1)) << 64 | u128::from(n(2))),
            dataset: Dataset { tenant: TenantId::new(&tenant).unwrap(), signal },
            level: n(2) as u8,
            window: TimeRange::new(n(3) as i64, n(4) as i64),
            min_ts: n(5) as i64,
            max_ts: n(6) as i64,
            rows: n(7),
            raw_bytes: n(8),
            size: n(9),
            streams: n(10) as u32,
            pages: n(11) as u32,
            footer_offset: n(0),
            footer_len: n(1) as u32,
            deletes_through: n(2),
            place: n(3),
        };
        block.path();
        let rows = vec![PartRow { meta: block, removed_at_ms: Some(n(3) as i64) }];
        prop_assert_eq!(decode_part(&encode_part(&rows).unwrap()).unwrap(), rows);
    }

    /// The checksum does not protect against an attacker: random bodies must not panic.
    #[test]
    fn hostile_bodies_never_panic(
        body in proptest::collection::vec(any::<u8>(), 0..300),
        which in 0usize..6,
        version in 1u8..8,
    ) {
        let magic = [*b"SDCE", *b"SDCR", *b"SDCP", *b"SDCB", *b"SDCM", *b"SDCW"][which];
        let kind = Kind { magic, version, metrics: version, newest: version, name: "" };
        let mut out = frame::begin(&kind);
        out.bytes.extend_from_slice(&body);
        let bytes = frame::seal(&kind, out);
        let _ = (Entry::decode(&bytes), CheckpointRoot::decode(&bytes), decode_part(&bytes));
        let _ = (Boundary::decode(&bytes), Member::decode(&bytes), LogPosition::decode_witness(&bytes));
    }

    /// Like the test above, but most fields are valid: one byte of a valid body is changed and the
    /// checksum updated.
    #[test]
    fn damaged_but_resealed_objects_never_panic(at in 12usize..400, value in any::<u8>()) {
        let entries = [sample_entry(), sample_entry_of_deletes(), sample_entry_of_rules()];
        let roots = [sample_root(), sample_root_with_deletes(), sample_root_with_rules()];
        let entries = entries.iter().map(|entry| entry.encode().unwrap());
        for mut bytes in entries.chain(roots.iter().map(|root| root.encode().unwrap())) {
            let at = at.min(bytes.len() - 1);
            bytes[at] = value;
            let kind = Kind { magic: *b"    ", version: 0, metrics: 0, newest: 0, name: "" };
            let sink = super::super::wire::Sink { bytes, names_metrics: false, least: 0 };
            let bytes = frame::seal(&kind, sink);
            let _ = (Entry::decode(&bytes), CheckpointRoot::decode(&bytes));
        }
    }
}

/// Writes the fixtures; run once per format version with `--ignored`.
#[test]
#[ignore = "rewrites the frozen fixtures"]
fn write_fixtures() {
    let files = [
        ("entry-v2", sample_entry().encode().unwrap()),
        ("entry-deletes-v2", sample_entry_of_deletes().encode().unwrap()),
        ("checkpoint-root-v3", sample_root_with_deletes().encode().unwrap()),
        ("entry-forms-v2", sample_entry_of_forms().encode().unwrap()),
        ("entry-nodes-v2", sample_entry_of_nodes().encode().unwrap()),
        ("checkpoint-root-v5", sample_root_with_forms().encode().unwrap()),
        ("checkpoint-root-v6", sample_root_with_nodes().encode().unwrap()),
        ("entry-stamps-v2", sample_entry_of_stamps().encode().unwrap()),
        ("entry-rules-v2", sample_entry_of_rules().encode().unwrap()),
        ("checkpoint-root-v7", sample_root_with_rules().encode().unwrap()),
        ("boundary-v2", Boundary { at: sample_position() }.encode()),
        ("member-v2", sample_member().encode().unwrap()),
        ("witness-v1", sample_position().encode_witness()),
        ("checkpoint-part-places-v3", encode_part(&sample_part_with_places()).unwrap()),
        ("backup-manifest-v1", sample_manifest().encode().unwrap()),
        ("backup-manifest-v2", sample_manifest_with_rules().encode().unwrap()),
        ("backup-mark-v1", sample_mark().encode()),
    ];
    for (name, bytes) in files {
        let path = format!("{}/src/catalog_entry/fixtures/{name}.hex", env!("CARGO_MANIFEST_DIR"));
        let lines: Vec<String> =
            bytes.chunks(32).map(|line| line.iter().map(|b| format!("{b:02x}")).collect()).collect();
        std::fs::write(path, lines.join("\n") + "\n").unwrap();
    }
}
