//! Decodes and stores data of Carbon senders, until it is durable.
//!
//! These protocols have no responses, so nothing can be reported back. After a temporary failure (the
//! store, memory, a tenant's rate) the block is tried again, and the connection is not read meanwhile.
//! The bytes are kept and decoded again. It is harmless to store a block twice, since the last write of
//! an instant wins.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sandur_base::ErrorKind;
use sandur_carbon::Protocol;
use sandur_ingest::{
    CarbonBatches, DecodedSamples, Memory, Push, PushHeaders, Reason, Refused, RejectedMessage, SamplePush,
};
use sandur_model::{Labels, Limits, TenantId, is_graphite_label};
use sandur_service::Failure;
use sandur_service::writes::{BodyHeaders, Received, decode_in_memory, parties};
use tokio::sync::Semaphore;

use super::Carbon;
use super::rejected::RejectedOf;
use super::tenancy::{BlockTenants, Tenancy};

/// Pauses between attempts.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Attempts after the server began to stop, and the pauses between them: a block that is given up is
/// lost, and an unreachable store fails immediately.
const LAST_ATTEMPTS: u32 = 5;
const LAST_PAUSE: Duration = Duration::from_secs(2);
/// Attempts for points beyond a tenant's rate: half a minute.
const RATE_ATTEMPTS: u32 = 12;
/// Blocks below this size are not split further.
const PART_MIN: usize = 4 << 10;
/// Blocks of at least this many bytes need a slot to be decoded.
const TURN_MIN: usize = 64 << 10;
/// Approximate memory per byte of a block while it is decoded, if all of its names are new.
const DECODED_BYTES: u64 = 24;

/// Where points come from.
#[derive(Clone)]
pub struct Source {
    /// The format of the points.
    pub protocol: &'static Protocol,
    /// Determines the tenants of the points.
    pub tenancy: Arc<Tenancy>,
    /// The sender.
    pub peer: Option<SocketAddr>,
}

/// The state of a block after an attempt.
#[derive(Default)]
struct Progress {
    /// Whether its content was counted.
    is_counted: bool,
    /// Tenants whose points are durable or permanently refused.
    done: Vec<bool>,
    rate_attempts: u32,
}

/// Stores complete messages of a connection. Returns when they are durable, or when the rest is given up
/// and counted. If messages cannot be stored together, each half is stored separately: thousands of new
/// names may exceed the limit of one push, and an error of one message does not concern others.
pub async fn store(carbon: Carbon, source: Source, bytes: Bytes) {
    let mut open = vec![(bytes, false)];
    while let Some((bytes, is_counted)) = open.pop() {
        let mut progress = Progress { is_counted, ..Progress::default() };
        let Err(failure) = store_block(&carbon, &source, &bytes, &mut progress).await else { continue };
        let parts = matches!(failure.kind, ErrorKind::Invalid | ErrorKind::Limit)
            .then(|| halves(&carbon, &source, &bytes));
        match parts.flatten() {
            Some([first, second]) => {
                open.extend([(second, progress.is_counted), (first, progress.is_counted)]);
            }
            None => give_up(&carbon, &source, &bytes, &failure),
        }
    }
}

/// The complete messages of a block in two parts, unless it is short.
fn halves(carbon: &Carbon, source: &Source, bytes: &Bytes) -> Option<[Bytes; 2]> {
    if bytes.len() < PART_MIN {
        return None;
    }
    let frame_max = usize::try_from(carbon.options.max_frame_bytes).unwrap_or(usize::MAX);
    let first = match source.protocol.framing.cut(&bytes[..bytes.len() / 2], frame_max) {
        Ok(cut) => cut.whole,
        Err(endless) => endless.whole,
    };
    (first > 0).then(|| [bytes.slice(..first), bytes.slice(first..)])
}

