//! Reads a catalog that may be damaged: examines every object and records each fault, without stopping at
//! any.
//!
//! The log is followed from its first entry. Where that fails (an entry is missing, unreadable, or does
//! not hold the checksum of the one before) it continues from the next readable checkpoint; damage below
//! a sound checkpoint loses nothing. The *sound* state is the one with the highest number that can be
//! reached. Later entries, which the listing or witnesses show, are lost.

use std::collections::{BTreeMap, BTreeSet};

use sandur_format::catalog_entry::{Boundary, LogPosition};
use sandur_store::{Intent, ObjectInfo};

use crate::check_report::{Finding, Severity};
use crate::error::Error;
use crate::names::{self, CatalogObject};
use crate::position::PositionCheck;
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::witness::Witness;

/// Most missing numbers that are reported one by one.
const MISSING_NAMED: u64 = 100;

/// The result of reading a damaged catalog.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// The faults.
    pub findings: Vec<Finding>,
    /// Entries that were read.
    pub entries: u64,
    /// Checkpoints that were read.
    pub checkpoints: u64,
    /// The sound state.
    pub sound: Snapshot,
    /// Numbers of existing entries after it, readable or not.
    pub beyond: Vec<u64>,
    /// The highest number that any object names or that a process has seen.
    pub highest: u64,
    /// Whether a process has seen another log.
    pub was_replaced: bool,
    /// Every object below `catalog/`.
    pub objects: Vec<ObjectInfo>,
}

impl Survey {
    /// Whether the sound state is complete, as far as any process has seen.
    pub fn is_whole(&self) -> bool {
        self.sound.number() >= self.highest && !self.was_replaced
    }

    pub fn damage(&mut self, object: impl Into<String>, problem: impl Into<String>) {
        let (severity, object, problem) = (Severity::Damage, object.into(), problem.into());
        self.findings.push(Finding { severity, object, problem });
    }

    /// Records a position that a process has seen, and returns whether it contradicts the sound state.
    pub fn hear(&mut self, object: &str, seen: LogPosition) -> bool {
        let number = self.sound.number();
        match self.sound.compare(seen) {
            PositionCheck::Contained | PositionCheck::Unknown => return false,
            PositionCheck::Beyond => self.damage(
                object,
                format!(
                    "was written after entry {} of the catalog, which can be followed only to {number}: \
                     entries are lost",
                    seen.number
                ),
            ),
            PositionCheck::Differs => {
                self.was_replaced = true;
                let problem =
                    format!("was written when entry {} of the catalog had other contents", seen.number);
                self.damage(object, problem);
            }
        }
        self.highest = self.highest.max(seen.number);
        true
    }
}

impl Shared {
    /// Reads all of the catalog. An error means that the store could not be read, or that a newer version of
    /// the program wrote to it.
    pub(crate) async fn survey(&self) -> Result<Survey, Error> {
        let mut survey = Survey::default();
        let witnesses = self.read_witnesses().await?;
        self.survey_witness(&mut survey).await?;
        let boundary = self.survey_boundary(&mut survey).await?;
        survey.objects = self.store.list(names::CATALOG, Intent::catalog()).await?;
        let (mut numbers, mut roots) = (BTreeSet::new(), BTreeSet::new());
        for object in &survey.objects {
            match CatalogObject::parse(&object.path) {
                Some(CatalogObject::Entry { number }) if number > boundary.number => {
                    numbers.insert(number);
                }
                Some(CatalogObject::Root { number }) if number >= boundary.number => {
                    roots.insert(number);
                }
                Some(_) => {}
                None => survey.findings.push(Finding {
                    severity: Severity::Note,
                    object: object.path.clone(),
                    problem: "is not an object of the catalog".to_owned(),
                }),
            }
        }
        let states = self.survey_checkpoints(&roots, &mut survey).await?;
        self.walk(boundary, &numbers, &states, &mut survey).await?;
        self.expect_readable(&survey.sound)?;
        survey.beyond = numbers.range(survey.sound.number() + 1..).copied().collect();
        let named =
            [boundary.number, roots.last().copied().unwrap_or(0), numbers.last().copied().unwrap_or(0)];
        survey.highest = named.into_iter().chain([survey.sound.number()]).max().unwrap_or(0);
        for Witness { object, seen } in &witnesses {
            // Listed objects were examined above.
            if CatalogObject::parse(object).is_none() {
                survey.hear(object, *seen);
            }
        }
        if survey.highest == 0
            && let Err(Error::Lost { evidence }) = self.expect_no_data().await
        {
            survey.damage(names::CATALOG, evidence);
            survey.highest = 1;
        }
        Ok(survey)
    }

