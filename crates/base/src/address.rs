//! The party that an address belongs to, for resources that clients share by address.

use std::net::{IpAddr, Ipv6Addr};

/// The party of an address: an IPv4 address itself, or the /64 network of an IPv6 address, because one
/// host can use every address of its /64. IPv4-mapped IPv6 addresses count as IPv4.
pub fn party_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ipv6_addresses_of_a_network_are_one_party() {
        let party = |text: &str| party_of(text.parse().unwrap());
        assert_eq!(party("2001:db8::1"), party("2001:db8::ffff:0:1"));
        assert_ne!(party("2001:db8::1"), party("2001:db8:0:1::1"));
        assert_eq!(party("::ffff:10.0.0.1"), party("10.0.0.1"));
    }
}