/// Stores a block, and retries while the failure may be temporary.
async fn store_block(
    carbon: &Carbon,
    source: &Source,
    bytes: &Bytes,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let (mut pause, mut last_attempts) = (PAUSE_MIN, 0);
    loop {
        let Err(failure) = attempt(carbon, source, bytes, progress).await else { return Ok(()) };
        last_attempts += u32::from(carbon.stopping.is_triggered());
        if !failure.may_pass() || last_attempts > LAST_ATTEMPTS {
            return Err(failure);
        }
        carbon.metrics.repeats.inc();
        carbon.env.sleep(pause).await;
        pause = if carbon.stopping.is_triggered() { LAST_PAUSE } else { (pause * 2).min(PAUSE_MAX) };
    }
}

/// Counts a block that could not be stored.
fn give_up(carbon: &Carbon, source: &Source, bytes: &[u8], failure: &Failure) {
    let message = String::from_utf8_lossy(&bytes[..bytes.len().min(64)]).into_owned();
    tracing::error!(protocol = source.protocol.name, failure = failure.message, "points are lost");
    let text = failure.message.clone();
    note(carbon, (source, None), &RejectedMessage { reason: "not_stored", text, message }, 1);
}

/// Counts and shows rejected data, of a tenant if it is known.
fn note(carbon: &Carbon, of: (&Source, Option<&TenantId>), message: &RejectedMessage, points: u64) {
    carbon.metrics.rejected(message.reason, points);
    show(carbon, of, message.clone());
}

fn show(carbon: &Carbon, (source, tenant): (&Source, Option<&TenantId>), message: RejectedMessage) {
    let (at_ns, protocol, peer) = (carbon.env.now_ns(), source.protocol.name, source.peer);
    carbon.rejected.add(RejectedOf { at_ns, protocol, tenant: tenant.cloned(), peer, message });
}

/// Shows and logs why the server closed a connection. The log contains only the first one per minute.
pub fn report(carbon: &Carbon, source: &Source, reason: &'static str, text: String) {
    if carbon.is_new_minute(carbon.env.monotonic()) {
        let (protocol, peer) = (source.protocol.name, source.peer);
        tracing::warn!(
            protocol,
            ?peer,
            reason,
            text,
            "closed a connection of Carbon; further ones are only counted"
        );
    }
    show(carbon, (source, None), RejectedMessage { reason, text, message: String::new() });
}

/// Counts a message after which a connection cannot continue.
pub fn reject(carbon: &Carbon, source: &Source, reason: &'static str, text: String, message: &[u8]) {
    let message = String::from_utf8_lossy(&message[..message.len().min(256)]).into_owned();
    note(carbon, (source, None), &RejectedMessage { reason, text, message }, 1);
}

async fn attempt(
    carbon: &Carbon,
    source: &Source,
    bytes: &Bytes,
    progress: &mut Progress,
) -> Result<(), Failure> {
    // Before rates are used up: points that wait for the store must not be rejected because of a rate.
    carbon.writes.intake().admits_pushes()?;
    let tenants = Arc::new(source.tenancy.of_block((source.protocol, false), bytes));
    let memory = carbon.writes.memory().reservation(parties(tenants.tenants[0].as_str(), source.peer));
    let received = Received { bytes: bytes.clone(), memory };
    let decode = decoder(carbon, source, Arc::clone(&tenants));
    // If several blocks each had half of the memory that they need, they would wait for each other.
    let turn = if bytes.len() < TURN_MIN { None } else { turns(carbon).acquire().await.ok() };
    let (decoded, _memory) = decode_in_memory(&carbon.writes, received, decode).await?;
    drop(turn);
    progress.done.resize(tenants.tenants.len(), false);
    let is_first = !std::mem::replace(&mut progress.is_counted, true);
    if is_first {
        for (reason, count) in &decoded.rejected.counts {
            carbon.metrics.rejected(reason, *count);
        }
        decoded.rejected.shown.into_iter().for_each(|message| show(carbon, (source, None), message));
        for (tenant, one) in tenants.tenants.iter().zip(&decoded.batches) {
            note_refused(carbon, source, tenant, one);
        }
    }
    let mut failed = None;
    for (number, mut one) in decoded.batches.into_iter().enumerate() {
        if progress.done[number] {
            continue;
        }
        // These protocols have no answer that could contain the text.
        refuse_beyond(carbon, source, &tenants.tenants[number], (&mut one, is_first));
        match push(carbon, source, &tenants.tenants[number], one, progress).await {
            Ok(()) => progress.done[number] = true,
            Err(failure) => failed = Some(failure),
        }
    }
    failed.map_or(Ok(()), Err)
}

