//! What one process asks another: a request, the part of the series to which it applies, and bounds for the
//! answer.
//!
//! The request itself is a sub-query of a language or a request for labels, as bytes of its own
//! ([`crate::wire`]). Everything that the query's context decides is here, so that the process that answers
//! makes a context that is equal to that of the process that asks.
//!
//! **Invariant.** An answer has at most [`PartRequest::answer_bytes_max`] bytes, which the process that asks
//! can reserve. A process that cannot keep to the bound fails instead of sending a part of the answer.

use std::time::Duration;

use sandur_base::units::ByteSize;
use sandur_protobuf::Writer as _;

use crate::context::QueryContext;
use crate::error::Error;
use crate::part::Part;
use crate::series_messages::REQUEST_BYTES_MAX;
use crate::wire::{Fields, Put as _, begin, malformed};

/// The most bytes of the message: those of a request, and some for the other fields.
const MESSAGE_BYTES_MAX: usize = REQUEST_BYTES_MAX + 1_024;

/// A request to another process for a part of a query's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartRequest {
    /// The series to which the request applies.
    pub part: Part,
    /// The most bytes of the answer.
    pub answer_bytes_max: u64,
    /// When the query began, in nanoseconds since the epoch: the time that functions such as `now` return.
    pub begun_ns: i64,
    /// How long the answer may take.
    pub timeout: Duration,
    /// The bytes of the request.
    pub request: Vec<u8>,
}

impl PartRequest {
    /// Asks for a part of the query of a context. The answer may take the memory and the time that the query
    /// has left.
    pub fn new(context: &QueryContext, part: Part, request: Vec<u8>) -> Self {
        Self {
            part,
            answer_bytes_max: context.budget().available(),
            begun_ns: context.begun_ns(),
            timeout: context.remaining(),
            request,
        }
    }

    /// The message for another process.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (first, end) = self.part.bounds();
        let mut out = Vec::with_capacity(self.request.len() + 64);
        begin(&mut out);
        out.varint(2, u64::from(first));
        out.varint(3, u64::from(end));
        out.varint(4, self.answer_bytes_max);
        out.put_signed(5, self.begun_ns);
        out.varint(6, u64::try_from(self.timeout.as_nanos()).unwrap_or(u64::MAX));
        out.bytes(7, &self.request);
        out
    }

    /// The message that another process sent.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let mut fields = Fields::of_request(bytes, MESSAGE_BYTES_MAX)?;
        let (mut shards, mut numbers, mut begun_ns, mut request) = ([0; 2], [0; 2], 0, None);
        while let Some(field) = fields.field()? {
            match field {
                2 | 3 => {
                    let shard = u16::try_from(fields.number()?);
                    shards[field as usize - 2] = shard.map_err(|_| malformed("a shard above 65,535"))?;
                }
                4 => numbers[0] = fields.number()?,
                5 => begun_ns = fields.signed()?,
                6 => numbers[1] = fields.number()?,
                7 => request = Some(fields.bytes()?.to_vec()),
                _ => fields.skip()?,
            }
        }
        let [answer_bytes_max, timeout_ns] = numbers;
        Ok(Self {
            part: Part::between(shards[0], shards[1])?,
            answer_bytes_max,
            begun_ns,
            timeout: Duration::from_nanos(timeout_ns),
            request: request.ok_or_else(|| malformed("a part of a query without a request"))?,
        })
    }

    /// Restricts the context of the process that answers to the part.
    pub fn restrict(&self, context: QueryContext) -> QueryContext {
        context.with_part(self.part).with_begun(self.begun_ns)
    }

    /// The answer, if it keeps to the bound.
    pub fn checked(&self, answer: Vec<u8>) -> Result<Vec<u8>, Error> {
        if answer.len() as u64 <= self.answer_bytes_max {
            return Ok(answer);
        }
        Err(Error::Limit(format!(
            "a part of the query has an answer of {}, but the process that asked can take {}: narrow the \
             query (time range, selector), aggregate more, or raise max_query_memory",
            ByteSize(answer.len() as u64),
            ByteSize(self.answer_bytes_max)
        )))
    }
}

#[cfg(test)]
mod tests {
    use sandur_memory::MemoryBudget;
    use sandur_model::TenantId;
    use sandur_runtime::Env;

    use super::*;

    fn context(bytes: u64) -> QueryContext {
        let env = Env::simulated(1, 5);
        let budget = MemoryBudget::root("query", bytes);
        QueryContext::new(env, TenantId::default_tenant(), budget, Duration::from_secs(60))
    }

    #[test]
    fn a_request_is_read_back_and_sets_the_part_of_the_answering_context() {
        let asking = context(1_000);
        let _held = asking.budget().reserve(400).unwrap();
        let asked = PartRequest::new(&asking, Part::of(1, 3).unwrap(), b"sum(up)".to_vec());
        assert_eq!(asked.answer_bytes_max, 600);
        assert!(asked.timeout > Duration::ZERO && asked.timeout <= Duration::from_secs(60));
        let read = PartRequest::from_bytes(&asked.to_bytes()).unwrap();
        assert_eq!(read, asked);
        let answering = read.restrict(context(10));
        assert_eq!((answering.part(), answering.begun_ns()), (asked.part, asking.begun_ns()));
        assert_eq!(read.checked(vec![0; 600]).unwrap().len(), 600);
        let refused = read.checked(vec![0; 601]).unwrap_err().to_string();
        assert!(refused.contains("601B") && refused.contains("600B"), "{refused}");
    }

    #[test]
    fn damaged_and_oversized_messages_are_refused_or_read_without_a_panic() {
        let asked = PartRequest::new(&context(1 << 20), Part::WHOLE, b"x".to_vec()).to_bytes();
        for at in 0..asked.len() {
            _ = PartRequest::from_bytes(&asked[..at]);
            for bit in 0..8 {
                let mut damaged = asked.clone();
                damaged[at] ^= 1 << bit;
                _ = PartRequest::from_bytes(&damaged);
            }
        }
        assert!(PartRequest::from_bytes(&asked[..asked.len() - 3]).is_err(), "without its request");
        let large = PartRequest::new(&context(1), Part::WHOLE, vec![0; MESSAGE_BYTES_MAX]).to_bytes();
        assert!(matches!(PartRequest::from_bytes(&large), Err(Error::Limit(_))));
    }
}
