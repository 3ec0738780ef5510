//! Bytes of each tenant in a segment: of all its records, also of those that can no longer be found.
//!
//! Invariant: the units reported when records are written or recovered are equal to those reported when
//! their segment is freed.

use super::bytes::UNIT;

/// Most tenants that are counted separately in a segment; a trailer holds this many.
pub const TENANTS_MAX: usize = 256;

/// The number under which further tenants of a segment are counted, and the records of segments that
/// list no tenants.
const OTHERS: u32 = u32::MAX;

/// Units by tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantUnits(Vec<(u32, u32)>);

impl TenantUnits {
    /// Units of unknown tenants.
    pub fn of_others(bytes: u64) -> Self {
        let units = u32::try_from(bytes / UNIT).unwrap_or(u32::MAX);
        Self(if units > 0 { vec![(OTHERS, units)] } else { Vec::new() })
    }

    /// Adds units of a tenant. Returns the number under which they are counted.
    pub fn add(&mut self, tenant: u32, units: u32) -> u32 {
        let is_apart = self.0.len() + 1 < TENANTS_MAX || self.0.iter().any(|(of, _)| *of == tenant);
        let counted = if is_apart { tenant } else { OTHERS };
        match self.0.iter_mut().find(|(of, _)| *of == counted) {
            Some((_, sum)) => *sum = sum.saturating_add(units),
            None => self.0.push((counted, units)),
        }
        counted
    }

    /// Pairs of a tenant and its units.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u32, u32)> {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_beyond_the_limit_are_counted_together() {
        let mut units = TenantUnits::default();
        let counted: Vec<_> = (0..300).map(|tenant| units.add(tenant, tenant)).collect();
        let apart = TENANTS_MAX - 1;
        assert_eq!(counted[..apart], (0..apart as u32).collect::<Vec<_>>());
        assert!(counted[apart..].iter().all(|&counted| counted == OTHERS));
        assert_eq!(units.add(254, 1), 254);
        let sum: u32 = units.iter().map(|(_, units)| units).sum();
        assert_eq!((units.iter().len(), sum), (TENANTS_MAX, 299 * 150 + 1));
    }
}