/// As many slots as blocks of the usual size fit into memory if all of their names are new.
fn turns(carbon: &Carbon) -> &Semaphore {
    carbon.decoding.get_or_init(|| {
        let block = (carbon.options.window / 2).max(TURN_MIN as u64) * DECODED_BYTES;
        // Connections may leave only a third of the memory, and one address gets two thirds of that.
        let most = carbon.writes.memory().reservation_max() * 4 / 9 / block.max(1);
        Semaphore::new(usize::try_from(most).unwrap_or(usize::MAX).clamp(1, Semaphore::MAX_PERMITS))
    })
}

/// A decoder that owns its data.
fn decoder(
    carbon: &Carbon,
    source: &Source,
    tenants: Arc<BlockTenants>,
) -> impl Fn(Bytes, Rc<dyn Memory>) -> Result<CarbonBatches, sandur_ingest::Error> + Clone + Send + 'static {
    let limits: Arc<[Arc<Limits>]> =
        tenants.tenants.iter().map(|tenant| carbon.writes.limits(tenant)).collect();
    let (now_ns, series) = (carbon.env.now_ns(), Arc::clone(carbon.writes.series()));
    let (protocol, tenancy) = (source.protocol, Arc::clone(&source.tenancy));
    move |bytes, lent| {
        let pushes = tenants.tenants.iter().zip(limits.iter()).map(|(tenant, limits)| {
            let push = Push { tenant, limits, now_ns, headers: PushHeaders::default() };
            SamplePush::new(push, &series)
        });
        let pushes: Vec<_> = pushes.collect();
        let tenant_of = |name: &str| tenants.number(&tenancy.tenant_of(name));
        sandur_ingest::carbon(&pushes, &tenant_of, (protocol, false), &bytes, lent)
    }
}

/// Counts what a tenant's limits refused.
fn note_refused(carbon: &Carbon, source: &Source, tenant: &TenantId, decoded: &DecodedSamples) {
    for (reason, points, _) in decoded.refused.by_reason() {
        let (text, name) = decoded.refused.text_of(reason).unwrap_or_default();
        carbon.writes.metrics().refused_samples(reason.name(), points);
        carbon.writes.refusals().note(tenant, reason.name(), points, &text);
        let shown = RejectedMessage { reason: reason.name(), text, message: name.to_owned() };
        note(carbon, (source, Some(tenant)), &shown, points);
    }
}

/// Refuses the series beyond the tenant's limit, and returns a text for the client about them. Only the
/// first attempt counts: a later one decodes the same points again.
fn refuse_beyond(
    carbon: &Carbon,
    source: &Source,
    tenant: &TenantId,
    (decoded, is_first): (&mut DecodedSamples, bool),
) -> Option<String> {
    let most = carbon.writes.limits(tenant).metrics.max_global_series_per_user;
    let before = decoded.written.samples;
    let mut left_out = None;
    if most > 0 {
        let beyond = carbon.writes.intake().series_beyond(&decoded.batch, most);
        let first = beyond.first().and_then(|first| decoded.batch.series.get(*first as usize));
        if let Some(message) = first.map(|series| name_of(series.labels.shared())) {
            decoded.refused = Refused::default();
            decoded.refuse_series(&beyond, most);
            let text = decoded.refused.text().unwrap_or_default();
            left_out = Some(text.clone());
            if is_first {
                let points = before - decoded.written.samples;
                carbon.writes.metrics().refused_samples(Reason::TooManySeries.name(), points);
                carbon.writes.refusals().note(tenant, Reason::TooManySeries.name(), points, &text);
                let shown = RejectedMessage { reason: "too_many_series", text, message };
                note(carbon, (source, Some(tenant)), &shown, points);
            }
        }
    }
    if is_first {
        carbon.metrics.accepted(source.protocol.name, decoded.written.samples);
    }
    left_out
}

