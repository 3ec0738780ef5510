//! The rules of one tenant, as they are stored: groups as text by namespace and name, and silences by id.
//!
//! **Invariants.** A group has one name in its namespace, whatever its language. Changes check the limits of
//! the tenant before they change anything.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sandur_model::{Limits, TenantId};
use serde::{Deserialize, Serialize};

use super::envelope::{self, Kind};
use super::error::StoredError;
use crate::data::Instant;
use crate::file::{ReadOptions, read_group};
use crate::silence::{EXPIRED_KEPT, Silence, SilenceState, Silences};
use crate::spec::{GroupSpec, Language};

/// The largest object with the rules of a tenant.
pub const DOCUMENT_BYTES_MAX: usize = 32 << 20;
/// The shortest interval of a group, so that a client cannot keep the process busy with one rule.
const INTERVAL_MIN: Duration = Duration::from_secs(1);
/// The longest name of a namespace or group.
const NAME_BYTES_MAX: usize = 1_024;

/// A group as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredGroup {
    /// The language of rules that name none, which is also the API to which the group belongs.
    language: Language,
    /// The group as YAML in its stored form.
    pub text: Text,
    /// The number of its rules.
    rules: usize,
}

/// A text that answers share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Text(pub Arc<str>);

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0.as_ref().to_owned()
    }
}

/// The groups of a namespace by name.
pub type Groups = BTreeMap<String, StoredGroup>;

/// The rules of a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    tenant: String,
    namespaces: BTreeMap<String, Groups>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    silences: BTreeMap<String, Silence>,
}

/// The most silences of a tenant.
pub const SILENCES_MAX: usize = 1_000;

impl Document {
    /// No rules.
    pub fn empty(tenant: &TenantId) -> Self {
        Self { tenant: tenant.to_string(), namespaces: BTreeMap::new(), silences: BTreeMap::new() }
    }

    /// Reads the object of a tenant.
    pub fn decode(bytes: &[u8], tenant: &TenantId) -> Result<Self, String> {
        let document: Self = envelope::open(Kind::Rules, bytes)?;
        match document.tenant == tenant.as_str() {
            true => Ok(document),
            false => Err(format!("the object has the rules of tenant '{}'", document.tenant)),
        }
    }

    /// The object.
    pub fn encode(&self) -> Result<Vec<u8>, StoredError> {
        let bytes = envelope::seal(Kind::Rules, self);
        match bytes.len() > DOCUMENT_BYTES_MAX {
            true => Err(StoredError::limit(
                "bytes of rules",
                bytes.len(),
                DOCUMENT_BYTES_MAX as u64,
                "of a tenant",
            )),
            false => Ok(bytes),
        }
    }

    /// About how many bytes the object has: JSON escapes line breaks and quotes of the texts.
    pub fn bytes_expected(&self) -> u64 {
        let names =
            self.namespaces.iter().flat_map(|(name, groups)| groups.keys().chain([name])).map(String::len);
        let texts = self.each().map(|group| group.text.0.len() * 5 / 4 + 128);
        let silences = self.silences.values().map(|silence| silence.bytes() * 5 / 4 + 512);
        (names.sum::<usize>() + texts.sum::<usize>() + silences.sum::<usize>()) as u64
    }

    /// Whether there are no rules and no silences.
    pub fn is_empty(&self) -> bool {
        self.namespaces.is_empty() && self.silences.is_empty()
    }

    /// The silences by id.
    pub fn silences(&self) -> &BTreeMap<String, Silence> {
        &self.silences
    }

