//! Goal: the memory that senders use is bounded, however many there are and however slowly they send,
//! and honest senders are served.
//!
//! Method: paused time, and connections in memory that send a part and then stop, or send one byte at a
//! time.

use std::net::IpAddr;

use sandur_memory::MemoryBudget;
use sandur_runtime::{Shutdown, Task};
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};

use crate::intake::take;
use crate::memory::Memory;
use crate::model::Protocol;
use crate::relay_tests::{World, in_world, memory};
use crate::running::Running;
use crate::senders::CONNECTIONS_MAX;

const FRAME: usize = 1 << 20;
const ONE: &str = "cluster main forward h1; match * send to main;";

/// A relay whose senders may use `senders` bytes, and the budget that counts them.
fn start(world: &World, senders: u64) -> (Running, MemoryBudget) {
    world.remotes.set_up("h1", true);
    let senders = MemoryBudget::root("senders", senders);
    let memory = Memory { senders: senders.clone(), ..memory() };
    (world.start_within(ONE, &memory), senders)
}

fn address(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

/// An accepted connection: the sender's end.
fn connect(world: &World, running: &Running, last: u8, protocol: Protocol) -> (DuplexStream, Task<()>) {
    let (sender, stream) = duplex(FRAME);
    let place = running.senders.admit(address(last)).unwrap();
    let taking = async move {
        // Kept until the end: a signal whose owner is dropped stops the connection.
        let shutdown = Shutdown::default();
        take(place, protocol, stream, shutdown.signal()).await;
    };
    (sender, world.env.spawn("a connection", taking))
}

/// The length of a megabyte, followed by all but the last bytes of it.
fn begun() -> Vec<u8> {
    [&(FRAME as u32).to_be_bytes()[..], &vec![b'x'; FRAME - 10]].concat()
}

#[test]
fn unfinished_pickles_stay_within_the_memory_of_senders_and_time_out() {
    in_world(|world| async move {
        let (running, senders) = start(&world, 8 << 20);
        let mut hostile = Vec::new();
        for _ in 0..100 {
            let (mut sender, task) = connect(&world, &running, 1, Protocol::Pickle);
            let sending = world.env.spawn("a sender", async move {
                _ = sender.write_all(&begun()).await;
                sender
            });
            hostile.push((sending, task));
        }
        world.seconds(1.0).await;
        assert!(
            senders.used() > 1 << 20 && senders.used() <= 6 << 20,
            "a third stays free for others: {senders:?}"
        );
        // A connection from another address is served, with a pickle that does not fit in one read.
        let (mut sender, _task) = connect(&world, &running, 2, Protocol::Pickle);
        let lines: Vec<String> = (0..200).map(|n| format!("a.{n:0500} 7 100")).collect();
        let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
        let mut pickle = Vec::new();
        crate::pickle::message(&lines, 0, &mut pickle);
        sender.write_all(&pickle).await.unwrap();
        world.seconds(1.0).await;
        assert_eq!(world.remotes.values("h1").len(), 200);
        // After the message timeout, long before the idle timeout, the connections have released
        // everything.
        world.seconds(60.0).await;
        let counters = running.relay.counters();
        let (over, slow) = (counters.connections_over_memory.get(), counters.slow_connections.get());
        assert!(over > 50 && slow > 0 && over + slow == 100, "{over} {slow}");
        assert!(hostile.iter().all(|(_, task)| task.is_finished()));
        assert!(senders.used() < 10 << 10, "one idle connection is left: {senders:?}");
        assert!(senders.peak() <= 8 << 20);
        running.stop().await;
    });
}

#[test]
fn a_pickle_or_line_sent_byte_by_byte_is_closed_at_the_message_timeout() {
    for protocol in [Protocol::Pickle, Protocol::Line] {
        in_world(|world| async move {
            let (running, _) = start(&world, 8 << 20);
            let (mut sender, task) = connect(&world, &running, 1, protocol);
            sender.write_all(&[0, 0, 1, 0]).await.unwrap();
            let mut sent = 0;
            while !task.is_finished() && sender.write_all(b"x").await.is_ok() {
                world.seconds(1.0).await;
                sent += 1;
            }
            assert!((55..=65).contains(&sent), "{sent} s");
            assert_eq!(running.relay.counters().slow_connections.get(), 1);
            running.stop().await;
        });
    }
}

#[test]
fn a_sender_that_pauses_between_messages_is_not_closed_as_slow() {
    in_world(|world| async move {
        let (running, senders) = start(&world, 8 << 20);
        let (mut sender, task) = connect(&world, &running, 1, Protocol::Line);
        for value in 0..5 {
            let padding = "x".repeat(2_000);
            let lines: String = (0..10).map(|n| format!("a.{padding}.{n} {value} 100\n")).collect();
            sender.write_all(lines.as_bytes()).await.unwrap();
            world.seconds(500.0).await;
            assert!(senders.used() <= 4 << 10, "an idle connection: {senders:?}");
        }
        assert!(world.remotes.values("h1").values().all(|values| values.iter().copied().eq(0..5)));
        assert_eq!(world.remotes.values("h1").len(), 10);
        world.seconds(101.0).await;
        assert!(task.is_finished(), "it exceeded the idle timeout");
        let counters = running.relay.counters();
        assert_eq!(counters.slow_connections.get() + counters.connections_over_memory.get(), 0);
        running.stop().await;
    });
}

#[test]
fn one_address_gets_at_most_half_of_the_places() {
    in_world(|world| async move {
        let (running, _) = start(&world, 8 << 20);
        let admit = |last| running.senders.admit(address(last));
        let mut places: Vec<_> = (0..CONNECTIONS_MAX).map_while(|_| admit(1)).collect();
        assert_eq!(places.len(), CONNECTIONS_MAX / 2);
        places.extend((0..CONNECTIONS_MAX).map_while(|_| admit(2)));
        assert_eq!(places.len(), CONNECTIONS_MAX);
        assert!(admit(3).is_none());
        assert_eq!(running.relay.counters().refused_connections.get(), 3);
        drop(places.swap_remove(0));
        assert!(admit(3).is_some());
        running.stop().await;
    });
}

/// A web page could store points: its request was an invalid line, and the lines of its body were
/// points.
#[test]
fn the_relay_stores_nothing_from_a_web_page() {
    let long = format!("POST /{} HTTP/1.1\r\n\r\na.page 1 100\n", "x".repeat(20_000));
    for request in [
        "POST / HTTP/1.1\r\nHost: localhost\r\n\r\na.page 1 100\n",
        "PRI * HTTP/2.0\r\n\r\na.page 1 100\n",
        &long,
    ] {
        for piece in [1, usize::MAX] {
            in_world(|world| async move {
                let (running, _) = start(&world, 8 << 20);
                let (mut page, task) = connect(&world, &running, 1, Protocol::Line);
                for piece in request.as_bytes().chunks(piece.min(request.len())) {
                    // The relay may close it in the middle.
                    _ = page.write_all(piece).await;
                    tokio::task::yield_now().await;
                }
                let (mut sender, _task) = connect(&world, &running, 1, Protocol::Line);
                sender
                    .write_all(b"GET 1 100\na.sender 2 100\nPOST / HTTP/1.1\na.sender 3 100\n")
                    .await
                    .unwrap();
                world.seconds(1.0).await;
                let values = world.remotes.values("h1");
                assert!(task.is_finished(), "the page's connection is closed");
                assert_eq!(values.len(), 2, "{values:?}");
                assert_eq!(running.relay.counters().http_connections.get(), 1);
                running.stop().await;
            });
        }
    }
}

/// The first bytes of an HTTP request, read as the length of a pickle, exceed every limit.
#[test]
fn the_pickle_listener_stores_nothing_from_a_web_page() {
    in_world(|world| async move {
        let (running, _) = start(&world, 8 << 20);
        for request in ["POST / HTTP/1.1\r\n\r\na.page 1 100\n", "\u{7f}\u{7f}\u{7f}\u{7f}a.page 1 100\n"] {
            let (mut page, task) = connect(&world, &running, 1, Protocol::Pickle);
            page.write_all(request.as_bytes()).await.unwrap();
            world.seconds(1.0).await;
            assert!(task.is_finished(), "{request}");
        }
        assert!(world.remotes.values("h1").is_empty());
        let counters = running.relay.counters();
        assert_eq!((counters.http_connections.get(), counters.rejected.get()), (1, 1));
        running.stop().await;
    });
}

#[test]
fn a_limit_of_open_files_lowers_the_limit_of_connections() {
    in_world(|world| async move {
        let (running, _) = start(&world, 8 << 20);
        running.senders.limit_connections(3);
        let places: Vec<_> = [1, 1, 1, 2, 3].map(|last| running.senders.admit(address(last))).into();
        let taken: Vec<bool> = places.iter().map(Option::is_some).collect();
        assert_eq!(taken, [true, true, false, true, false]);
        running.stop().await;
    });
}
