//! Reading a request's body: bounded in size, in idle time and in memory.
//!
//! Memory is reserved as bytes arrive, so that many large bodies at once are refused with 429
//! instead of taking the process down. A body that is announced as too large is refused before
//! it is read.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use sandur_base::units::ByteSize;
use sandur_base::{Env, ErrorKind, MemoryBudget, Reservation};

use super::failure::Failure;

/// A body that was read, and the memory that it holds.
pub struct Received {
    /// The bytes.
    pub bytes: Bytes,
    /// Dropped when the bytes are not needed any more.
    pub memory: Reservation,
}

/// What bounds a body.
pub struct BodyLimits<'a> {
    /// The world.
    pub env: &'a Env,
    /// Most bytes.
    pub size_max: u64,
    /// Name of the limit on the size, for the error.
    pub size_limit: &'static str,
    /// Longest pause.
    pub idle: Duration,
    /// Where memory comes from.
    pub budget: &'a MemoryBudget,
}

/// Step of reservations: small enough to be cheap when unused, large enough to be rare.
const STEP: u64 = 256 << 10;

impl BodyLimits<'_> {
    /// Reads the whole body.
    pub async fn read(&self, headers: &HeaderMap, mut body: Body) -> Result<Received, Failure> {
        let announced =
            headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
        if announced.is_some_and(|n| n > self.size_max) {
            return Err(self.too_large());
        }
        let mut memory = self.budget.reserve(announced.unwrap_or(STEP)).map_err(busy)?;
        let mut bytes = BytesMut::with_capacity(announced.unwrap_or(0) as usize);
        loop {
            let frame = self.env.timeout(self.idle, body.frame()).await.ok_or_else(|| self.too_slow())?;
            let data = match frame {
                None => break,
                Some(Err(error)) => return Err(Failure::invalid(format!("the body ended early: {error}"))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => data,
                    Err(_trailers) => continue,
                },
            };
            let length = (bytes.len() + data.len()) as u64;
            if length > self.size_max {
                return Err(self.too_large());
            }
            if length > memory.bytes() {
                memory.grow((length - memory.bytes()).max(STEP)).map_err(busy)?;
            }
            bytes.extend_from_slice(&data);
        }
        Ok(Received { bytes: bytes.freeze(), memory })
    }

    fn too_large(&self) -> Failure {
        let text = format!(
            "request body too large: the limit is {} ({}); send smaller batches or raise it",
            ByteSize(self.size_max),
            self.size_limit
        );
        Failure::invalid(text).with_status(StatusCode::PAYLOAD_TOO_LARGE)
    }

    fn too_slow(&self) -> Failure {
        let text = format!("nothing of the body arrived for {:?} (http.body_idle_timeout)", self.idle);
        Failure::invalid(text).with_status(StatusCode::REQUEST_TIMEOUT)
    }
}

fn busy(error: sandur_base::OverBudget) -> Failure {
    Failure::new(ErrorKind::Busy, format!("too many bytes are being received, try again: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        size_max: u64,
        budget: u64,
        headers: &[(&str, &str)],
        body: Body,
    ) -> Result<usize, (u16, String)> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let env = Env::simulated(1, 0);
            let budget = MemoryBudget::root("requests", budget);
            let idle = Duration::from_secs(30);
            let limits =
                BodyLimits { env: &env, size_max, size_limit: "limits.max_body_size", idle, budget: &budget };
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.insert(name.parse::<header::HeaderName>().unwrap(), value.parse().unwrap());
            }
            let received = limits.read(&map, body).await;
            received.map(|r| r.bytes.len()).map_err(|f| (f.status.as_u16(), f.message))
        })
    }

    #[test]
    fn sizes_memory_and_pauses_are_bounded() {
        let body = || Body::from(vec![0u8; 1_000]);
        assert_eq!(read(1_000, 1 << 20, &[], body()), Ok(1_000));
        assert_eq!(read(999, 1 << 20, &[], body()).unwrap_err().0, 413);
        let announced = read(999, 1 << 20, &[("content-length", "1000")], Body::empty()).unwrap_err();
        assert!(announced.1.contains("999B (limits.max_body_size)"), "{}", announced.1);
        assert_eq!(read(1 << 20, 500, &[], body()).unwrap_err().0, 429);
        let silent = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
        assert_eq!(read(1 << 20, 1 << 20, &[], silent).unwrap_err().0, 408);
    }
}
