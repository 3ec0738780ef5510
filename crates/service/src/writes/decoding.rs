//! Decodes bodies in memory that is reserved before it is used.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use sandur_base::ErrorKind;
use sandur_ingest::{Memory, PushHeaders};
use sandur_runtime::{FairReservation, Lane, Short};

use super::Writes;
use crate::failure::Failure;

/// A body that was read, and the memory that it holds.
pub struct Received {
    /// The bytes.
    pub bytes: Bytes,
    /// Dropped when the bytes are not needed any more.
    pub memory: FairReservation,
}

/// The result of decoding a body.
pub trait Decoded: Send + 'static {
    /// Bytes of memory that it holds.
    fn memory_bytes(&self) -> u64;
}

/// The headers that determine how a body is decoded.
#[derive(Clone, Debug, Default)]
pub struct BodyHeaders {
    content_type: Option<String>,
    content_encoding: Option<String>,
}

impl BodyHeaders {
    /// The media type and the compression of a body, if they are known.
    pub fn new(content_type: Option<&str>, content_encoding: Option<&str>) -> Self {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Self { content_type: owned(content_type), content_encoding: owned(content_encoding) }
    }

    /// The headers in the form that decoders expect.
    pub fn borrowed(&self) -> PushHeaders<'_> {
        PushHeaders {
            content_type: self.content_type.as_deref(),
            content_encoding: self.content_encoding.as_deref(),
        }
    }
}

/// Why a body was not decoded.
pub enum NotDecoded {
    /// The body, or what it decodes to, needs more memory than one request may have.
    TooLarge(Received, Failure),
    /// Any other failure.
    Failed(Failure),
}

impl From<NotDecoded> for Failure {
    fn from(not: NotDecoded) -> Self {
        match not {
            NotDecoded::TooLarge(_, failure) | NotDecoded::Failed(failure) => failure,
        }
    }
}

/// Bodies up to this size are decoded on the I/O thread; larger ones on the CPU pool, so that they do not
/// block I/O.
const INLINE_BYTES_MAX: usize = 32 << 10;

/// Decodes a body within memory that is reserved first. The returned reservation covers what the result
/// holds.
pub async fn decode_in_memory<D: Decoded>(
    writes: &Writes,
    received: Received,
    decode: impl Fn(Bytes, Rc<dyn Memory>) -> Result<D, sandur_ingest::Error> + Clone + Send + 'static,
) -> Result<(D, FairReservation), NotDecoded> {
    let (decoded, mut memory) = decode_kept(writes, received, decode).await?;
    // Releases the part of the body that the batch does not refer to.
    memory.shrink(memory.bytes().saturating_sub(decoded.memory_bytes()));
    Ok((decoded, memory))
}

/// Decodes a body that the caller keeps, in memory reserved in addition to that of the body. When memory
/// is short, it waits for more and decodes again: the decompressed size is known only after
/// decompression, and a decoder does not wait.
pub async fn decode_kept<D: Send + 'static>(
    writes: &Writes,
    received: Received,
    decode: impl Fn(Bytes, Rc<dyn Memory>) -> Result<D, sandur_ingest::Error> + Clone + Send + 'static,
) -> Result<(D, FairReservation), NotDecoded> {
    let Received { bytes, mut memory } = received;
    let small = bytes.len() <= INLINE_BYTES_MAX;
    let of_body = memory.bytes();
    loop {
        let (body, decode) = (bytes.clone(), decode.clone());
        let job = move || decode_with(memory, of_body, |lent| decode(body, lent));
        let (reservation, outcome) = if small { job() } else { writes.env().run_cpu(Lane::Query, job).await };
        memory = reservation;
        match outcome {
            Ok(decoded) => return Ok((decoded, memory)),
            Err(Undecoded::Refused(error)) => return Err(NotDecoded::Failed(refusal(error))),
            Err(Undecoded::Short { asked }) => {
                // Doubles the memory, so that few rounds are needed.
                let room = writes.memory().reservation_max().saturating_sub(memory.bytes());
                let more = (memory.bytes() - of_body).min(room).max(asked);
                if let Err(short) = memory.grow(more).await {
                    let failure = Failure::from(&short);
                    if !matches!(short, Short::TooLarge { .. }) {
                        return Err(NotDecoded::Failed(failure));
                    }
                    memory.shrink(memory.bytes().saturating_sub(of_body));
                    return Err(NotDecoded::TooLarge(Received { bytes, memory }, failure));
                }
            }
        }
    }
}

enum Undecoded {
    Refused(sandur_ingest::Error),
    Short { asked: u64 },
}

/// Runs a decoder within the part of the reservation beyond the body, which grows as long as memory is
/// free.
fn decode_with<D>(
    reservation: FairReservation,
    of_body: u64,
    decode: impl FnOnce(Rc<dyn Memory>) -> Result<D, sandur_ingest::Error>,
) -> (FairReservation, Result<D, Undecoded>) {
    let (left, asked) = (Cell::new(reservation.bytes() - of_body), Cell::new(None));
    let lent = Rc::new(Lent { reservation: RefCell::new(reservation), left, asked });
    let outcome = decode(Rc::clone(&lent) as Rc<dyn Memory>);
    let asked = lent.asked.get();
    let lent = Rc::into_inner(lent).expect("a decoder drops its handle of the memory when it returns");
    let mut reservation = lent.reservation.into_inner();
    let outcome = match (outcome, asked) {
        (Ok(decoded), _) => {
            reservation.shrink(lent.left.get());
            Ok(decoded)
        }
        (Err(_), Some(asked)) => Err(Undecoded::Short { asked }),
        (Err(error), None) => Err(Undecoded::Refused(error)),
    };
    (reservation, outcome)
}

/// Bytes that are reserved at least when a decoder needs more: a reservation locks the budget of all
/// requests, and a histogram takes about half a KiB. What is left in the end is returned.
const AHEAD_BYTES: u64 = 64 << 10;

/// A reservation through the interface of decoders.
struct Lent {
    reservation: RefCell<FairReservation>,
    /// Bytes of the reservation that are not in use.
    left: Cell<u64>,
    /// The size of the first request for memory that was refused.
    asked: Cell<Option<u64>>,
}

impl Memory for Lent {
    fn take(&self, bytes: u64) -> bool {
        let Some(missing) = bytes.checked_sub(self.left.get()) else {
            self.left.set(self.left.get() - bytes);
            return true;
        };
        let mut reservation = self.reservation.borrow_mut();
        let grown =
            [missing.max(AHEAD_BYTES), missing].into_iter().find(|more| reservation.try_grow(*more).is_ok());
        match grown {
            Some(more) => self.left.set(more - missing),
            None => self.asked.set(Some(missing)),
        }
        grown.is_some()
    }

    fn give(&self, bytes: u64) {
        self.left.set(self.left.get() + bytes);
    }
}

/// A body that cannot be decoded: a limit that it exceeds makes it too large.
fn refusal(error: sandur_ingest::Error) -> Failure {
    let kind = match error {
        sandur_ingest::Error::NoStreams => ErrorKind::Empty,
        _ if error.kind() == ErrorKind::Limit => ErrorKind::TooLarge,
        _ => error.kind(),
    };
    Failure::new(kind, error.to_string())
}
