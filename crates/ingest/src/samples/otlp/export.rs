//! A request that is being decoded, and the resource that its decoder has reached.

use std::collections::BTreeMap;

use crate::samples::builder::SampleBuilder;

/// A request that is being decoded.
pub(super) struct Export<'a> {
    pub(super) builder: SampleBuilder<'a>,
    /// The message that the spans point into.
    pub(super) base: &'a [u8],
    pub(super) limit: u64,
    pub(super) resource: Resource,
    /// Labels that all series of the current scope share.
    pub(super) scope: Vec<Label>,
    /// The first and last time of the points of the current resource.
    pub(super) times: Option<(i64, i64)>,
}

/// A name and a value.
pub(super) type Label = (String, String);

/// Values by name.
pub(super) type LabelMap = BTreeMap<String, String>;

/// The properties that all series of a resource share.
#[derive(Default)]
pub(super) struct Resource {
    /// The attributes, sorted by key.
    pub(super) attributes: Vec<Label>,
    /// `job` and `instance`.
    pub(super) identity: Vec<Label>,
    /// Attributes that become labels.
    pub(super) promoted: LabelMap,
}
