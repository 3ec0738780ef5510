//! Where alerts come from.

use sandur_model::TenantId;
use sandur_model::go_text::quote;

/// The group of rules whose alerts are sent.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The tenant.
    pub tenant: &'a TenantId,
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
        format!("{{}}/{{file={}, group={}}}:", quote(self.file), quote(self.group))
    }
}