    /// Adds a silence, or changes the one with the id `of`, as Alertmanager does: a change of its matchers,
    /// or of a start that is over, ends it and adds `new` in its place. Returns the id, and whether something
    /// changed.
    pub fn set_silence(
        &mut self,
        new: Silence,
        of: Option<&str>,
        now: Instant,
    ) -> Result<(String, bool), StoredError> {
        // Another attempt after a lost answer.
        if self.silences.contains_key(&new.id) {
            return Ok((new.id, false));
        }
        if let Some(id) = of {
            let known = self.silences.get_mut(id).ok_or(NO_SILENCE)?;
            if can_change(known, &new, now) {
                let changed = Silence { id: known.id.clone(), ..new };
                let has_changed = *known != changed;
                *known = changed;
                return Ok((id.to_owned(), has_changed));
            }
            end(known, now);
        }
        self.forget_silences(now);
        let new = Silence { starts_at: new.starts_at.max(now), ..new };
        let (id, found) = (new.id.clone(), self.silences.len() + 1);
        if found > SILENCES_MAX {
            return Err(StoredError::limit("silences", found, SILENCES_MAX as u64, "of a tenant"));
        }
        self.silences.insert(id.clone(), new);
        Ok((id, true))
    }

    /// Ends a silence. Returns whether something changed.
    pub fn expire_silence(&mut self, id: &str, now: Instant) -> Result<bool, StoredError> {
        let known = self.silences.get_mut(id).ok_or(NO_SILENCE)?;
        let has_changed = end(known, now);
        self.forget_silences(now);
        Ok(has_changed)
    }

    /// Removes silences that ended long ago, and the oldest of those that ended if there are too many.
    fn forget_silences(&mut self, now: Instant) {
        self.silences.retain(|_, silence| now < silence.ends_at.plus(EXPIRED_KEPT));
        while self.silences.len() >= SILENCES_MAX {
            let expired = self.silences.values().filter(|silence| silence.ends_at <= now);
            let Some(oldest) = expired.min_by_key(|silence| silence.ends_at) else { return };
            let id = oldest.id.clone();
            self.silences.remove(&id);
        }
    }

    /// The silences for being applied. Fails for one that this program cannot read, which a later version may
    /// have stored.
    pub fn compiled_silences(&self, now: Instant) -> Result<Silences, String> {
        Silences::of(self.silences.values(), now)
    }

    /// The namespaces with groups of a language, in order of their names.
    pub fn of_language(&self, language: Language) -> Vec<(&str, Vec<&StoredGroup>)> {
        let mut found = Vec::new();
        for (name, groups) in &self.namespaces {
            let groups: Vec<_> = groups.values().filter(|group| group.language == language).collect();
            if !groups.is_empty() {
                found.push((name.as_str(), groups));
            }
        }
        found
    }

    /// A group of a language.
    pub fn group(&self, language: Language, namespace: &str, name: &str) -> Option<&StoredGroup> {
        let group = self.namespaces.get(namespace)?.get(name)?;
        (group.language == language).then_some(group)
    }

    /// Adds or replaces a group. Returns whether something changed.
    pub fn set(
        &mut self,
        namespace: &str,
        group: CheckedGroup,
        limits: &Limits,
    ) -> Result<bool, StoredError> {
        let CheckedGroup { name, stored } = group;
        let before = self.namespaces.get(namespace).and_then(|groups| groups.get(&name));
        if before == Some(&stored) {
            return Ok(false);
        }
        if before.is_some_and(|before| before.language != stored.language) {
            return Err(StoredError::OtherApi { namespace: namespace.to_owned(), group: name });
        }
        let is_new_namespace = usize::from(!self.namespaces.contains_key(namespace));
        let groups = self.each().count() + usize::from(before.is_none());
        let rules_before = before.map_or(0, |before| before.rules);
        let rules = self.each().map(|group| group.rules).sum::<usize>() + stored.rules - rules_before;
        check(
            "namespaces",
            self.namespaces.len() + is_new_namespace,
            limits.ruler_max_namespaces_per_tenant,
            "ruler_max_namespaces_per_tenant",
        )?;
        check("groups", groups, limits.ruler_max_rule_groups_per_tenant, "ruler_max_rule_groups_per_tenant")?;
        check("rules", rules, limits.ruler_max_rules_per_tenant, "ruler_max_rules_per_tenant")?;
        self.namespaces.entry(namespace.to_owned()).or_default().insert(name, stored);
        Ok(true)
    }

