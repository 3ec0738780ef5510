//! Goal: the budget is never exceeded, no party is starved by others, and there is always progress.
//!
//! Method: paused time; reservations of named parties grow, wait and end in a fixed order, or at random.

use super::*;

const PATIENCE: Patience =
    Patience { wait: Duration::from_secs(10), waiting_max: 100, receive: Duration::from_secs(5) };

fn party(key: u64) -> Party {
    Party { key, multiple: 2 }
}

fn of(tenant: u64, address: u64) -> [Party; 2] {
    [Party { key: tenant, multiple: 7 }, party(1_000 + address)]
}

fn run(test: impl AsyncFnOnce(Env, FairBudget)) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let env = Env::simulated(1, 0);
        let memory = FairBudget::new(env.clone(), MemoryBudget::root("bodies", 900), PATIENCE);
        test(env, memory).await;
    });
}

/// Grows several reservations concurrently by `more` and ends them; returns whether each one grew.
async fn grow_all(env: &Env, reservations: Vec<FairReservation>, more: u64) -> Vec<bool> {
    let grow = |mut reservation: FairReservation| {
        env.spawn("grower", async move { reservation.grow(more).await.is_ok() })
    };
    let growing: Vec<_> = reservations.into_iter().map(grow).collect();
    let mut outcomes = Vec::new();
    for task in growing {
        outcomes.push(task.join().await.unwrap());
    }
    outcomes
}

#[test]
fn one_address_leaves_a_third_for_others() {
    run(async |_, memory| {
        let mut first: Vec<FairReservation> = (0..7).map(|_| memory.reservation(of(1, 1))).collect();
        let grown = first.iter_mut().filter_map(|reservation| reservation.try_grow(100).ok()).count();
        assert_eq!(grown, 6);
        let mut other = memory.reservation(of(1, 2));
        assert!(other.try_grow(100).is_ok());
        let mut third = memory.reservation(of(2, 3));
        assert!(third.try_grow(100).is_ok());
        assert_eq!(memory.budget().used(), 800);
        drop(first);
        assert_eq!(memory.budget().used(), 200);
    });
}

#[test]
fn a_reservation_that_could_never_fit_is_refused_at_once() {
    run(async |_, memory| {
        let mut reservation = memory.reservation(of(1, 1));
        let refused = reservation.grow(451).await.unwrap_err();
        assert!(matches!(refused, Short::TooLarge { asked: 451, most: 450, .. }), "{refused:?}");
        assert!(reservation.grow(450).await.is_ok());
    });
}

#[test]
fn a_waiting_reservation_is_served_when_others_end() {
    run(async |env, memory| {
        let mut first = memory.reservation(of(1, 1));
        first.grow(450).await.unwrap();
        let mut second = memory.reservation(of(1, 1));
        let waiting = env.spawn("waiter", async move { second.grow(400).await.map(|()| second) });
        env.sleep(Duration::from_secs(2)).await;
        assert_eq!(memory.waiting(), 1);
        drop(first);
        assert_eq!(waiting.join().await.unwrap().unwrap().bytes(), 400);
        assert_eq!(memory.budget().used(), 0);
    });
}

#[test]
fn a_wait_ends_at_its_time_limit_and_leaves_the_queue() {
    run(async |env, memory| {
        let mut first = memory.reservation(of(1, 1));
        first.grow(450).await.unwrap();
        let mut second = memory.reservation(of(1, 1));
        let began = env.monotonic();
        assert!(matches!(second.grow(400).await, Err(Short::Busy { .. })));
        assert!(env.monotonic() - began >= PATIENCE.wait);
        assert_eq!((memory.waiting(), memory.budget().used()), (0, 450));
        // Dropping the wait leaves the queue as well.
        let cut = env.timeout(Duration::from_secs(1), second.grow(400)).await;
        assert!(cut.is_none() && memory.waiting() == 0);
    });
}

#[test]
fn when_all_reservations_wait_for_each_other_the_oldest_finishes() {
    run(async |env, memory| {
        let mut reservations: Vec<FairReservation> = (0..6).map(|n| memory.reservation(of(n, n))).collect();
        for reservation in &mut reservations {
            reservation.grow(100).await.unwrap();
        }
        let began = env.monotonic();
        let outcomes = grow_all(&env, reservations, 250).await;
        assert!(outcomes[0], "the oldest reservation grew");
        assert!(outcomes.contains(&false), "others were given up");
        assert!(env.monotonic() - began < PATIENCE.wait, "no wait reached its time limit");
    });
}

