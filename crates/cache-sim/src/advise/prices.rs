//! Prices of memory, flash and requests.

/// A price table, in any one currency; the defaults are US dollars.
#[derive(Clone, Debug, PartialEq)]
pub struct Prices {
    /// Source and date of the prices, for readers of the advice.
    pub source: String,
    /// Price of a GB (10^9 bytes) of memory for a month.
    pub ram_gb_month: f64,
    /// Price of a GB of flash for a month.
    pub flash_gb_month: f64,
    /// Price of a million reads from the store.
    pub million_requests: f64,
    /// Price of a GB read from the store; 0 within one region at most providers.
    pub store_gb: f64,
}

impl Default for Prices {
    /// Prices of memory and flash as in the published case of 2023-08-23: half of an n2-standard-8, by its
    /// memory, and a local SSD of 375 GB for 30 dollars. Requests at the price of GETs of Amazon S3 Standard.
    fn default() -> Self {
        Self {
            source: "list prices in US dollars, 2023-08".to_owned(),
            ram_gb_month: 4.43,
            flash_gb_month: 0.08,
            million_requests: 0.40,
            store_gb: 0.0,
        }
    }
}

/// The storage medium of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Memory.
    Ram,
    /// Flash.
    Flash,
}

impl Medium {
    /// Its name in sentences.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ram => "memory",
            Self::Flash => "flash",
        }
    }
}

impl Prices {
    /// Price of `bytes` of a medium for a month.
    pub fn keep(&self, medium: Medium, bytes: u64) -> f64 {
        let gb_month = match medium {
            Medium::Ram => self.ram_gb_month,
            Medium::Flash => self.flash_gb_month,
        };
        bytes as f64 / 1e9 * gb_month
    }

    /// Price of reads from the store.
    pub fn fetch(&self, requests: f64, bytes: f64) -> f64 {
        requests / 1e6 * self.million_requests + bytes / 1e9 * self.store_gb
    }
}
