//! IP addresses, ranges and networks: `ip("10.0.0.0/8")`, `ip("10.0.0.1-10.0.0.9")`, `ip("::1")`.

use std::net::IpAddr;

/// A set of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpSet {
    first: IpAddr,
    last: IpAddr,
}

impl IpSet {
    /// Parses an address, a range of two addresses with `-`, or a network with `/`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid = || format!("ip: invalid pattern: {}", sandur_model::go_text::quote(text));
        if let Ok(address) = text.parse() {
            return Ok(Self { first: address, last: address });
        }
        if let Some((address, bits)) = text.split_once('/') {
            let address: IpAddr = address.parse().map_err(|_| invalid())?;
            let plain = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
            let bits: u32 = bits.parse().ok().filter(|_| plain).ok_or_else(invalid)?;
            return network(address, bits).ok_or_else(invalid);
        }
        let (first, last) = text.split_once('-').ok_or_else(invalid)?;
        let first: IpAddr = first.trim().parse().map_err(|_| invalid())?;
        let last: IpAddr = last.trim().parse().map_err(|_| invalid())?;
        if first.is_ipv4() != last.is_ipv4() || last < first {
            return Err(invalid());
        }
        Ok(Self { first, last })
    }

    /// Whether the address is in the set.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4() && self.first <= address && address <= self.last
    }

    /// Whether any address in the text is in the set.
    pub fn found_in(&self, text: &[u8]) -> bool {
        let mut at = 0;
        while at < text.len() {
            let length = match address_length(text, at) {
                Some(length) => length,
                None => {
                    at += 1;
                    continue;
                }
            };
            let candidate = std::str::from_utf8(&text[at..at + length]).ok();
            if candidate.and_then(|t| t.parse().ok()).is_some_and(|address| self.contains(address)) {
                return true;
            }
            at += length + 1;
        }
        false
    }
}

fn network(address: IpAddr, bits: u32) -> Option<IpSet> {
    match address {
        IpAddr::V4(v4) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            let first = u32::from(v4) & mask;
            Some(IpSet { first: IpAddr::V4(first.into()), last: IpAddr::V4((first | !mask).into()) })
        }
        IpAddr::V6(v6) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            let first = u128::from(v6) & mask;
            Some(IpSet { first: IpAddr::V6(first.into()), last: IpAddr::V6((first | !mask).into()) })
        }
        _ => None,
    }
}

/// The length of the text at `at` that looks like an address.
fn address_length(text: &[u8], at: usize) -> Option<usize> {
    let byte = |n: usize| text.get(at + n).copied().unwrap_or(0);
    let v4 = byte(0).is_ascii_digit() && (1..=3).any(|n| byte(n) == b'.') && at + 3 < text.len();
    if v4 {
        return Some(span(&text[at..], |b| b.is_ascii_digit() || b == b'.'));
    }
    let hex = (0..4).take_while(|&n| byte(n).is_ascii_hexdigit()).count();
    let v6 =
        (hex > 0 && byte(hex) == b':') || (byte(0) == b':' && byte(1) == b':' && byte(2).is_ascii_hexdigit());
    v6.then(|| span(&text[at..], |b| b.is_ascii_hexdigit() || b == b':' || b == b'.'))
}

fn span(text: &[u8], inside: impl Fn(u8) -> bool) -> usize {
    text.iter().take_while(|&&b| inside(b)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_contain_their_addresses() {
        for (set, text, expected) in [
            ("192.168.0.1", "from 192.168.0.1 to 10.0.0.1", true),
            ("192.168.0.1", "192.168.0.10", false),
            ("10.0.0.0/8", "x=10.200.3.4;", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.1-10.0.0.9", "10.0.0.9", true),
            ("10.0.0.1 - 10.0.0.9", "10.0.0.10", false),
            ("::1", "addr ::1 end", true),
            ("2001:db8::/32", "[2001:db8::8a2e:370:7334]:80", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("0.0.0.0/0", "no address 1.2 here", false),
            ("0.0.0.0/0", "", false),
        ] {
            assert_eq!(IpSet::parse(set).unwrap().found_in(text.as_bytes()), expected, "{set} in {text}");
        }
        for bad in ["", "x", "10.0.0.0/33", "10.0.0.9-10.0.0.1", "10.0.0.1-::1", "1.2.3"] {
            assert!(IpSet::parse(bad).is_err(), "{bad}");
        }
    }
}
