//! Messages about the states of rules.
//!
//! A list of states can have many thousands of alerts. It stays encoded ([`PeerRules`]) until its reader goes
//! through its parts: first the tenant, then each group, followed by its rules, each followed by its alerts.
//!
//! **Invariant.** Each part counts as many bytes as it takes in a message, and as many as a reader needs to
//! keep it ([`PeerRulesPart::bytes`]). A list never has parts of more bytes than its caller allows: a writer
//! refuses those that do not fit, and a reader refuses a list that has more. That bounds the number of groups
//! (512 bytes each), rules (256), alerts (384), and labels and annotations (64). What is read of a part
//! before it is counted has at most 1,024 labels and as many annotations.

use bytes::Bytes;
use sandur_protobuf::{Reader, Wire, Writer as _};

use crate::malformed::Malformed;

/// Maximum number of groups that a request names.
pub const GROUPS_NAMED_MAX: usize = 1_024;

/// Maximum number of labels, and of annotations, of an alert in a list.
const PAIRS_MAX: usize = 1_024;
/// Bytes of a list without any part: the tenant, of which one has at most 150 bytes, and a count.
const HEAD_BYTES: u64 = 256;
/// Bytes of a group, a rule, an alert, and a label or annotation, without their texts. These are the values
/// that a reader keeps, with the overhead of their allocations. The fields of a message take less.
const GROUP_BYTES: u64 = 512;
const RULE_BYTES: u64 = 256;
const ALERT_BYTES: u64 = 384;
const PAIR_BYTES: u64 = 64;

/// A group, as the process that evaluates it describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerGroup<'a> {
    /// The file.
    pub file: &'a str,
    /// The name.
    pub name: &'a str,
    /// A hash of the specification.
    pub fingerprint: u128,
    /// When it was evaluated last, nanoseconds since the epoch.
    pub last_ns: Option<i64>,
    /// Microseconds that this took.
    pub took_us: u64,
    /// Evaluations that were missed.
    pub missed: u64,
    /// Evaluations that were made up.
    pub made_up: u64,
    /// Microseconds by which the last evaluation was late.
    pub late_us: u64,
}

/// A rule. Its position among the rules of its group says which one it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerRule<'a> {
    /// When it was evaluated last, nanoseconds since the epoch.
    pub last_ns: Option<i64>,
    /// Microseconds that this took.
    pub took_us: u64,
    /// Why the last evaluation failed.
    pub error: Option<&'a str>,
    /// The number of its alerts, those included for which the list has no room.
    pub alerts: u64,
    /// The highest state of all these alerts.
    pub state: PeerAlertState,
}

/// The state of an alert.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeerAlertState {
    /// It does not fire.
    #[default]
    Inactive,
    /// It will fire if it stays active.
    Pending,
    /// It fires.
    Firing,
}

/// An alert.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeerAlert<'a> {
    /// Names and values of its labels.
    pub labels: Vec<(&'a str, &'a str)>,
    /// Names and values of its annotations.
    pub annotations: Vec<(&'a str, &'a str)>,
    /// The value of its series.
    pub value: f64,
    /// Its state.
    pub state: PeerAlertState,
    /// Its times.
    pub times: PeerAlertTimes,
}

/// The times of an alert, nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerAlertTimes {
    /// When it became active.
    pub active_ns: i64,
    /// When it fired.
    pub fired_ns: Option<i64>,
    /// Since when it is kept firing.
    pub keep_firing_since_ns: Option<i64>,
    /// When it was sent last.
    pub sent_ns: Option<i64>,
    /// Until when receivers may regard it as firing.
    pub valid_until_ns: Option<i64>,
}

