//! The live prediction compared with full simulation of every capacity, over generated loads.
//!
//! Goal: a mean absolute error of at most 0.02 per load, and 0.01 for the present capacity, within the
//! memory bound. Method: a cache serves a load and the predictor observes it; then every capacity is
//! simulated with the complete load.

use sandur_cache::policy::{Reinsertion, TenantCaps};
use sandur_cache::predict::{Event, MEMORY_BYTES_MAX, Observed, PRESENT, Predictor, Report, Totals};
use sandur_cache_sim::generate::Workload;
use sandur_cache_sim::{Kind, Policy, Request, TierOptions, TwoTier, run};

fn tiers(ram_bytes: u64, flash_bytes: u64) -> TierOptions {
    TierOptions {
        ram_bytes,
        flash_bytes,
        segment_bytes: (flash_bytes / 128).max(1),
        write_bytes_per_day: 0,
        reinsertion: Reinsertion::default(),
        tenants: TenantCaps::default(),
        seed: 1,
    }
}

/// Applies the load to a cache of full size, and reports to the predictor what a server would report.
fn predict(requests: &[Request], options: &TierOptions) -> (Report, usize) {
    let mut cache = TwoTier::new(options);
    let predictor = Predictor::new(options, u32::MAX, 0);
    let mut totals = Totals::default();
    for request in requests {
        let Request { hash, bytes, hint, tenant, at_s: now_s, .. } = *request;
        let observe = |event| predictor.observe(&Observed { hash, event, hint, tenant, now_s });
        if request.kind == Kind::Write {
            cache.put(request);
            observe(Event::Put { bytes });
            continue;
        }
        totals.reads += 1;
        totals.read_bytes += u64::from(bytes);
        if cache.read(request) {
            totals.hits += 1;
            totals.hit_bytes += u64::from(bytes);
            observe(Event::Hit { bytes });
        } else {
            observe(Event::Miss);
            cache.put(request);
            observe(Event::Fill { bytes });
        }
    }
    (predictor.report(totals, 1), predictor.memory_bytes())
}

fn check(name: &str, workload: &Workload, options: &TierOptions) {
    let requests: Vec<Request> = workload.generate().collect();
    let (report, memory) = predict(&requests, options);
    let mut error = 0.0;
    for forecast in &report.forecasts {
        let capacity = forecast.capacity;
        let scaled =
            if options.flash_bytes > 0 { tiers(options.ram_bytes, capacity) } else { tiers(capacity, 0) };
        let mut whole: Vec<Box<dyn Policy>> = vec![Box::new(TwoTier::new(&scaled))];
        let measured = run(requests.iter().copied().map(Ok::<_, ()>), &mut whole, 0, |_| {})
            .expect("generated loads have no errors")
            .remove(0);
        println!(
            "{name} {}x: {:.4} predicted, {:.4} in full",
            forecast.scale,
            forecast.hit_ratio,
            measured.hit_ratio()
        );
        error += (forecast.hit_ratio - measured.hit_ratio()).abs() / report.forecasts.len() as f64;
    }
    println!(
        "{name}: mean absolute error {error:.4}, of {} reads {:.0} sampled, {memory} bytes",
        requests.len(),
        report.sampled_reads
    );
    assert!(error <= 0.02, "{name}, seed {}: mean absolute error {error}", workload.seed);
    assert!(report.self_error <= 0.01, "{name}, seed {}: self error {}", workload.seed, report.self_error);
    assert!(memory <= MEMORY_BYTES_MAX, "{name}: {memory} bytes");
    assert_eq!(report.forecasts[PRESENT].store_requests, 1.0);
    // The sample is under test: a predictor that observes everything would prove nothing.
    assert!(report.sampled_reads < requests.len() as f64 / 2.0, "{name}: {} sampled", report.sampled_reads);
}

/// Many small chunks: 1,000 streams, each with one per 10 minutes.
fn many_chunks(seed: u64) -> Workload {
    Workload {
        seed,
        hours: 12,
        history_hours: 72,
        streams: 1_000,
        chunk_minutes: 10,
        chunk_bytes: 20_000,
        scan_hours: 48,
        scan_streams: 50,
        ages: vec![(0.6, 3.0), (0.25, 12.0), (0.15, 72.0)],
        ..Workload::default()
    }
}

#[test]
fn a_cache_without_flash_is_predicted() {
    check("memory", &many_chunks(3), &tiers(200_000_000, 0));
}

#[test]
fn a_cache_with_flash_is_predicted() {
    check("flash", &many_chunks(4), &tiers(20_000_000, 400_000_000));
}

#[test]
fn the_report_depends_only_on_the_requests() {
    let workload = Workload { hours: 4, ..many_chunks(5) };
    let requests: Vec<Request> = workload.generate().collect();
    let options = tiers(10_000_000, 100_000_000);
    assert_eq!(predict(&requests, &options), predict(&requests, &options));
}
