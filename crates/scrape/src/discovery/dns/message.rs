//! Questions to name servers, and the records of their answers.
//!
//! **Invariants.** The number of records of an answer is bounded before the answer is parsed, and so is its
//! memory: a compressed name of a few bytes may have 127 labels.

use std::net::{Ipv4Addr, Ipv6Addr};

use sandur_memory::MemoryBudget;
use simple_dns::rdata::{OPT, RData};
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE, header_buffer};

use crate::config::RecordKind;
use crate::scrape::short_of;

/// The largest number of records of an answer.
pub(super) const RECORDS_MAX: usize = 4_096;
/// The largest datagram that servers may send; a longer answer is requested over TCP. Such datagrams are not
/// divided into fragments.
pub(super) const DATAGRAM_BYTES: u16 = 1_232;
/// Bytes of a parsed record: two names of 127 labels with 32 bytes each.
const RECORD_BYTES: u64 = 8 << 10;

/// A record of the requested type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Srv { host: String, port: u16 },
    V4(Ipv4Addr),
    V6(Ipv6Addr),
    Mx { host: String },
    Ns { host: String },
}

/// The result of a look-up that a name server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The name exists; there may be no record of the requested type.
    Records(Vec<Record>),
    /// The name does not exist.
    NoSuchName,
    /// The datagram was too small: the answer is to be requested over TCP.
    Truncated,
}

/// A question.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) id: u16,
    pub(super) name: String,
    pub(super) kind: RecordKind,
}

impl Query {
    fn kind(&self) -> TYPE {
        match self.kind {
            RecordKind::Srv => TYPE::SRV,
            RecordKind::A => TYPE::A,
            RecordKind::Aaaa => TYPE::AAAA,
            RecordKind::Mx => TYPE::MX,
            RecordKind::Ns => TYPE::NS,
        }
    }

    /// Returns the message.
    pub(super) fn bytes(&self) -> Result<Vec<u8>, String> {
        let wrong = |error: simple_dns::SimpleDnsError| format!("'{}' is not a name: {error}", self.name);
        let mut packet = Packet::new_query(self.id);
        packet.set_flags(PacketFlag::RECURSION_DESIRED);
        let name = Name::new(&self.name).map_err(wrong)?;
        let (kind, class) = (QTYPE::TYPE(self.kind()), QCLASS::CLASS(CLASS::IN));
        packet.questions.push(Question::new(name, kind, class, false));
        *packet.opt_mut() = Some(OPT { opt_codes: Vec::new(), udp_packet_size: DATAGRAM_BYTES, version: 0 });
        packet.build_bytes_vec().map_err(wrong)
    }

    /// Whether a message has the number of this question. Others are ignored: they are late, or forged.
    pub(super) fn is_answered_by(&self, message: &[u8]) -> bool {
        header_buffer::id(message).is_ok_and(|id| id == self.id)
    }

    /// Parses the answer.
    pub(super) fn answer(&self, message: &[u8], memory: &MemoryBudget) -> Result<Answer, String> {
        let broken = |error: simple_dns::SimpleDnsError| format!("the answer is not valid: {error}");
        let counts = [header_buffer::answers, header_buffer::name_servers, header_buffer::additional_records];
        let mut records = usize::from(header_buffer::questions(message).map_err(broken)?);
        for count in counts {
            records += usize::from(count(message).map_err(broken)?);
        }
        if records > RECORDS_MAX {
            return Err(format!("the answer has {records} records, at most {RECORDS_MAX} are read"));
        }
        let _held = memory.reserve(records as u64 * RECORD_BYTES).map_err(|error| short_of(&error))?;
        if header_buffer::has_flags(message, PacketFlag::TRUNCATION).map_err(broken)? {
            return Ok(Answer::Truncated);
        }
        let packet = Packet::parse(message).map_err(broken)?;
        let name = Name::new(&self.name).map_err(broken)?;
        let is_same = |asked: &Question<'_>| asked.qname == name && asked.qtype == QTYPE::TYPE(self.kind());
        if !packet.has_flags(PacketFlag::RESPONSE) || !packet.questions.iter().all(is_same) {
            return Err("the answer is to another question".to_owned());
        }
        match packet.rcode() {
            RCODE::NoError => {}
            RCODE::NameError => return Ok(Answer::NoSuchName),
            other => return Err(format!("the server failed: {other:?}")),
        }
        let kind = self.kind();
        let wanted = packet.answers.iter().filter(|record| record.rdata.type_code() == kind);
        Ok(Answer::Records(wanted.filter_map(|wanted| record(&wanted.rdata)).collect()))
    }
}

/// Returns a record. The root as a host means that the service does not exist (RFC 2782, RFC 7505).
fn record(data: &RData<'_>) -> Option<Record> {
    let host = |name: &Name<'_>| (!name.get_labels().is_empty()).then(|| format!("{name}."));
    Some(match data {
        RData::SRV(srv) => Record::Srv { host: host(&srv.target)?, port: srv.port },
        RData::A(a) => Record::V4(a.address.into()),
        RData::AAAA(aaaa) => Record::V6(aaaa.address.into()),
        RData::MX(mx) => Record::Mx { host: host(&mx.exchange)? },
        RData::NS(ns) => Record::Ns { host: host(&ns.0)? },
        _ => return None,
    })
}