/// A part of a list of states.
#[derive(Clone, Debug, PartialEq)]
pub enum PeerRulesPart<'a> {
    /// The tenant of all groups.
    Tenant(&'a str),
    /// A group.
    Group(PeerGroup<'a>),
    /// The next rule of the last group.
    Rule(PeerRule<'a>),
    /// An alert of the last rule.
    Alert(PeerAlert<'a>),
    /// The number of groups that did not fit.
    LeftOut(u64),
}

/// States of rules of one process: the encoded list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerRules(pub(crate) Bytes);

impl PeerRules {
    /// The parts, as far as they have no more bytes than `most`.
    pub fn parts(&self, most: u64) -> PeerRulesParts<'_> {
        PeerRulesParts { message: Reader::new(&self.0), left: most.max(HEAD_BYTES) }
    }

    /// The length of the message in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has no part.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Fields of a list.
mod fields {
    pub(super) const TENANT: u32 = 1;
    pub(super) const PART: u32 = 2;
    pub(super) const LEFT_OUT: u32 = 3;
    /// Fields of a part: one of them.
    pub(super) const GROUP: u32 = 1;
    pub(super) const RULE: u32 = 2;
    pub(super) const ALERT: u32 = 3;
}

impl PeerRulesPart<'_> {
    /// The bytes that the part counts.
    pub fn bytes(&self) -> u64 {
        let of_pairs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| PAIR_BYTES + (name.len() + value.len()) as u64).sum::<u64>()
        };
        match self {
            Self::Tenant(_) | Self::LeftOut(_) => 0,
            Self::Group(group) => GROUP_BYTES + (group.file.len() + group.name.len()) as u64,
            Self::Rule(rule) => RULE_BYTES + rule.error.map_or(0, |error| error.len() as u64),
            Self::Alert(alert) => ALERT_BYTES + of_pairs(&alert.labels) + of_pairs(&alert.annotations),
        }
    }

    fn write(&self, message: &mut Vec<u8>) {
        match self {
            Self::Tenant(tenant) => message.text(fields::TENANT, tenant),
            Self::LeftOut(groups) => message.number(fields::LEFT_OUT, *groups),
            Self::Group(group) => message.message(fields::PART, |part| {
                part.message(fields::GROUP, |message| write_group(message, group));
            }),
            Self::Rule(rule) => message.message(fields::PART, |part| {
                part.message(fields::RULE, |message| write_rule(message, rule));
            }),
            Self::Alert(alert) => message.message(fields::PART, |part| {
                part.message(fields::ALERT, |message| write_alert(message, alert));
            }),
        }
    }
}

/// Writes a list.
pub struct PeerRulesWriter {
    message: Vec<u8>,
    left: u64,
}

impl PeerRulesWriter {
    /// A list of the groups of a tenant, in at most `most` bytes.
    pub fn new(tenant: &str, most: u64) -> Self {
        let mut message = Vec::new();
        PeerRulesPart::Tenant(tenant).write(&mut message);
        Self { message, left: most.saturating_sub(HEAD_BYTES) }
    }

    /// The bytes that are left for parts.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Appends a part. Returns whether it fits.
    pub fn push(&mut self, part: &PeerRulesPart<'_>) -> bool {
        if let PeerRulesPart::Alert(alert) = part
            && alert.labels.len().max(alert.annotations.len()) > PAIRS_MAX
        {
            return false;
        }
        let Some(left) = self.left.checked_sub(part.bytes()) else { return false };
        self.left = left;
        part.write(&mut self.message);
        true
    }

    /// The list, from which this many groups were left out.
    pub fn end(mut self, groups_left_out: u64) -> PeerRules {
        PeerRulesPart::LeftOut(groups_left_out).write(&mut self.message);
        PeerRules(self.message.into())
    }
}

/// The parts of a list, one after the other.
pub struct PeerRulesParts<'a> {
    message: Reader<'a>,
    left: u64,
}

impl<'a> PeerRulesParts<'a> {
    /// The next part; `None` after the last one. No part follows an error.
    pub fn read(&mut self) -> Result<Option<PeerRulesPart<'a>>, Malformed> {
        while let Some((field, wire)) = self.message.key()? {
            let part = match (field, wire) {
                (fields::TENANT, Wire::Bytes) => Some(PeerRulesPart::Tenant(text(self.message.bytes()?)?)),
                (fields::LEFT_OUT, Wire::Varint) => Some(PeerRulesPart::LeftOut(self.message.varint()?)),
                (fields::PART, Wire::Bytes) => read_part(self.message.message()?)?,
                (_, wire) => {
                    self.message.skip(wire)?;
                    None
                }
            };
            let Some(part) = part else { continue };
            let left = self.left.checked_sub(part.bytes());
            self.left = left.ok_or(Malformed::Value("a list of rules has more parts than it may have"))?;
            return Ok(Some(part));
        }
        Ok(None)
    }
}

