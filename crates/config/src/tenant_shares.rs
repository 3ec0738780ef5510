//! Shares of tenants as they are written: `30%` for each tenant, `NAME=50%` for one.
//!
//! Invariant: every share is between 0 % and 100 %, and every name is a valid tenant id.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use sandur_model::TenantId;

/// Maximum share of each tenant, in percent.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantShares {
    /// Share of tenants without one of their own.
    pub default: f64,
    /// Shares of single tenants.
    pub named: BTreeMap<TenantId, f64>,
}

impl Default for TenantShares {
    fn default() -> Self {
        Self { default: 100.0, named: BTreeMap::new() }
    }
}

impl FromStr for TenantShares {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut default, mut named) = (None, BTreeMap::new());
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let known = match word.split_once('=') {
                None => default.replace(percent(word)?),
                Some((name, share)) => {
                    let tenant = TenantId::new(name.trim()).map_err(|error| format!("'{word}': {error}"))?;
                    named.insert(tenant, percent(share.trim())?)
                }
            };
            if known.is_some() {
                let whose = word.split_once('=').map_or("all tenants", |(name, _)| name.trim());
                return Err(format!("'{word}' is the second share of {whose}; give one"));
            }
        }
        Ok(Self { default: default.unwrap_or(Self::default().default), named })
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let share = text.strip_suffix('%').and_then(|number| number.trim_end().parse::<f64>().ok());
    share.filter(|share| (0.0..=100.0).contains(share)).ok_or_else(|| {
        format!("'{text}' is not a share between 0% and 100%: write 30% for each tenant, NAME=50% for one")
    })
}

impl fmt::Display for TenantShares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.default)?;
        self.named.iter().try_for_each(|(tenant, share)| write!(f, ",{}={share}%", tenant.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_parsed_and_printed_and_errors_say_what_is_accepted() {
        let shares: TenantShares = "team-a=50%, 12.5%,team-b = 0%".parse().unwrap();
        assert_eq!(shares.default, 12.5);
        assert_eq!(shares.to_string(), "12.5%,team-a=50%,team-b=0%");
        assert_eq!(shares.to_string().parse(), Ok(shares));
        assert_eq!("".parse(), Ok(TenantShares::default()));
        for (text, message) in [
            ("30", "'30' is not a share between 0% and 100%"),
            ("a=101%", "'101%' is not a share between 0% and 100%"),
            ("NaN%", "'NaN%' is not a share"),
            ("-1%", "'-1%' is not a share"),
            ("a/b=1%", "'a/b=1%': tenant ID 'a/b' contains unsupported characters"),
            ("=1%", "'=1%': "),
            ("a=1%,a=2%", "'a=2%' is the second share of a; give one"),
            ("1%,2%", "'2%' is the second share of all tenants; give one"),
        ] {
            let error = text.parse::<TenantShares>().unwrap_err();
            assert!(error.starts_with(message), "{text}: {error}");
        }
    }
}