    async fn survey_boundary(&self, survey: &mut Survey) -> Result<LogPosition, Error> {
        match self.store.get(names::BOUNDARY, Intent::catalog()).await {
            Ok(bytes) => match Boundary::decode(&bytes) {
                Ok(boundary) => return Ok(boundary.at),
                Err(error) => survey.damage(names::BOUNDARY, format!("cannot be used: {error}")),
            },
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        Ok(LogPosition::default())
    }

    async fn survey_witness(&self, survey: &mut Survey) -> Result<(), Error> {
        match self.store.get(names::WITNESS, Intent::catalog()).await {
            Ok(bytes) => {
                if let Err(error) = LogPosition::decode_witness(&bytes) {
                    survey.damage(names::WITNESS, format!("cannot be used: {error}"));
                }
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn survey_checkpoints(
        &self,
        roots: &BTreeSet<u64>,
        survey: &mut Survey,
    ) -> Result<BTreeMap<u64, Snapshot>, Error> {
        let mut states = BTreeMap::new();
        for number in roots {
            match self.try_read_checkpoint(*number).await {
                Ok(snapshot) => {
                    survey.checkpoints += 1;
                    states.insert(*number, snapshot);
                }
                Err(Error::Store(error)) if !error.is_not_found() => return Err(Error::Store(error)),
                Err(error) if error.is_of_newer_program() => return Err(error),
                Err(error) => survey.damage(names::root(*number), error.to_string()),
            }
        }
        Ok(states)
    }

    /// Follows the log as far as possible, compares the state with each checkpoint on the way, and
    /// continues from the next checkpoint where the log cannot be followed.
    async fn walk(
        &self,
        boundary: LogPosition,
        numbers: &BTreeSet<u64>,
        states: &BTreeMap<u64, Snapshot>,
        survey: &mut Survey,
    ) -> Result<(), Error> {
        let mut state = states.get(&boundary.number).cloned();
        match &state {
            Some(at) if at.compare(boundary) == PositionCheck::Differs => {
                survey.damage(names::BOUNDARY, "does not match the checkpoint at its number");
            }
            None if boundary.number > 0 => {
                let problem = "the checkpoint at the boundary is missing or damaged";
                survey.damage(names::root(boundary.number), problem);
            }
            None => state = Some(Snapshot::default()),
            Some(_) => {}
        }
        let last = numbers.last().max(states.keys().last()).copied().unwrap_or(0);
        let (mut number, mut missing) = (boundary.number, 0);
        while number < last {
            number += 1;
            let failure = self.next_of(state.as_mut(), number, survey).await?.err();
            let checkpoint = states.get(&number);
            if let Some(failure) = failure {
                survey.keep_sound(state.take());
                missing += 1;
                if missing <= MISSING_NAMED {
                    survey.damage(names::entry(number), failure);
                }
                if checkpoint.is_none() && missing > MISSING_NAMED {
                    // A very high number is reached by a jump, not one by one.
                    let next = numbers.range(number + 1..).next().into_iter();
                    let next = next.chain(states.range(number + 1..).next().map(|(n, _)| n)).min();
                    number = next.map_or(last, |next| next - 1);
                }
            }
            match (&mut state, checkpoint) {
                (None, Some(checkpoint)) => state = Some(checkpoint.clone()),
                (Some(state), Some(checkpoint)) if !state.agrees(checkpoint) => {
                    survey.damage(names::root(number), "the checkpoint differs from the log before it");
                }
                _ => {}
            }
        }
        survey.keep_sound(state);
        Ok(())
    }

    /// Reads entry `number` and applies it to the state. The inner error says why that is not possible.
    async fn next_of(
        &self,
        state: Option<&mut Snapshot>,
        number: u64,
        survey: &mut Survey,
    ) -> Result<Result<(), String>, Error> {
        let stored = match self.read_entry(number).await {
            Ok(Some(stored)) => stored,
            Ok(None) => return Ok(Err("is missing, although later objects exist".to_owned())),
            Err(Error::Store(error)) => return Err(Error::Store(error)),
            Err(error) if error.is_of_newer_program() => return Err(error),
            Err(error) => return Ok(Err(error.to_string())),
        };
        survey.entries += 1;
        Ok(match state {
            Some(state) => state.follow(&stored).map_err(|error| error.to_string()),
            None => Ok(()),
        })
    }
}

impl Survey {
    fn keep_sound(&mut self, state: Option<Snapshot>) {
        if let Some(state) = state
            && state.number() >= self.sound.number()
        {
            self.sound = state;
        }
    }
}

impl Snapshot {
    /// Whether two states with one number are the same, as far as their checksums can be compared.
    fn agrees(&self, other: &Self) -> bool {
        self == other && other.compare(self.position()) != PositionCheck::Differs
    }
}
