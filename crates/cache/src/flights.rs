//! The keys that are being fetched: one caller fetches for all who miss a key at the same time.

use sandur_base::single_flight::SingleFlight;

use crate::item::Value;

/// What a flight is named by.
pub(crate) type FlightKey = Box<[u8]>;
/// The flights under way.
pub(crate) type Flights = SingleFlight<FlightKey, Value>;
