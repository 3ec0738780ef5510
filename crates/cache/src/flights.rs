//! Fetches under way: one caller fetches a key for all callers that miss it at the same time.

use sandur_runtime::single_flight::SingleFlight;

use crate::item::Value;

/// The key of a flight.
pub(crate) type FlightKey = Box<[u8]>;
/// The flights under way.
pub(crate) type Flights = SingleFlight<FlightKey, Value>;
