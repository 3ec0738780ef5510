//! What things cost.

/// A price table, in any one currency; the defaults are US dollars.
#[derive(Clone, Debug, PartialEq)]
pub struct Prices {
    /// Where and when the prices come from, for the reader of the advice.
    pub source: String,
    /// A GB (10^9 bytes) of memory for a month.
    pub ram_gb_month: f64,
    /// A GB of flash for a month.
    pub flash_gb_month: f64,
    /// A million reads from the store.
    pub million_requests: f64,
    /// A GB read from the store; 0 within one region of most providers.
    pub store_gb: f64,
}

impl Default for Prices {
    /// Memory and flash as the published case of 2023-08-23 has them: half of an n2-standard-8 by its
    /// memory, and a local SSD of 375 GB for 30 dollars. Requests as Amazon S3 Standard lists GETs.
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

/// What a cache is made of.
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
    /// A month of `bytes` of a medium.
    pub fn keep(&self, medium: Medium, bytes: u64) -> f64 {
        let gb_month = match medium {
            Medium::Ram => self.ram_gb_month,
            Medium::Flash => self.flash_gb_month,
        };
        bytes as f64 / 1e9 * gb_month
    }

    /// Reads from the store.
    pub fn fetch(&self, requests: f64, bytes: f64) -> f64 {
        requests / 1e6 * self.million_requests + bytes / 1e9 * self.store_gb
    }
}
