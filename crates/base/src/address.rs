//! Whom an address belongs to, where something is shared by addresses.

use std::net::{IpAddr, Ipv6Addr};

/// Whom an address belongs to: one host has all addresses of a /64.
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
    fn one_host_has_a_network_of_addresses() {
        let party = |text: &str| party_of(text.parse().unwrap());
        assert_eq!(party("2001:db8::1"), party("2001:db8::ffff:0:1"));
        assert_ne!(party("2001:db8::1"), party("2001:db8:0:1::1"));
        assert_eq!(party("::ffff:10.0.0.1"), party("10.0.0.1"));
    }
}
