//! Lines in datagrams: datagrams that arrive while the window is full are dropped by the system.

use std::time::Duration;

use sandur_base::{BoxFuture, begins_http_request};
use tokio::net::UdpSocket;

use super::Carbon;
use super::buffer::Buffer;
use super::connection::HTTP_REFUSED;
use super::intake::{Source, reject, store};

/// Maximum bytes of a datagram.
const DATAGRAM_MAX: usize = 64 << 10;
/// How long datagrams are still received when the server stops.
const LAST_PAUSE: Duration = Duration::from_millis(100);

/// Receives until the server stops; then stores the rest.
pub async fn receive(carbon: Carbon, source: Source, socket: UdpSocket) {
    let half = usize::try_from(carbon.options.window / 2).unwrap_or(usize::MAX).max(2 * DATAGRAM_MAX);
    let empty = || Buffer::new(&carbon, None, half);
    let (mut buffer, mut storing): (Buffer, Option<BoxFuture<'static, ()>>) = (empty(), None);
    let (mut datagram, mut is_stopping, mut has_ended) = (vec![0; DATAGRAM_MAX], false, false);
    // The length of a datagram that waits for memory, while blocks are still being stored, which releases
    // some.
    let mut waiting = None;
    loop {
        let takes_more = buffer.bytes.len() + DATAGRAM_MAX < half && waiting.is_none() && !has_ended;
        tokio::select! {
            () = async { if let Some(storing) = &mut storing { storing.await } }, if storing.is_some() => {
                storing = None;
            }
            () = async {
                // One line feed is added, and a character that ends a line may have two bytes.
                let needed = buffer.bytes.len() + 2 * waiting.unwrap_or(0) + 1;
                buffer.make_room(&carbon, needed).await;
            }, if waiting.is_some() => {
                let length = waiting.take().unwrap_or(0);
                sandur_carbon::append_datagram(&datagram[..length], &mut buffer.bytes);
            }
            received = socket.recv(&mut datagram), if takes_more => match received {
                Ok(length) if begins_http_request(&datagram[..length]) => {
                    reject(&carbon, &source, "http_request", HTTP_REFUSED.to_owned(), &datagram[..length]);
                }
                Ok(length) => waiting = Some(length),
                Err(error) => {
                    tracing::debug!(%error, "cannot receive a datagram");
                    carbon.env.sleep(LAST_PAUSE).await;
                }
            },
            () = carbon.stopping.triggered(), if !is_stopping => is_stopping = true,
            () = carbon.env.sleep(LAST_PAUSE), if is_stopping && !has_ended => has_ended = true,
        }
        if storing.is_none() && !buffer.bytes.is_empty() {
            let whole = buffer.bytes.len();
            let block = buffer.split(empty(), whole);
            let (carbon, source) = (carbon.clone(), source.clone());
            storing = Some(Box::pin(async move {
                store(carbon, source, block.bytes).await;
                drop(block.rest);
            }));
        }
        if storing.is_none() && has_ended {
            return;
        }
    }
}
