//! Advice as sentences.

use super::prices::{Medium, Prices};
use super::situation::{Offer, SAMPLED_READS_MIN, Situation};

/// Error of the forecast for the present capacity above which advice comes with a warning.
const SELF_ERROR_MAX: f64 = 0.02;
/// The hit ratio for which the advice names the capacity.
const GOOD_HIT_RATIO: f64 = 0.9;
/// Number of capacities that are considered, between the smallest and the largest forecast.
const STEPS: u32 = 40;

/// The advice: the current state first, then the requested capacities, then the cheapest one and the one
/// for a good hit ratio.
pub fn sentences(situation: &Situation, asked: &[(u64, Medium)], prices: &Prices) -> Vec<String> {
    let mut sentences = Vec::new();
    if situation.is_too_little() {
        let seen = if situation.sampled_reads >= 1.0 { situation.sampled_reads.floor() } else { 0.0 };
        return vec![format!(
            "Too few reads: advice needs {SAMPLED_READS_MIN:.0} reads in the sample, and there were \
             {seen:.0}. Let the cache run longer under its usual load."
        )];
    }
    let Some(present) = situation.present() else { return sentences };
    let Some(now) = situation.offer(present.capacity, situation.medium, prices) else { return sentences };
    sentences.push(format!(
        "Now, with {} of {}: {} hits and {} requests to the store a month; {} for the cache and {} for \
         requests.",
        size(now.capacity),
        now.medium.name(),
        percent(now.hit_ratio),
        count(now.requests),
        money(now.cache_cost),
        money(now.store_cost)
    ));
    for (capacity, medium) in asked {
        sentences.push(match situation.offer(*capacity, *medium, prices) {
            Some(offer) => with(&offer, &now, prices),
            None => outside(situation, *capacity),
        });
    }
    let cheapest = cheapest(situation, prices);
    if let Some(offer) = cheapest.filter(|offer| offer.cost() < now.cost() * 0.95) {
        sentences.push(format!("Cheapest: {}", lower(&with(&offer, &now, prices))));
    }
    if now.hit_ratio < GOOD_HIT_RATIO {
        sentences.push(match situation.capacity_for(GOOD_HIT_RATIO) {
            Some(capacity) => format!("A hit ratio of {} needs {}.", percent(GOOD_HIT_RATIO), size(capacity)),
            None => {
                format!(
                    "No size up to ten times the present one reaches a hit ratio of {}.",
                    percent(GOOD_HIT_RATIO)
                )
            }
        });
    }
    if situation.self_error > SELF_ERROR_MAX {
        sentences.push(format!(
            "Caution: the forecast for the present size is off by {}; let the cache run longer.",
            percent(situation.self_error)
        ));
    }
    sentences
}

fn with(offer: &Offer, now: &Offer, prices: &Prices) -> String {
    let change = if offer.fewer_requests >= 0.0 { "fewer" } else { "more" };
    let mut sentence = format!(
        "With {} of {}: {} hits, {} {change} requests to the store, {} a month ({} now)",
        size(offer.capacity),
        offer.medium.name(),
        percent(offer.hit_ratio),
        percent(offer.fewer_requests.abs()),
        money(offer.cost()),
        money(now.cost())
    );
    if offer.medium == Medium::Flash && prices.ram_gb_month > 0.0 {
        let memory = offer.cache_cost / prices.ram_gb_month * 1e9;
        sentence += &format!("; the flash costs as much as {} of memory", size(memory as u64));
    }
    sentence + "."
}

fn outside(situation: &Situation, capacity: u64) -> String {
    let ends = [situation.forecasts.first(), situation.forecasts.last()];
    let [from, to] = ends.map(|end| size(end.map_or(0, |forecast| forecast.capacity)));
    format!("{} is outside of the forecasts, which are from {from} to {to}.", size(capacity))
}

/// The cheapest capacity, of the medium that is cheaper for it.
fn cheapest(situation: &Situation, prices: &Prices) -> Option<Offer> {
    let (from, to) = (situation.forecasts.first()?.capacity, situation.forecasts.last()?.capacity);
    let ratio = to as f64 / from.max(1) as f64;
    let capacities =
        (0..=STEPS).map(|step| (from as f64 * ratio.powf(f64::from(step) / f64::from(STEPS))) as u64);
    let media = [Medium::Ram, Medium::Flash];
    let offers =
        capacities.flat_map(|bytes| media.map(|medium| situation.offer(bytes.min(to), medium, prices)));
    offers.flatten().min_by(|a, b| a.cost().total_cmp(&b.cost()))
}

