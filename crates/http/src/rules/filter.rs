//! Which rules and groups a request wants.

use std::collections::HashSet;
use std::sync::Arc;

use sandur_model::{Labels, Matcher, matches_all};
use sandur_rules::{GroupShown, RuleSpec};
use sandur_service::Queries;
use sandur_service::promql::parse_selectors;
use xxhash_rust::xxh3::xxh3_128;

use crate::call::Call;
use crate::params::Params;
use crate::prometheus::queries::refuse;
use crate::prometheus::refused::Refused;

/// The parameters of a request.
#[derive(Debug, Default)]
pub struct Filter {
    /// `Some(true)`: only alerting rules; `Some(false)`: only recording rules.
    is_alerting: Option<bool>,
    names: HashSet<String>,
    groups: HashSet<String>,
    files: HashSet<String>,
    selectors: Vec<Vec<Matcher>>,
    /// Whether the alerts of rules are left out.
    pub without_alerts: bool,
    limit: Option<usize>,
    token: Option<String>,
}

/// Groups of an answer.
pub struct Page {
    /// The groups.
    pub groups: Vec<Arc<GroupShown>>,
    /// The token of the next page; `None` after the last.
    pub next: Option<String>,
}

impl Filter {
    /// Reads the parameters of a call.
    pub async fn of(call: &Call, queries: &Queries) -> Result<Self, Refused> {
        let texts: Vec<String> = call.params.all("match[]").map(str::to_owned).collect();
        let context = queries.samples_context(&call.caller.tenant, None);
        let selectors = match texts.is_empty() {
            true => Vec::new(),
            false => {
                parse_selectors(&context, texts).await.map_err(|e| Refused::reading(e, str::to_owned))?
            }
        };
        Ok(Self { selectors, ..Self::without_selectors(&call.params)? })
    }

    fn without_selectors(params: &Params) -> Result<Self, Refused> {
        let several = |name: &str| params.all(name).map(str::to_owned).collect();
        let is_alerting = match params.get("type").unwrap_or("").to_lowercase().as_str() {
            "" => None,
            "alert" => Some(true),
            "record" => Some(false),
            other => return Err(refuse(&format!("not supported value {other:?}"))),
        };
        let without_alerts = match params.get("exclude_alerts").unwrap_or("") {
            "" => false,
            text => boolean(text).ok_or_else(|| refuse("error converting exclude_alerts: invalid syntax"))?,
        };
        let limit = match params.get("group_limit").filter(|text| !text.is_empty()) {
            None => None,
            Some(text) => match text.parse::<usize>() {
                Ok(limit) if limit > 0 => Some(limit),
                _ => return Err(refuse(&format!("group_limit needs to be a positive number: {text:?}"))),
            },
        };
        let token = params.get("group_next_token").filter(|text| !text.is_empty()).map(str::to_owned);
        if token.is_some() && limit.is_none() {
            return Err(refuse("group_limit needs to be present in order to paginate over the groups"));
        }
        let (names, groups, files) = (several("rule_name[]"), several("rule_group[]"), several("file[]"));
        let selectors = Vec::new();
        Ok(Self { is_alerting, names, groups, files, selectors, without_alerts, limit, token })
    }

    /// Whether the request wants a rule.
    pub fn wants(&self, rule: &RuleSpec) -> bool {
        let is_named = self.names.is_empty() || self.names.contains(&rule.name);
        let of_kind = self.is_alerting.is_none_or(|is_alerting| is_alerting == rule.is_alerting());
        is_named && of_kind && self.matches(rule)
    }

    fn matches(&self, rule: &RuleSpec) -> bool {
        if self.selectors.is_empty() {
            return true;
        }
        let labels = Labels::from_pairs(rule.labels.iter().map(|(name, value)| (name, value)));
        self.selectors.iter().any(|selector| matches_all(selector, &labels))
    }

    /// The groups that have a rule that the request wants, from its token on.
    pub fn page(&self, all: Vec<Arc<GroupShown>>) -> Result<Page, Refused> {
        let is_wanted = |group: &&Arc<GroupShown>| {
            (self.groups.is_empty() || self.groups.contains(&group.spec.name))
                && (self.files.is_empty() || self.files.contains(&*group.spec.file))
        };
        let has_filter = self.is_alerting.is_some() || !self.names.is_empty() || !self.selectors.is_empty();
        let has_rules =
            |group: &&Arc<GroupShown>| !has_filter || group.spec.rules.iter().any(|rule| self.wants(rule));
        let mut groups: Vec<_> = all.iter().filter(is_wanted).filter(has_rules).cloned().collect();
        if let Some(token) = &self.token {
            let at = groups.iter().position(|group| token_of(group) == *token);
            let wrong = || refuse(&format!("invalid group_next_token '{token}'. were rule groups changed?"));
            groups.drain(..at.ok_or_else(wrong)?);
        }
        let next = self.limit.and_then(|limit| groups.get(limit)).map(|group| token_of(group));
        groups.truncate(self.limit.unwrap_or(usize::MAX));
        Ok(Page { groups, next })
    }
}

/// The token of a page that begins with a group.
fn token_of(group: &GroupShown) -> String {
    format!("{:032x}", xxh3_128(format!("{};{}", group.spec.file, group.spec.name).as_bytes()))
}

/// A switch as Go's `strconv.ParseBool` reads it.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use sandur_rules::file::{ReadOptions, read};

    use super::*;

    fn groups() -> Vec<Arc<GroupShown>> {
        let text = "groups:\n- name: a\n  rules:\n  - {record: r, expr: up, labels: {l: x}}\n- name: b\n  \
                    rules:\n  - {alert: s, expr: up}\n- name: c\n  rules:\n  \
                    - {alert: t, expr: up, labels: {l: x}}\n";
        let specs = read(text, &"f.yml".into(), ReadOptions::default()).unwrap();
        specs.into_iter().map(|spec| Arc::new(GroupShown::new(Arc::new(spec)))).collect()
    }

    fn page(query: &str) -> Result<(String, Option<String>), String> {
        let filter =
            Filter::without_selectors(&Params::read(b"", query.as_bytes())).map_err(|_| "refused")?;
        let Page { groups, next } = filter.page(groups()).map_err(|_| "refused")?;
        let names: Vec<&str> = groups.iter().map(|group| group.spec.name.as_str()).collect();
        Ok((names.join(""), next))
    }

    #[test]
    fn groups_and_rules_are_filtered() {
        for (query, names) in [
            ("", "abc"),
            ("type=alert", "bc"),
            ("type=record", "a"),
            ("rule_name[]=s&rule_name[]=r", "ab"),
            ("rule_group[]=c&rule_group[]=x", "c"),
            ("file[]=f.yml", "abc"),
            ("file[]=g.yml", ""),
        ] {
            assert_eq!(page(query).unwrap().0, names, "{query}");
        }
        for query in
            ["type=x", "exclude_alerts=maybe", "group_limit=0", "group_limit=-1", "group_next_token=x"]
        {
            assert!(page(query).is_err(), "{query}");
        }
        assert!(page("group_limit=1&group_next_token=x").is_err(), "an unknown token");
    }

    #[test]
    fn pages_follow_each_other_by_their_tokens() {
        let (names, next) = page("group_limit=2").unwrap();
        assert_eq!(names, "ab");
        let query = format!("group_limit=2&group_next_token={}", next.unwrap());
        assert_eq!(page(&query).unwrap(), ("c".to_owned(), None));
    }
}
