//! Where alerts come from.

use sandur_model::TenantId;
use sandur_model::go_text::quote;

/// The group of rules whose alerts are sent.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The tenant.
    pub tenant: &'a TenantId,
    /// Whether the rules were stored through the API.
    pub are_stored: bool,
    /// The file of the group, or its namespace.
    pub file: &'a str,
    /// The name of the group.
    pub group: &'a str,
    /// The shard of the group, if groups are divided among processes.
    pub shard: Option<u32>,
}

impl Origin<'_> {
    /// The beginning of the keys of all notifications about alerts of this group, which no other group of the
    /// tenant has.
    pub fn key(&self) -> String {
        let kind = if self.are_stored { "namespace" } else { "file" };
        format!("{{}}/{{{kind}={}, group={}}}:", quote(self.file), quote(self.group))
    }
}
