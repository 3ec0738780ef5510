//! Reads the body of a request, with bounds on its size, on pauses, on its rate and on its memory.
//!
//! Memory is reserved as bytes arrive, regardless of the announced length, and shared fairly among
//! tenants and addresses. When it is short, the body is not read, which slows the client down by
//! back-pressure; the request is refused with 503 if that takes too long. A body whose announced length
//! is too large is refused before it is read, and one that arrives too slowly is refused with 408.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use sandur_base::units::ByteSize;
use sandur_runtime::{Env, FairBudget, FairReservation, Party, Short};
use sandur_service::writes::Received;

use crate::failed_request::Failure;
use sandur_service::writes::RATE_WINDOW;

/// The bounds on reading one body.
pub struct BodyLimits<'a> {
    /// Clock and timers.
    pub env: &'a Env,
    /// Maximum size in bytes.
    pub size_max: u64,
    /// Name of the limit on the size, for the error.
    pub size_limit: &'static str,
    /// Maximum pause between two frames.
    pub idle: Duration,
    /// Minimum rate in bytes per second, measured over [`RATE_WINDOW`].
    pub rate_min: u64,
    /// The memory that is shared among requests.
    pub memory: &'a FairBudget,
    /// The parties that the memory is charged to.
    pub parties: [Party; 2],
}

/// First size of the buffer, which doubles from there. It is small because a client can announce much and
/// send little.
const STEP: u64 = 64 << 10;
/// Bytes that the connection itself buffers of a body while it is read.
const READ_BYTES: u64 = 64 << 10;

impl BodyLimits<'_> {
    /// Reads the body to its end.
    pub async fn read(&self, headers: &HeaderMap, mut body: Body) -> Result<Received, Failure> {
        let announced =
            headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
        if announced.is_some_and(|n| n > self.size_max) {
            return Err(self.too_large());
        }
        let most = announced.unwrap_or(self.size_max);
        let mut memory = self.memory.reservation(self.parties);
        let first = most.min(STEP);
        memory.grow(READ_BYTES + first).await.map_err(|short| self.refused(&short))?;
        let mut bytes = BytesMut::with_capacity(first as usize);
        let mut pace = Pace::start(self.env);
        memory.set_receiving(true);
        while let Some(data) = self.next(&mut body, &mut pace, &memory).await? {
            let length = (bytes.len() + data.len()) as u64;
            if length > self.size_max {
                return Err(self.too_large());
            }
            if length > bytes.capacity() as u64 {
                memory.set_receiving(false);
                self.widen(&mut bytes, length, most, &mut memory).await?;
                memory.set_receiving(true);
                pace = Pace::start(self.env); // the server waited for memory, not the client
            }
            bytes.extend_from_slice(&data);
        }
        memory.set_receiving(false);
        memory.shrink(READ_BYTES);
        Ok(Received { bytes: bytes.freeze(), memory })
    }

    /// Returns the next bytes; `None` at the end of the body.
    async fn next(
        &self,
        body: &mut Body,
        pace: &mut Pace,
        memory: &FairReservation,
    ) -> Result<Option<Bytes>, Failure> {
        loop {
            let now = self.env.monotonic();
            let patience = (pace.arrived + self.idle).min(pace.began + RATE_WINDOW).saturating_sub(now);
            let frame = tokio::select! {
                frame = self.env.timeout(patience, body.frame()) => frame,
                short = memory.given_up() => return Err(self.refused(&short)),
            };
            let now = self.env.monotonic();
            match frame {
                None if now >= pace.arrived + self.idle => return Err(self.too_silent()),
                None => {}
                Some(None) => return Ok(None),
                Some(Some(Err(error))) => {
                    return Err(Failure::invalid(format!("the body ended early: {error}")));
                }
                Some(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        pace.arrived = now;
                        pace.bytes += data.len() as u64;
                        return if pace.is_kept(now, self.rate_min) {
                            Ok(Some(data))
                        } else {
                            Err(self.too_slow())
                        };
                    }
                }
            }
            if !pace.is_kept(now, self.rate_min) {
                return Err(self.too_slow());
            }
        }
    }

    /// Grows the buffer to hold `length` bytes, at least doubling it. Old and new buffer exist at the
    /// same time while bytes are copied, so both are reserved.
    async fn widen(
        &self,
        bytes: &mut BytesMut,
        length: u64,
        most: u64,
        memory: &mut FairReservation,
    ) -> Result<(), Failure> {
        let before = bytes.capacity() as u64;
        let capacity = (before * 2).min(most).max(length);
        memory.grow(capacity).await.map_err(|short| self.refused(&short))?;
        let mut wider = BytesMut::with_capacity(capacity as usize);
        wider.extend_from_slice(bytes);
        *bytes = wider;
        memory.shrink(before);
        Ok(())
    }

    fn too_large(&self) -> Failure {
        let text = format!(
            "request body too large: the limit is {} ({}); send smaller batches or raise it",
            ByteSize(self.size_max),
            self.size_limit
        );
        Failure::invalid(text).with_status(StatusCode::PAYLOAD_TOO_LARGE)
    }

    fn too_silent(&self) -> Failure {
        let text = format!(
            "nothing of the body arrived for {:?}; send it again, or raise http.body_idle_timeout",
            self.idle
        );
        Failure::invalid(text).with_status(StatusCode::REQUEST_TIMEOUT)
    }

    fn too_slow(&self) -> Failure {
        let text = format!(
            "less than {} of the body arrived per second during {RATE_WINDOW:?}; send it again in smaller \
             requests or over a faster connection, or lower http.min_client_rate (0: no limit)",
            ByteSize(self.rate_min)
        );
        Failure::invalid(text).with_status(StatusCode::REQUEST_TIMEOUT)
    }

    fn refused(&self, short: &Short) -> Failure {
        sandur_service::Failure::from(short).into()
    }
}

