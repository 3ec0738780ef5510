//! Every command of every protocol: the tables in which requests are looked up and from which the
//! reference page is made.
//!
//! A command is a type in a file of its own that implements the trait of its protocol
//! ([`text::call::Command`](crate::text::call::Command),
//! [`binary::call::Command`](crate::binary::call::Command)), and has one line here.

use crate::binary::call::Entry as BinaryEntry;
use crate::text::call::Entry as TextEntry;
use crate::{binary, meta, text};

/// The commands of the text protocol, including meta commands. They are searched in this order, so the
/// most frequent ones come first.
pub(crate) const TEXT: &[TextEntry] = &[
    TextEntry::of::<text::get::Get>(),
    TextEntry::of::<text::gets::Gets>(),
    TextEntry::of::<meta::mg::Mg>(),
    TextEntry::of::<text::set::Set>(),
    TextEntry::of::<meta::ms::Ms>(),
    TextEntry::of::<meta::mn::Mn>(),
    TextEntry::of::<meta::md::Md>(),
    TextEntry::of::<meta::ma::Ma>(),
    TextEntry::of::<text::add::Add>(),
    TextEntry::of::<text::cas::Cas>(),
    TextEntry::of::<text::replace::Replace>(),
    TextEntry::of::<text::append::Append>(),
    TextEntry::of::<text::prepend::Prepend>(),
    TextEntry::of::<text::delete::Delete>(),
    TextEntry::of::<text::touch::Touch>(),
    TextEntry::of::<text::gat::Gat>(),
    TextEntry::of::<text::gats::Gats>(),
    TextEntry::of::<text::incr::Incr>(),
    TextEntry::of::<text::decr::Decr>(),
    TextEntry::of::<meta::me::Me>(),
    TextEntry::of::<text::stats::Stats>(),
    TextEntry::of::<text::version::Version>(),
    TextEntry::of::<text::flush_all::FlushAll>(),
    TextEntry::of::<text::quit::Quit>(),
    TextEntry::of::<text::verbosity::Verbosity>(),
    TextEntry::of::<text::shutdown::Shutdown>(),
    TextEntry::of::<text::cache_memlimit::CacheMemlimit>(),
    TextEntry::of::<text::watch::Watch>(),
    TextEntry::of::<text::lru_crawler::LruCrawler>(),
    TextEntry::of::<text::lru::Lru>(),
    TextEntry::of::<text::slabs::Slabs>(),
    TextEntry::of::<text::extstore::Extstore>(),
    TextEntry::of::<text::refresh_certs::RefreshCerts>(),
    TextEntry::of::<text::debugtime::Debugtime>(),
    TextEntry::of::<text::misbehave::Misbehave>(),
];

/// The commands of the binary protocol.
pub(crate) const BINARY: &[BinaryEntry] = &[
    BinaryEntry::of::<binary::get::Get>(),
    BinaryEntry::of::<binary::getk::Getk>(),
    BinaryEntry::of::<binary::set::Set>(),
    BinaryEntry::of::<binary::add::Add>(),
    BinaryEntry::of::<binary::replace::Replace>(),
    BinaryEntry::of::<binary::append::Append>(),
    BinaryEntry::of::<binary::prepend::Prepend>(),
    BinaryEntry::of::<binary::delete::Delete>(),
    BinaryEntry::of::<binary::touch::Touch>(),
    BinaryEntry::of::<binary::gat::Gat>(),
    BinaryEntry::of::<binary::gatk::Gatk>(),
    BinaryEntry::of::<binary::increment::Increment>(),
    BinaryEntry::of::<binary::decrement::Decrement>(),
    BinaryEntry::of::<binary::noop::Noop>(),
    BinaryEntry::of::<binary::flush::Flush>(),
    BinaryEntry::of::<binary::version::Version>(),
    BinaryEntry::of::<binary::stat::Stat>(),
    BinaryEntry::of::<binary::quit::Quit>(),
    BinaryEntry::of::<binary::sasl_list_mechanisms::SaslListMechanisms>(),
    BinaryEntry::of::<binary::sasl_auth::SaslAuth>(),
    BinaryEntry::of::<binary::sasl_step::SaslStep>(),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_and_opcodes_are_unique() {
        let names: BTreeSet<_> = TEXT.iter().map(|entry| entry.name).collect();
        assert_eq!(names.len(), TEXT.len());
        let opcodes = || BINARY.iter().flat_map(|entry| [Some(entry.opcode), entry.quiet]).flatten();
        assert_eq!(opcodes().collect::<BTreeSet<_>>().len(), opcodes().count());
    }
}