    /// Removes a group of a language. Returns whether it existed.
    pub fn remove(&mut self, language: Language, namespace: &str, name: &str) -> bool {
        if self.group(language, namespace, name).is_none() {
            return false;
        }
        let Some(groups) = self.namespaces.get_mut(namespace) else { return false };
        groups.remove(name);
        self.namespaces.retain(|_, groups| !groups.is_empty());
        true
    }

    /// Removes the groups of a language in a namespace. Returns whether there was one.
    pub fn remove_namespace(&mut self, language: Language, namespace: &str) -> bool {
        let Some(groups) = self.namespaces.get_mut(namespace) else { return false };
        let before = groups.len();
        groups.retain(|_, group| group.language != language);
        let has_changed = groups.len() < before;
        self.namespaces.retain(|_, groups| !groups.is_empty());
        has_changed
    }

    fn each(&self) -> impl Iterator<Item = &StoredGroup> {
        self.namespaces.values().flat_map(BTreeMap::values)
    }

    /// The groups for evaluation. Fails for a group that this program cannot read, which a later version may
    /// have stored.
    pub fn specs(&self, interval: Duration) -> Result<Vec<GroupSpec>, String> {
        let mut specs = Vec::new();
        for (namespace, groups) in &self.namespaces {
            let file: Arc<str> = namespace.as_str().into();
            for (name, group) in groups {
                let options = ReadOptions { language: group.language, interval };
                let (spec, _) = read_group(&group.text.0, &file, options)
                    .map_err(|error| format!("group '{name}' of namespace '{namespace}': {error}"))?;
                specs.push(spec);
            }
        }
        Ok(specs)
    }
}

/// There is no silence with an id.
const NO_SILENCE: StoredError = StoredError::NotFound("silence does not exist");

/// Whether a silence can be changed in place.
fn can_change(known: &Silence, new: &Silence, now: Instant) -> bool {
    known.matchers == new.matchers
        && match known.state(now) {
            SilenceState::Active => known.starts_at.seconds() == new.starts_at.seconds(),
            SilenceState::Pending => new.starts_at >= now,
            SilenceState::Expired => false,
        }
}

/// Ends a silence. Returns whether it was not over.
fn end(silence: &mut Silence, now: Instant) -> bool {
    if silence.state(now) == SilenceState::Expired {
        return false;
    }
    (silence.starts_at, silence.ends_at, silence.updated_at) = (silence.starts_at.min(now), now, now);
    true
}

/// A group that was checked as `sandur rules check` does.
#[derive(Clone, Debug)]
pub struct CheckedGroup {
    name: String,
    stored: StoredGroup,
}

impl CheckedGroup {
    /// Checks a group that a client sent.
    pub fn read(
        text: &str,
        (language, namespace): (Language, &str),
        limits: &Limits,
    ) -> Result<Self, StoredError> {
        let options = ReadOptions { language, ..ReadOptions::default() };
        let (spec, stored) = read_group(text, &namespace.into(), options)?;
        let rules = spec.rules.len();
        if rules == 0 {
            return Err(StoredError::Refused("rules: a group needs at least one rule".to_owned()));
        }
        if spec.interval < INTERVAL_MIN {
            let text =
                format!("interval: {:?}, and a stored group has at least {INTERVAL_MIN:?}", spec.interval);
            return Err(StoredError::Refused(text));
        }
        check(
            "rules in a group",
            rules,
            limits.ruler_max_rules_per_rule_group,
            "ruler_max_rules_per_rule_group",
        )?;
        check("bytes", stored.len(), limits.ruler_max_rule_group_size, "ruler_max_rule_group_size")?;
        check("bytes of the group's name", spec.name.len(), NAME_BYTES_MAX as u64, "of names")?;
        check("bytes of the namespace's name", namespace.len(), NAME_BYTES_MAX as u64, "of names")?;
        Ok(Self { name: spec.name, stored: StoredGroup { language, text: stored.into(), rules } })
    }
}

fn check(what: &'static str, found: usize, limit: u64, name: &'static str) -> Result<(), StoredError> {
    match found as u64 > limit {
        true => Err(StoredError::limit(what, found, limit, name)),
        false => Ok(()),
    }
}