fn lower(sentence: &str) -> String {
    sentence.replacen("With", "with", 1)
}

/// A share as a percentage with at most three digits.
pub fn percent(part: f64) -> String {
    let percent = part * 100.0;
    if (10.0..99.0).contains(&percent) { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}

/// Bytes in decimal units, in which capacities are sold.
pub fn size(bytes: u64) -> String {
    let units = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let unit = units.into_iter().find(|(_, factor)| bytes as f64 >= *factor).unwrap_or(("B", 1.0));
    format!("{} {}", digits(bytes as f64 / unit.1), unit.0)
}

/// A number in words of thousands.
pub fn count(number: f64) -> String {
    let units = [(" billion", 1e9), (" million", 1e6), (" thousand", 1e3)];
    let unit = units.into_iter().find(|(_, factor)| number >= *factor).unwrap_or(("", 1.0));
    digits(number / unit.1) + unit.0
}

/// An amount of the currency of the prices.
pub fn money(amount: f64) -> String {
    let whole = amount.round() as u64;
    if amount < 10.0 {
        return format!("{amount:.2}");
    }
    let digits = whole.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|g| str::from_utf8(g).ok()).collect();
    groups.join(",")
}

fn digits(number: f64) -> String {
    if number >= 10.0 { format!("{number:.0}") } else { format!("{number:.1}").replace(".0", "") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::situation::tests::published;

    #[test]
    fn the_advice_for_the_published_case_agrees_with_its_report() {
        let asked = [(50_000_000_000_000, Medium::Flash), (90_000_000_000_000, Medium::Flash)];
        let sentences = sentences(&published(), &asked, &Prices::default());
        let expected = [
            "Now, with 1.2 TB of memory: 70 % hits and 3 billion requests to the store a month; 5,316 for \
             the cache and 1,200 for requests.",
            "With 50 TB of flash: 90 % hits, 67 % fewer requests to the store, 4,392 a month (6,516 now); \
             the flash costs as much as 903 GB of memory.",
            "90 TB is outside of the forecasts, which are from 600 GB to 60 TB.",
        ];
        assert_eq!(sentences[..3], expected);
        assert!(
            sentences[3].starts_with("Cheapest: with ") && sentences[3].contains("flash"),
            "{}",
            sentences[3]
        );
        assert!(sentences[4].starts_with("A hit ratio of 90 % needs 4"), "{}", sentences[4]);
    }

    #[test]
    fn a_cache_with_too_few_reads_gets_no_sums() {
        for (sampled_reads, reads, seen) in [
            (0.0, 0.0, "there were 0."),
            (f64::NAN, 1e10, "there were 0."),
            (999.9, 1e10, "there were 999."),
            (1e6, f64::NAN, "there were 1000000."),
        ] {
            let situation = Situation { sampled_reads, reads, ..published() };
            let asked = [(50_000_000_000_000, Medium::Flash)];
            let sentences = sentences(&situation, &asked, &Prices::default());
            assert_eq!(sentences.len(), 1, "{sentences:?}");
            assert!(
                sentences[0].starts_with("Too few reads") && sentences[0].contains(seen),
                "{sentences:?}"
            );
        }
        assert!(!published().is_too_little());
    }

    #[test]
    fn advice_warns_if_the_forecast_differs_from_the_present_hit_ratio() {
        let situation = Situation { self_error: 0.08, ..published() };
        let last = sentences(&situation, &[], &Prices::default()).pop().unwrap_or_default();
        assert!(last.starts_with("Caution: the forecast for the present size is off by 8.0 %"), "{last}");
    }

    #[test]
    fn numbers_have_few_digits() {
        assert_eq!([size(50_000_000_000_000), size(1_234_000), size(0)], ["50 TB", "1.2 MB", "0 B"]);
        assert_eq!([percent(0.912), percent(0.05), percent(0.999)], ["91 %", "5.0 %", "99.9 %"]);
        assert_eq!([money(1234567.4), money(0.5), money(12.0)], ["1,234,567", "0.50", "12"]);
    }
}