/// The name of a series as its sender wrote it, apart from the order of the tags.
fn name_of(labels: &Labels) -> String {
    let mut name = labels.get("__name__").unwrap_or_default().to_owned();
    for (tag, value) in labels.iter().filter(|(label, _)| *label != "__name__" && !is_graphite_label(label)) {
        name.extend([";", tag, "=", value]);
    }
    name
}

/// Stores the points of a tenant, within its limit of rates.
async fn push(
    carbon: &Carbon,
    source: &Source,
    tenant: &TenantId,
    decoded: DecodedSamples,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let limits = carbon.writes.limits(tenant);
    let points = decoded.written.samples;
    if points == 0 {
        return Ok(());
    }
    if let Err(error) =
        carbon.writes.rates().take_samples(tenant, &limits.metrics, carbon.env.monotonic(), points)
    {
        progress.rate_attempts += 1;
        let failure = Failure::new(error.kind(), error.to_string());
        if progress.rate_attempts <= RATE_ATTEMPTS {
            return Err(failure);
        }
        progress.rate_attempts = 0;
        let (reason, text) = ("rate_limited", failure.message);
        let series = decoded.batch.series.first();
        let message = series.map(|series| name_of(series.labels.shared())).unwrap_or_default();
        carbon.writes.refusals().note(tenant, reason, points, &text);
        note(carbon, (source, Some(tenant)), &RejectedMessage { reason, text, message }, points);
        return Ok(());
    }
    carbon.writes.intake().push(decoded.batch.into(), None).await?;
    carbon.writes.metrics().samples.inc_by(points);
    carbon.writes.totals().accept_samples(tenant, [points, 0, 0]);
    carbon.metrics.durable(source.protocol.name, points);
    Ok(())
}

/// Decodes and stores the body of a request, which does get a response; returns a text about rejected
/// points.
pub async fn store_body(
    carbon: &Carbon,
    (protocol, peer): (&'static Protocol, Option<SocketAddr>),
    tenant: &TenantId,
    (received, headers): (Received, BodyHeaders),
) -> Result<Option<String>, Failure> {
    let limits = carbon.writes.limits(tenant);
    let (of_tenant, now_ns, series) =
        (tenant.clone(), carbon.env.now_ns(), Arc::clone(carbon.writes.series()));
    let decode = move |bytes, lent| {
        let push = Push { tenant: &of_tenant, limits: &limits, now_ns, headers: headers.borrowed() };
        sandur_ingest::carbon_body(SamplePush::new(push, &series), protocol, bytes, lent)
    };
    let (decoded, _memory) = decode_in_memory(&carbon.writes, received, decode).await?;
    let source = Source { protocol, tenancy: Arc::new(Tenancy::only(tenant.clone())), peer };
    let CarbonBatches { batches, rejected } = decoded;
    let mut texts = Vec::new();
    for (reason, count) in &rejected.counts {
        carbon.metrics.rejected(reason, *count);
        texts.push(format!("{count} rejected: {reason}"));
    }
    for message in rejected.shown {
        texts.push(format!("{}: '{}'", message.text, message.message));
        show(carbon, (&source, Some(tenant)), message);
    }
    for mut one in batches {
        note_refused(carbon, &source, tenant, &one);
        texts.extend(one.refused.text());
        let mut progress = Progress { rate_attempts: RATE_ATTEMPTS - 1, ..Progress::default() };
        texts.extend(refuse_beyond(carbon, &source, tenant, (&mut one, true)));
        push(carbon, &source, tenant, one, &mut progress).await?;
    }
    Ok((!texts.is_empty()).then(|| texts.join("\n")))
}