/// Measures the rate of a body, in consecutive windows of [`RATE_WINDOW`].
struct Pace {
    began: Duration,
    bytes: u64,
    arrived: Duration,
}

impl Pace {
    fn start(env: &Env) -> Self {
        let now = env.monotonic();
        Self { began: now, bytes: 0, arrived: now }
    }

    /// Whether the rate was kept. At the end of a window this compares and begins the next window;
    /// before, it is true.
    fn is_kept(&mut self, now: Duration, rate_min: u64) -> bool {
        let elapsed = now.saturating_sub(self.began);
        if elapsed < RATE_WINDOW {
            return true;
        }
        let due = rate_min.saturating_mul(elapsed.as_secs());
        let kept = self.bytes >= due;
        (self.began, self.bytes) = (now, 0);
        kept
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::net::SocketAddr;

    use axum::http::HeaderName;
    use futures_util::stream::unfold;
    use sandur_memory::MemoryBudget;
    use sandur_service::writes::parties;

    use super::*;
    use sandur_service::writes::BODY_PATIENCE;

    const RATE: u64 = 16 << 10;

    /// A server with a given amount of memory for bodies, under paused time.
    struct World {
        env: Env,
        memory: FairBudget,
    }

    fn with_memory<T>(bytes: u64, test: impl AsyncFnOnce(World) -> T) -> T {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let env = Env::simulated(1, 0);
            let memory = FairBudget::new(env.clone(), MemoryBudget::root("requests", bytes), BODY_PATIENCE);
            test(World { env, memory }).await
        })
    }

    impl World {
        async fn receive(
            &self,
            (tenant, host): (&str, u8),
            size_max: u64,
            headers: &[(&str, &str)],
            body: Body,
        ) -> Result<Received, Failure> {
            let limits = BodyLimits {
                env: &self.env,
                size_max,
                size_limit: "limits.max_body_size",
                idle: Duration::from_secs(30),
                rate_min: RATE,
                memory: &self.memory,
                parties: parties(tenant, Some(SocketAddr::from(([10, 0, 0, host], 1)))),
            };
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
            }
            limits.read(&map, body).await
        }

        async fn read(
            &self,
            size_max: u64,
            headers: &[(&str, &str)],
            body: Body,
        ) -> Result<usize, (u16, String)> {
            let received = self.receive(("fake", 1), size_max, headers, body).await;
            received.map(|r| r.bytes.len()).map_err(|f| (f.status.as_u16(), f.message))
        }

        /// An endless body that sends `bytes` after each `pause`.
        fn drip(&self, bytes: usize, pause: Duration) -> Body {
            let env = self.env.clone();
            Body::from_stream(unfold(env, move |env| async move {
                env.sleep(pause).await;
                Some((Ok::<_, Infallible>(Bytes::from(vec![0u8; bytes])), env))
            }))
        }
    }

    fn body() -> Body {
        Body::from(vec![0u8; 1_000])
    }

    #[test]
    fn sizes_memory_and_pauses_are_bounded() {
        with_memory(1 << 20, async |world| {
            assert_eq!(world.read(1_000, &[], body()).await, Ok(1_000));
            assert_eq!(world.read(999, &[], body()).await.unwrap_err().0, 413);
            let announced = world.read(999, &[("content-length", "1000")], Body::empty()).await.unwrap_err();
            assert!(announced.1.contains("999B (limits.max_body_size)"), "{}", announced.1);
            let silent = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
            let (status, text) = world.read(1 << 20, &[], silent).await.unwrap_err();
            assert!(status == 408 && text.contains("http.min_client_rate"), "{text}");
            assert_eq!(world.memory.budget().used(), 0);
            let large = Body::from(vec![7u8; 200_000]);
            assert_eq!(world.read(1 << 20, &[], large).await, Ok(200_000));
            let never = Body::from(vec![7u8; 600_000]);
            let (status, text) = world.read(1 << 20, &[], never).await.unwrap_err();
            assert!(status == 413 && text.contains("--memory-limit"), "{text}");
        });
    }

    /// Two clients that announce 16 MiB and send a byte now and then must not hold the whole budget.
    #[test]
    fn announced_bytes_that_do_not_arrive_reserve_no_memory() {
        with_memory(32 << 20, async |world| {
            let announced = [("content-length", "16777216")];
            let slow = |host: u8| {
                world.receive(("fake", host), 16 << 20, &announced, world.drip(1, Duration::from_secs(5)))
            };
            let began = world.env.monotonic();
            let others = async {
                world.env.sleep(Duration::from_secs(1)).await;
                let held = world.memory.budget().used();
                let large = Body::from(vec![0u8; 8 << 20]);
                (held, world.read(16 << 20, &[], large).await)
            };
            let (first, second, (held, served)) = tokio::join!(slow(1), slow(2), others);
            assert!(held <= 2 * (READ_BYTES + STEP), "{held}");
            assert_eq!(served, Ok(8 << 20));
            for refused in [first, second] {
                let refused = refused.err().unwrap();
                assert!(refused.status == 408 && refused.message.contains("16KiB"), "{}", refused.message);
            }
            assert!(world.env.monotonic() - began < RATE_WINDOW * 2);
        });
    }

    #[test]
    fn a_body_that_stalls_is_refused_after_a_rate_window() {
        with_memory(32 << 20, async |world| {
            let fast = vec![Ok::<_, Infallible>(Bytes::from(vec![0u8; 1 << 20])); 4];
            let env = world.env.clone();
            let stalls = unfold((fast.into_iter(), env), |(mut fast, env)| async move {
                match fast.next() {
                    Some(data) => Some((data, (fast, env))),
                    None => {
                        env.sleep(Duration::from_secs(3)).await;
                        Some((Ok(Bytes::from_static(b"x")), (fast, env)))
                    }
                }
            });
            let (status, text) = world.read(16 << 20, &[], Body::from_stream(stalls)).await.unwrap_err();
            assert!(status == 408 && text.contains("http.min_client_rate"), "{text}");
            assert!(world.env.monotonic() < RATE_WINDOW * 3);
        });
    }

    #[test]
    fn slow_bodies_of_one_address_lose_their_memory_to_others() {
        with_memory(8 << 20, async |world| {
            // Each is just fast enough; together they would fill the memory within a minute.
            let slow = |_| world.receive(("a", 1), 4 << 20, &[], world.drip(100_000, Duration::from_secs(2)));
            let many = futures_util::future::join_all((0..20).map(slow));
            let honest = async {
                world.env.sleep(Duration::from_secs(30)).await;
                world.receive(("b", 2), 4 << 20, &[], Body::from(vec![0u8; 2 << 20])).await
            };
            let (_, served) = tokio::join!(many, honest);
            assert_eq!(served.map(|r| r.bytes.len()).ok(), Some(2 << 20));
            assert!(world.memory.budget().peak() <= 8 << 20);
        });
    }

    #[test]
    fn a_body_without_memory_waits_and_is_then_refused() {
        with_memory(2 << 20, async |world| {
            let held =
                world.receive(("a", 1), 1 << 20, &[], Body::from(vec![0u8; 500_000])).await.ok().unwrap();
            let also =
                world.receive(("b", 2), 1 << 20, &[], Body::from(vec![0u8; 500_000])).await.ok().unwrap();
            let waits = world.receive(("c", 3), 1 << 20, &[], Body::from(vec![0u8; 700_000]));
            let frees = async {
                world.env.sleep(Duration::from_secs(3)).await;
                drop(held);
            };
            assert!(tokio::join!(waits, frees).0.is_ok());
            let held =
                world.receive(("a", 1), 1 << 20, &[], Body::from(vec![0u8; 500_000])).await.ok().unwrap();
            let refused =
                world.receive(("c", 3), 1 << 20, &[], Body::from(vec![0u8; 700_000])).await.err().unwrap();
            assert!(
                refused.status == 503 && refused.message.contains("--memory-limit"),
                "{}",
                refused.message
            );
            drop((held, also));
        });
    }
}
