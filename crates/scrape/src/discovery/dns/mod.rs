//! Targets from the records of names in the DNS.

mod message;
mod resolver;
#[cfg(test)]
mod tests;

use std::net::Ipv6Addr;
use std::time::Duration;

use sandur_base::BoxFuture;

use super::source::{Found, Listed, Source};
use crate::config::RecordKind;
use message::Record;
pub(crate) use resolver::Resolver;

const NAME: &str = "__meta_dns_name";
const SRV_TARGET: &str = "__meta_dns_srv_record_target";
const SRV_PORT: &str = "__meta_dns_srv_record_port";
const MX_TARGET: &str = "__meta_dns_mx_record_target";
const NS_TARGET: &str = "__meta_dns_ns_record_target";

/// One name.
pub(super) struct DnsName {
    pub(super) resolver: Resolver,
    pub(super) name: String,
    pub(super) kind: RecordKind,
    pub(super) port: u16,
    pub(super) refresh: Duration,
}

impl DnsName {
    async fn look_up(&self) -> Result<Listed, String> {
        let records = self.resolver.records(&self.name, self.kind).await?;
        let mut found = Found::new(&self.resolver.memory);
        records.iter().for_each(|record| self.add(record, &mut found));
        found.finish()
    }

    /// Adds the target of a record.
    fn add(&self, record: &Record, found: &mut Found) {
        let at = |host: &str, port: u16| format!("{}:{port}", host.trim_end_matches('.'));
        let (address, labels) = match record {
            Record::Srv { host, port } => {
                (at(host, *port), vec![(SRV_TARGET, host.clone()), (SRV_PORT, port.to_string())])
            }
            Record::V4(address) => (format!("{address}:{}", self.port), Vec::new()),
            Record::V6(address) => (v6(address, self.port), Vec::new()),
            Record::Mx { host } => (at(host, self.port), vec![(MX_TARGET, host.clone())]),
            Record::Ns { host } => (at(host, self.port), vec![(NS_TARGET, host.clone())]),
        };
        let labels = [(NAME, self.name.clone())].into_iter().chain(labels);
        found.add(address, labels.map(|(name, value)| (name.to_owned(), value)).collect());
    }
}

fn v6(address: &Ipv6Addr, port: u16) -> String {
    format!("[{address}]:{port}")
}

impl Source for DnsName {
    fn kind(&self) -> &'static str {
        "dns"
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn refresh(&self) -> Duration {
        self.refresh
    }

    fn list(&self) -> BoxFuture<'_, Result<Listed, String>> {
        Box::pin(self.look_up())
    }
}
