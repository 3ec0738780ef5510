//! `sandur cache advise`: predicts the effect and cost of other cache sizes.

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use sandur_base::small_file;
use sandur_cache::policy::{Reinsertion, TenantCaps};
use sandur_cache::predict::{Forecast, Report, SCALES};
use sandur_cache_sim::advise::{Medium, Prices, Situation, money, percent, sentences, size};
use sandur_cache_sim::{Measured, Policy, TierOptions, TwoTier, run as run_policies};
use sandur_cli::client::Client;
use sandur_terminal::Failed;
use serde::Deserialize;
use serde_json::json;

use super::load;

/// Maximum size of the file of prices.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Number of segments of a simulated flash tier.
const SEGMENTS: u64 = 256;

/// The command.
pub fn command() -> Command {
    let url = Arg::new("url").long("url").value_name("URL").conflicts_with("trace");
    let url = url.help(
        "Metrics of a running server, like http://localhost:3100/metrics, or of `cache serve \
         --metrics-listen`; without this option, a load is simulated",
    );
    let flash = Arg::new("flash").long("flash").value_name("SIZE").help(
        "Size of the present cache's flash \
        tier",
    );
    let ram = Arg::new("ram").long("ram").value_name("SIZE").default_value("1GB").help(
        "Size of its memory \
        tier",
    );
    let ask = Arg::new("ask").long("ask").value_name("SIZE").action(ArgAction::Append);
    let ask = ask.help("A size of the flash tier to evaluate; may be repeated");
    let prices = Arg::new("prices").long("prices").value_name("FILE");
    let prices =
        prices.help("Prices as TOML: source, ram_gb_month, flash_gb_month, million_requests, store_gb");
    let json = Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON");
    let command = Command::new("advise").about("Predict hits and cost of other cache sizes").after_help(
        "Default prices are list prices in US dollars of 2023-08: 4.43 per GB of memory and 0.08 per GB of \
         local flash per month, 0.40 per million GETs, and no charge for bytes within a region.",
    );
    load::arguments(command).args([url, flash, ram, ask, prices, json])
}

/// Runs the command.
pub async fn run(matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let prices = prices(matches)?;
    let situation = match matches.get_one::<String>("url") {
        Some(url) => running(url, medium(matches)).await?,
        None => simulated(matches)?,
    };
    let mut asked = Vec::new();
    for text in matches.get_many::<String>("ask").into_iter().flatten() {
        asked.push((load::size(text)?, Medium::Flash));
    }
    let sentences = sentences(&situation, &asked, &prices);
    // With too few reads, forecasts would not be reliable.
    let shown = if situation.is_too_little() { &[][..] } else { &situation.forecasts };
    if matches.get_flag("json") {
        let rows: Vec<_> = shown.iter().map(|f| forecast_json(f, &situation, &prices)).collect();
        println!("{}", json!({ "prices": prices.source, "forecasts": rows, "advice": sentences }));
        return Ok(ExitCode::SUCCESS);
    }
    if shown.is_empty() {
        sentences.iter().for_each(|sentence| println!("{sentence}"));
        return Ok(ExitCode::SUCCESS);
    }
    println!("{:>8}  {:>9}  {:>8}  {:>10}  {:>12}", "size", "of now", "hits", "store GETs", "cost/month");
    for forecast in shown {
        let offer = situation.offer(forecast.capacity, situation.medium, &prices);
        let cost = offer.map_or_else(String::new, |offer| money(offer.cost()));
        let (bytes, scale) = (size(forecast.capacity), format!("{}x", forecast.scale));
        let (hits, requests) = (percent(forecast.hit_ratio), percent(forecast.store_requests));
        println!("{bytes:>8}  {scale:>9}  {hits:>8}  {requests:>10}  {cost:>12}");
    }
    println!();
    for sentence in sentences {
        println!("{sentence}");
    }
    println!("Prices: {}.", prices.source);
    Ok(ExitCode::SUCCESS)
}

fn medium(matches: &ArgMatches) -> Medium {
    if matches.contains_id("flash") { Medium::Flash } else { Medium::Ram }
}

/// Whether a server has a flash tier, by its metrics.
fn has_flash(metrics: &str) -> bool {
    let capacity = metrics.lines().find_map(|line| line.strip_prefix("sandur_cache_flash_capacity_bytes "));
    capacity.and_then(|bytes| bytes.trim().parse::<f64>().ok()).is_some_and(|bytes| bytes > 0.0)
}

async fn running(url: &str, medium: Medium) -> Result<Situation, Failed> {
    let url = &if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let failed = |e: reqwest::Error| Failed::new(format!("cannot read {url}: {e}"));
    let answer = Client::of_targets(None, false)?.get(url).send().await;
    let answer = answer.and_then(reqwest::Response::error_for_status).map_err(failed)?;
    let text = answer.text().await.map_err(failed)?;
    let report = Report::from_exposition(&text);
    let report = report.ok_or_else(|| {
        Failed::new(format!("{url} has no cache_mrc_hit_ratio: is it the /metrics of a server with a cache?"))
    })?;
    Ok(Situation::of_report(&report, if has_flash(&text) { Medium::Flash } else { medium }))
}

