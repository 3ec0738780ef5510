//! Leaves out of the settings what this process does not do by its roles.
//!
//! All processes of a bucket may have the same configuration file and differ only in `cluster.roles`.

use sandur_config::Settings;
use sandur_model::Role;

/// Returns the settings without the work of other roles. Says in the log what was left out.
pub fn work_of_roles(mut settings: Settings) -> Settings {
    let roles = settings.cluster.roles;
    if !roles.has(Role::Ingest) {
        leave_out(Role::Ingest, "carbon.listen", &mut settings.carbon.listen);
        leave_out(Role::Ingest, "carbon.pickle_listen", &mut settings.carbon.pickle_listen);
        leave_out(Role::Ingest, "carbon.protobuf_listen", &mut settings.carbon.protobuf_listen);
        leave_out(Role::Ingest, "relay_config", &mut settings.relay_config);
        leave_out(Role::Ingest, "scrape_config", &mut settings.scrape_config);
        leave_out(Role::Ingest, "scrape", &mut settings.scrape);
    }
    if !roles.has(Role::Rules) {
        leave_out(Role::Rules, "rules", &mut settings.rules);
    }
    settings
}

/// A setting that may be empty.
trait Emptied: Default {
    fn is_empty(&self) -> bool;
}

impl Emptied for String {
    fn is_empty(&self) -> bool {
        str::is_empty(self)
    }
}

impl Emptied for Vec<String> {
    fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }
}

fn leave_out<T: Emptied>(role: Role, option: &str, value: &mut T) {
    if !value.is_empty() {
        tracing::info!(option, %role, "the option is not used: cluster.roles has not the role");
        *value = T::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandur_model::Roles;

    #[test]
    fn a_process_has_only_the_work_of_its_roles() {
        let mut all = Settings::default();
        all.carbon.listen = "127.0.0.1:2003".to_owned();
        all.scrape = vec!["localhost:9100".to_owned()];
        all.rules = vec!["rules.yml".to_owned()];
        assert_eq!(work_of_roles(all.clone()), all);
        all.cluster.roles = Roles::ALL.without(Role::Ingest);
        let kept = work_of_roles(all.clone());
        assert!(kept.carbon.listen.is_empty() && kept.scrape.is_empty() && !kept.rules.is_empty());
        all.cluster.roles = Roles::ALL.without(Role::Rules);
        let kept = work_of_roles(all);
        assert!(!kept.carbon.listen.is_empty() && kept.rules.is_empty());
    }
}