#[test]
fn a_reservation_of_a_slow_client_is_given_up_while_others_wait() {
    run(async |env, memory| {
        let mut slow = memory.reservation(of(1, 1));
        slow.grow(450).await.unwrap();
        slow.set_receiving(true);
        let watched = env.spawn("slow", async move {
            slow.given_up().await;
            drop(slow);
        });
        env.sleep(Duration::from_secs(6)).await;
        assert!(!watched.is_finished(), "no other reservation waits");
        let mut honest = memory.reservation(of(1, 1));
        assert!(honest.grow(300).await.is_ok());
        watched.join().await.unwrap();
    });
}

#[test]
fn reservations_wait_for_memory_that_other_users_of_the_budget_hold() {
    run(async |env, memory| {
        let others = memory.budget().child("others", 450);
        let held = others.reserve(450).unwrap();
        let mut reservations: Vec<FairReservation> = (0..9).map(|n| memory.reservation(of(n, n))).collect();
        reservations.iter_mut().for_each(|reservation| _ = reservation.try_grow(100));
        assert_eq!(memory.budget().used(), 850, "four reservations and the other user");
        drop(reservations.drain(1..));
        let mut large = memory.reservation(of(10, 10));
        let waiting = env.spawn("waiter", async move { large.grow(400).await.map(|()| large) });
        env.sleep(Duration::from_secs(2)).await;
        assert_eq!(memory.waiting(), 1);
        drop(held);
        assert_eq!(waiting.join().await.unwrap().unwrap().bytes(), 400);
    });
}

#[test]
fn random_reservations_never_exceed_the_budget_and_all_of_them_end() {
    for seed in 0..8 {
        run(async |_, memory| {
            let env = Env::simulated(seed, 0);
            let tasks = (0..200).map(|_| {
                let (env, memory) = (env.clone(), memory.clone());
                env.clone().spawn("worker", async move {
                    env.sleep(Duration::from_millis(env.random_below(2_000))).await;
                    let mut reservation = memory.reservation(of(env.random_below(4), env.random_below(8)));
                    for _ in 0..env.random_below(6) {
                        if reservation.grow(1 + env.random_below(120)).await.is_err() {
                            return;
                        }
                        env.sleep(Duration::from_millis(env.random_below(300))).await;
                        reservation.shrink(env.random_below(40));
                    }
                })
            });
            for task in tasks.collect::<Vec<_>>() {
                task.join().await.unwrap();
            }
            let budget = memory.budget();
            assert!(budget.peak() <= 900 && budget.used() == 0 && memory.waiting() == 0, "seed {seed}");
            assert!(
                memory.state().by_party.is_empty() && memory.state().reservations.is_empty(),
                "seed {seed}"
            );
        });
    }
}

/// Buffers of carbon connections once counted as reservations that end by themselves, so no reservation
/// was given up.
#[test]
fn lasting_reservations_are_not_waited_for_and_displace_no_others() {
    run(async |env, memory| {
        let mut lasting = memory.reservation(of(9, 9)).lasting();
        lasting.grow(300).await.unwrap();
        let mut reservations = vec![memory.reservation(of(1, 1)), memory.reservation(of(2, 2))];
        for reservation in &mut reservations {
            reservation.grow(200).await.unwrap();
        }
        let began = env.monotonic();
        assert_eq!(
            grow_all(&env, reservations, 200).await,
            [true, false],
            "the youngest reservation that is not lasting is given up"
        );
        assert!(env.monotonic() - began < PATIENCE.wait, "no reservation waited for the lasting one");
        let mut held = memory.reservation(of(1, 1));
        held.grow(300).await.unwrap();
        assert!(lasting.grow(140).await.is_err() && held.try_grow(10).is_ok(), "it displaces no other");
    });
}

#[test]
fn a_lasting_reservation_of_a_silent_client_is_given_up_while_others_wait() {
    run(async |env, memory| {
        let mut silent = memory.reservation(of(1, 1)).lasting();
        silent.grow(400).await.unwrap();
        silent.set_receiving(true);
        env.sleep(PATIENCE.receive * 2).await;
        let mut next = memory.reservation(of(1, 1)).lasting();
        let waiting = env.spawn("waiter", async move { next.grow(400).await });
        silent.given_up().await;
        drop(silent);
        assert_eq!(waiting.join().await.unwrap(), Ok(()));
    });
}