/// Reads a part; `None` for one of a later version.
fn read_part(mut part: Reader<'_>) -> Result<Option<PeerRulesPart<'_>>, Malformed> {
    let mut read = None;
    while let Some((field, wire)) = part.key()? {
        match (field, wire) {
            (fields::GROUP, Wire::Bytes) => read = Some(PeerRulesPart::Group(read_group(part.message()?)?)),
            (fields::RULE, Wire::Bytes) => read = Some(PeerRulesPart::Rule(read_rule(part.message()?)?)),
            (fields::ALERT, Wire::Bytes) => read = Some(PeerRulesPart::Alert(read_alert(part.message()?)?)),
            (_, wire) => part.skip(wire)?,
        }
    }
    Ok(read)
}

fn write_group(message: &mut Vec<u8>, group: &PeerGroup<'_>) {
    message.text(1, group.file);
    message.text(2, group.name);
    message.bytes(3, &group.fingerprint.to_le_bytes());
    write_time(message, 4, group.last_ns);
    message.number(5, group.took_us);
    message.number(6, group.missed);
    message.number(7, group.made_up);
    message.number(8, group.late_us);
}

fn read_group(mut fields: Reader<'_>) -> Result<PeerGroup<'_>, Malformed> {
    let mut group = PeerGroup::default();
    while let Some((field, wire)) = fields.key()? {
        match (field, wire) {
            (1, Wire::Bytes) => group.file = text(fields.bytes()?)?,
            (2, Wire::Bytes) => group.name = text(fields.bytes()?)?,
            (3, Wire::Bytes) => group.fingerprint = fingerprint(fields.bytes()?)?,
            (4, Wire::Fixed64) => group.last_ns = Some(fields.fixed64()?.cast_signed()),
            (5, Wire::Varint) => group.took_us = fields.varint()?,
            (6, Wire::Varint) => group.missed = fields.varint()?,
            (7, Wire::Varint) => group.made_up = fields.varint()?,
            (8, Wire::Varint) => group.late_us = fields.varint()?,
            (_, wire) => fields.skip(wire)?,
        }
    }
    Ok(group)
}

fn write_rule(message: &mut Vec<u8>, rule: &PeerRule<'_>) {
    write_time(message, 1, rule.last_ns);
    message.number(2, rule.took_us);
    rule.error.iter().for_each(|error| message.bytes(3, error.as_bytes()));
    message.number(4, rule.alerts);
    message.number(5, number_of(rule.state));
}

fn read_rule(mut fields: Reader<'_>) -> Result<PeerRule<'_>, Malformed> {
    let mut rule = PeerRule::default();
    while let Some((field, wire)) = fields.key()? {
        match (field, wire) {
            (1, Wire::Fixed64) => rule.last_ns = Some(fields.fixed64()?.cast_signed()),
            (2, Wire::Varint) => rule.took_us = fields.varint()?,
            (3, Wire::Bytes) => rule.error = Some(text(fields.bytes()?)?),
            (4, Wire::Varint) => rule.alerts = fields.varint()?,
            (5, Wire::Varint) => rule.state = state_of(fields.varint()?)?,
            (_, wire) => fields.skip(wire)?,
        }
    }
    Ok(rule)
}

fn write_alert(message: &mut Vec<u8>, alert: &PeerAlert<'_>) {
    for (field, pairs) in [(1, &alert.labels), (2, &alert.annotations)] {
        for (name, value) in pairs {
            message.message(field, |pair: &mut Vec<u8>| {
                pair.text(1, name);
                pair.text(2, value);
            });
        }
    }
    message.double(3, alert.value);
    message.number(4, number_of(alert.state));
    let PeerAlertTimes { active_ns, fired_ns, keep_firing_since_ns, sent_ns, valid_until_ns } = alert.times;
    write_time(message, 5, Some(active_ns));
    write_time(message, 6, fired_ns);
    write_time(message, 7, keep_firing_since_ns);
    write_time(message, 8, sent_ns);
    write_time(message, 9, valid_until_ns);
}

fn read_alert(mut fields: Reader<'_>) -> Result<PeerAlert<'_>, Malformed> {
    let mut alert = PeerAlert::default();
    while let Some((field, wire)) = fields.key()? {
        let times = &mut alert.times;
        match (field, wire) {
            (1, Wire::Bytes) => push_pair(&mut alert.labels, fields.message()?)?,
            (2, Wire::Bytes) => push_pair(&mut alert.annotations, fields.message()?)?,
            (3, Wire::Fixed64) => alert.value = fields.double()?,
            (4, Wire::Varint) => alert.state = state_of(fields.varint()?)?,
            (5, Wire::Fixed64) => times.active_ns = fields.fixed64()?.cast_signed(),
            (6, Wire::Fixed64) => times.fired_ns = Some(fields.fixed64()?.cast_signed()),
            (7, Wire::Fixed64) => times.keep_firing_since_ns = Some(fields.fixed64()?.cast_signed()),
            (8, Wire::Fixed64) => times.sent_ns = Some(fields.fixed64()?.cast_signed()),
            (9, Wire::Fixed64) => times.valid_until_ns = Some(fields.fixed64()?.cast_signed()),
            (_, wire) => fields.skip(wire)?,
        }
    }
    Ok(alert)
}

/// A time has eight bytes, so that no time is the same as a missing one.
fn write_time(message: &mut Vec<u8>, field: u32, time_ns: Option<i64>) {
    time_ns.iter().for_each(|ns| message.fixed64(field, ns.cast_unsigned()));
}

fn push_pair<'a>(pairs: &mut Vec<(&'a str, &'a str)>, mut fields: Reader<'a>) -> Result<(), Malformed> {
    if pairs.len() == PAIRS_MAX {
        return Err(Malformed::Value("an alert has too many labels or annotations"));
    }
    let (mut name, mut value) = ("", "");
    while let Some((field, wire)) = fields.key()? {
        match (field, wire) {
            (1, Wire::Bytes) => name = text(fields.bytes()?)?,
            (2, Wire::Bytes) => value = text(fields.bytes()?)?,
            (_, wire) => fields.skip(wire)?,
        }
    }
    pairs.push((name, value));
    Ok(())
}

fn number_of(state: PeerAlertState) -> u64 {
    match state {
        PeerAlertState::Inactive => 0,
        PeerAlertState::Pending => 1,
        PeerAlertState::Firing => 2,
    }
}

fn state_of(number: u64) -> Result<PeerAlertState, Malformed> {
    match number {
        0 => Ok(PeerAlertState::Inactive),
        1 => Ok(PeerAlertState::Pending),
        2 => Ok(PeerAlertState::Firing),
        _ => Err(Malformed::Value("an alert has an unknown state")),
    }
}

fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed::Value("a text is not UTF-8"))
}

fn fingerprint(bytes: &[u8]) -> Result<u128, Malformed> {
    let bytes = <[u8; 16]>::try_from(bytes);
    bytes.map(u128::from_le_bytes).map_err(|_| Malformed::Value("a hash does not have 16 bytes"))
}

/// Writes the hashes of the groups that a request names.
pub(crate) fn write_fingerprints(message: &mut Vec<u8>, field: u32, groups: &[u128]) {
    if !groups.is_empty() {
        message.message(field, |bytes| groups.iter().for_each(|group| bytes.put(&group.to_le_bytes())));
    }
}

/// Reads the hashes of the groups that a request names.
pub(crate) fn read_fingerprints(bytes: &[u8]) -> Result<Vec<u128>, Malformed> {
    if bytes.len() > 16 * GROUPS_NAMED_MAX {
        return Err(Malformed::Value("a call names too many groups"));
    }
    bytes.chunks(16).map(fingerprint).collect()
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
