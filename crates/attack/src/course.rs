//! A course: runs every attack against the same servers, with a verdict after each.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use sandur_runtime::Env;

use crate::attacks::Attack;
use crate::ground::{Ground, Size, Tally};
use crate::pause::Pause;
use crate::victim::{Carbon, Setup, Victim};
use crate::watch::{Bystander, Watched};

/// The options of a course.
pub struct Course<'a> {
    /// How servers are started.
    pub setup: Setup,
    /// The attacks to run.
    pub attacks: Vec<&'a Attack>,
    /// The extent of each attack.
    pub size: Size,
    /// Seed of everything random.
    pub seed: u64,
    /// The longest time that the bystander may wait for an answer.
    pub answer_within: Duration,
}

/// The result of one attack.
#[derive(Debug)]
pub struct Verdict {
    /// The name of the attack.
    pub name: &'static str,
    /// Number of answers by status.
    pub answers: BTreeMap<u16, u64>,
    /// What the bystander observed.
    pub watched: Watched,
    /// Peak of the database's resident memory during the attack, in bytes.
    pub peak_bytes: u64,
    /// The duration of the attack.
    pub took: Duration,
    /// Defects; the attack passes if there are none.
    pub findings: Vec<String>,
}

/// Both servers.
struct Victims {
    database: Victim,
    carbon: Carbon,
    cache: Victim,
}

impl Victims {
    fn start(env: &Env, setup: &Setup) -> Result<Self> {
        let carbon = Carbon::free()?;
        let mut listening = setup.clone();
        listening.arguments.extend(carbon.arguments());
        Ok(Self { database: listening.serve(env)?, carbon, cache: setup.serve_cache(env)? })
    }
}

/// Runs the course. Shows a verdict for each attack, and one for the acknowledged lines. Returns whether
/// there are no defects.
pub fn run(env: &Env, course: &Course<'_>, mut shown: impl FnMut(&Verdict)) -> Result<bool> {
    let mut victims = Victims::start(env, &course.setup)?;
    let mut bystander = Bystander::default();
    let mut clean = true;
    for attack in &course.attacks {
        let verdict = one(env, course, attack, (&mut victims, &mut bystander));
        clean &= verdict.findings.is_empty();
        shown(&verdict);
        if victims.database.ended().is_some() || victims.cache.ended().is_some() {
            victims = Victims::start(env, &course.setup)
                .context("cannot start the servers again after an attack")?;
        }
    }
    let last = acknowledged(env, course, (victims, &bystander))?;
    clean &= last.findings.is_empty();
    shown(&last);
    Ok(clean)
}

fn one(
    env: &Env,
    course: &Course<'_>,
    attack: &Attack,
    (victims, bystander): (&mut Victims, &mut Bystander),
) -> Verdict {
    let address = victims.database.address;
    let ground = Ground {
        env,
        address,
        cache: victims.cache.address,
        carbon: victims.carbon,
        setup: &course.setup,
        size: course.size,
        seed: course.seed,
        tally: Tally::default(),
    };
    victims.database.forget_peak();
    let (began, pause) = (env.monotonic(), Pause::default());
    let watched = std::thread::scope(|scope| {
        let watching = scope.spawn(|| bystander.watch(env, address, &pause));
        if let Err(error) = (attack.run)(&ground) {
            ground.tally.finding(format!("the attack could not be run: {error:#}"));
        }
        pause.end();
        watching.join().unwrap_or_else(|_| Watched {
            failure: Some("the bystander panicked".to_owned()),
            ..Watched::default()
        })
    });
    let counts = ground.tally.counts();
    let mut verdict = Verdict {
        name: attack.name,
        answers: counts.answers,
        watched,
        peak_bytes: victims.database.peak_bytes(),
        took: env.monotonic() - began,
        findings: counts.findings,
    };
    judge(course, victims, &mut verdict);
    verdict
}

fn judge(course: &Course<'_>, victims: &mut Victims, verdict: &mut Verdict) {
    let findings = &mut verdict.findings;
    for (name, victim) in [("database", &mut victims.database), ("memcached server", &mut victims.cache)] {
        if let Some(status) = victim.ended() {
            findings.push(format!("the {name} ended with {status}:\n{}", victim.last_words()));
        }
    }
    let bound = course.setup.memory_limit + course.setup.memory_limit / 10;
    if verdict.peak_bytes > bound {
        let (peak, limit) = (verdict.peak_bytes >> 20, course.setup.memory_limit >> 20);
        findings.push(format!("resident memory was {peak} MiB; the limit is 110 % of {limit} MiB"));
    }
    if let Some(failure) = &verdict.watched.failure {
        findings.push(format!("a request of the bystander failed: {failure}"));
    }
    if verdict.watched.slowest > course.answer_within {
        let (slowest, what) = (verdict.watched.slowest, verdict.watched.waited_for);
        let most = course.answer_within;
        findings.push(format!("the bystander waited {slowest:?} for {what}; the limit is {most:?}"));
    }
}

/// Kills the database, starts it again and counts the lines that were acknowledged to the bystander.
fn acknowledged(
    env: &Env,
    course: &Course<'_>,
    (victims, bystander): (Victims, &Bystander),
) -> Result<Verdict> {
    let began = env.monotonic();
    victims.database.kill()?;
    let again = course.setup.serve(env).context("cannot start the database again after kill -9")?;
    let mut findings = Vec::new();
    let mut watched = Watched::default();
    match bystander.check_all(env, again.address) {
        Ok(lines) => watched.answered = lines,
        Err(error) => findings.push(format!("{error:#}")),
    }
    let (took, peak_bytes) = (env.monotonic() - began, again.peak_bytes());
    let name = "acknowledged-lines";
    Ok(Verdict { name, answers: BTreeMap::new(), watched, peak_bytes, took, findings })
}