/// Simulates our cache at every scale over the load.
fn simulated(matches: &ArgMatches) -> Result<Situation, Failed> {
    let text = |name: &str| matches.get_one::<String>(name).map(|text| load::size(text)).transpose();
    let (ram_bytes, flash_bytes) = (text("ram")?.unwrap_or(0), text("flash")?.unwrap_or(0));
    let present = if flash_bytes > 0 { flash_bytes } else { ram_bytes };
    let capacities = SCALES.map(|scale| (present as f64 * scale) as u64);
    let mut policies: Vec<Box<dyn Policy>> = Vec::new();
    for capacity in capacities {
        let (ram_bytes, flash_bytes) = if flash_bytes > 0 { (ram_bytes, capacity) } else { (capacity, 0) };
        let segment_bytes = (flash_bytes / SEGMENTS).max(1);
        let (reinsertion, tenants, seed) = (Reinsertion::default(), TenantCaps::default(), 1);
        let write_bytes_per_day = 0;
        policies.push(Box::new(TwoTier::new(&TierOptions {
            ram_bytes,
            flash_bytes,
            segment_bytes,
            write_bytes_per_day,
            reinsertion,
            tenants,
            seed,
        })));
    }
    let load = load::load(matches)?;
    let bar = load::progress(&load);
    let measured = run_policies(load.requests, &mut policies, load.warm_up_s, |done| bar.set_position(done));
    bar.finish_and_clear();
    let measured = measured.map_err(|e| Failed::new(e.to_string()))?;
    Ok(situation(&capacities, &measured, medium(matches)))
}

fn situation(capacities: &[u64], measured: &[Measured], medium: Medium) -> Situation {
    let one = SCALES.iter().position(|scale| *scale == 1.0).unwrap_or(0);
    let present = &measured[one];
    let missed_bytes = |m: &Measured| (m.read_bytes - m.hit_bytes) as f64;
    let rows = SCALES.iter().zip(capacities).zip(measured);
    let forecasts = rows.map(|((scale, capacity), m)| Forecast {
        scale: *scale,
        capacity: *capacity,
        hit_ratio: m.hit_ratio(),
        byte_hit_ratio: m.byte_hit_ratio(),
        store_requests: m.store_requests() as f64 / present.store_requests().max(1) as f64,
        store_bytes: missed_bytes(m) / missed_bytes(present).max(1.0),
    });
    let forecasts = forecasts.collect();
    let months = present.hours.len() as f64 * 3_600.0 / sandur_cache_sim::advise::MONTH_S;
    let (reads, read_bytes) = (present.reads as f64 / months, present.read_bytes as f64 / months);
    Situation { forecasts, medium, reads, read_bytes, self_error: 0.0, sampled_reads: present.reads as f64 }
}

fn forecast_json(forecast: &Forecast, situation: &Situation, prices: &Prices) -> serde_json::Value {
    let offer = situation.offer(forecast.capacity, situation.medium, prices);
    json!({
        "scale": forecast.scale,
        "capacity_bytes": forecast.capacity,
        "hit_ratio": forecast.hit_ratio,
        "byte_hit_ratio": forecast.byte_hit_ratio,
        "store_requests_ratio": forecast.store_requests,
        "store_bytes_ratio": forecast.store_bytes,
        "cost_per_month": offer.map(|offer| offer.cost()),
    })
}

/// The file of `--prices`; missing values have their defaults.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceFile {
    source: Option<String>,
    ram_gb_month: Option<f64>,
    flash_gb_month: Option<f64>,
    million_requests: Option<f64>,
    store_gb: Option<f64>,
}

fn prices(matches: &ArgMatches) -> Result<Prices, Failed> {
    let default = Prices::default();
    let Some(path) = matches.get_one::<String>("prices") else { return Ok(default) };
    let text = small_file::read_text(path, FILE_BYTES_MAX)
        .map_err(|e| Failed::new(format!("cannot read {path}: {e}")))?;
    let file: PriceFile = toml::from_str(&text).map_err(|e| Failed::new(format!("{path}: {e}")))?;
    Ok(Prices {
        source: file.source.unwrap_or_else(|| path.clone()),
        ram_gb_month: file.ram_gb_month.unwrap_or(default.ram_gb_month),
        flash_gb_month: file.flash_gb_month.unwrap_or(default.flash_gb_month),
        million_requests: file.million_requests.unwrap_or(default.million_requests),
        store_gb: file.store_gb.unwrap_or(default.store_gb),
    })
}
