//! `sandur serve --check-config`: reads the whole configuration as a start does, with all files, secrets and
//! certificates, and reports everything that is wrong.
//!
//! It binds no address, opens no store and writes nothing, so that it can run next to a server.

use std::process::ExitCode;
use std::sync::Arc;

use sandur_cli::client::Client;
use sandur_config::{Settings, TenantLimits};
use sandur_http::{Tls, without_secrets};
use sandur_listeners::carbon;
use sandur_model::TenantId;
use sandur_rules::{Most, check_files};
use sandur_runtime::Env;
use sandur_scrape::Auth;
use sandur_store::Store;
use sandur_terminal::{Failed, counted};

use super::peers::PeerCalls;
use super::serve::{authority, dashboards_of};
use super::work_of_roles::work_of_roles;
use super::{listen, notifications, relay, rules, scrape};
use crate::graphite_rules::GraphiteRules;
use crate::memory::Shares;
use crate::node_identity;

/// What was found.
#[derive(Default)]
struct Findings {
    checked: Vec<&'static str>,
    errors: Vec<String>,
}

impl Findings {
    /// Notes a check of these keys with its errors.
    fn note(&mut self, keys: &'static str, errors: impl IntoIterator<Item = String>) {
        self.checked.push(keys);
        self.errors.extend(errors.into_iter().map(|error| match error.starts_with(keys) {
            true => error,
            false => format!("{keys}: {error}"),
        }));
    }

    fn note_failed(&mut self, keys: &'static str, errors: impl IntoIterator<Item = Failed>) {
        self.note(keys, errors.into_iter().map(|failed| failed.message().to_owned()));
    }
}

/// Checks the settings. The exit code says whether a start would accept them.
pub async fn check_config(settings: Settings) -> Result<ExitCode, Failed> {
    let env = super::environment(&settings);
    settings.removed.iter().for_each(|key| eprintln!("warning: {key} has no effect any more: remove it"));
    let findings = findings(&env, work_of_roles(settings)).await;
    for error in &findings.errors {
        eprintln!("sandur: {error}");
    }
    if findings.errors.is_empty() {
        eprintln!("the configuration is valid; checked: {}", findings.checked.join(", "));
        return Ok(ExitCode::SUCCESS);
    }
    let errors = counted(findings.errors.len() as u64, "error", "errors");
    Err(Failed::new(format!("the configuration has {errors}; nothing was started")))
}

async fn findings(env: &Env, settings: Settings) -> Findings {
    let mut found = Findings::default();
    let store = Store::check_url(&settings.store).err();
    found.note("store", store.map(|error| format!("'{}': {error}", without_secrets(&settings.store))));
    found.note("memory_limit", Shares::of(settings.memory_limit).err().map(|error| error.to_string()));
    let tenant = TenantId::new(&settings.self_logs_tenant).err();
    found.note("self_logs_tenant", tenant.map(|error| error.to_string()));
    found.note_failed("listen", listen::check(&settings));
    found.note_failed("carbon", carbon::check(&settings));
    found.note("tls", Tls::open(env.clone(), &settings.tls).await.err().map(|error| error.to_string()));
    found.note_failed("auth.file", authority(env, &settings).await.err());
    let limits = Arc::new(TenantLimits::new(&settings));
    found.note("limits", limits.load(env).await.err().map(|error| error.to_string()));
    found.note_failed("cluster", node_identity::check(&settings).err());
    found.note_failed("cluster.secret_file", PeerCalls::open(env, &settings).err());
    found.note_failed("cluster.advertise_address", node_identity::check_advertised(&settings).err());
    found.note("graphite", GraphiteRules::open(&settings.graphite).err());
    found.note_failed("relay_config", relay::configured(&settings).err());
    found.note("scrape", scrape_errors(&settings));
    found.note("rules", rule_errors(&settings));
    found.note_failed("dashboards", dashboards(env, &settings).await.err());
    found
}

/// Checks the folder of dashboards. A file that cannot be used is a warning, since the server starts.
async fn dashboards(env: &Env, settings: &Settings) -> Result<(), Failed> {
    let folder = dashboards_of(settings)?;
    if !folder.is_given() {
        return Ok(());
    }
    let listing =
        folder.list(env, (folder.turn().await, ())).await.map_err(|error| Failed::new(error.to_string()))?;
    listing.notes.iter().for_each(|note| eprintln!("warning: dashboards: {note}"));
    for entry in listing.entries {
        if let Err(reason) = entry.head {
            eprintln!("warning: dashboards: '{}': {reason}", entry.name);
        }
    }
    Ok(())
}

/// The errors of the scrape configuration with its secrets and certificates.
fn scrape_errors(settings: &Settings) -> Vec<String> {
    let file = match scrape::file(settings) {
        Ok(file) => file.map(|(file, _)| file).unwrap_or_default(),
        Err(failed) => return vec![failed.message().to_owned()],
    };
    file.warnings.iter().for_each(|warning| eprintln!("warning: {}: {warning}", settings.scrape_config));
    let mut errors = Vec::new();
    for job in &file.jobs {
        let of_clusters = job.kubernetes.iter().map(|entry| (&entry.auth, &entry.tls));
        for (auth, tls) in [(&job.auth, &job.tls)].into_iter().chain(of_clusters) {
            let secrets = match auth {
                Auth::None => Ok(()),
                Auth::Basic { username, password } => username.read().and_then(|_| password.read()).map(drop),
                Auth::Token { credentials, .. } => credentials.read().map(drop),
            };
            let client = Client::of_targets(tls.ca_file.clone(), tls.insecure);
            let client = client.map(drop).map_err(|failed| failed.message().to_owned());
            let wrong = [secrets, client].into_iter().filter_map(Result::err);
            errors.extend(wrong.map(|error| format!("job '{}': {error}", job.name)));
        }
    }
    errors
}

/// The errors of rules, of their files, and of the secrets for receivers of alerts.
fn rule_errors(settings: &Settings) -> Vec<String> {
    let of = &settings.ruler;
    let sources = match rules::configured(settings) {
        Ok(None) => return Vec::new(),
        Ok(Some(configured)) => configured.sources,
        Err(failed) => return vec![failed.message().to_owned()],
    };
    let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let most = Most { groups: count(of.max_groups), rules: count(of.max_rules) };
    let files = check_files(&sources, of.evaluation_interval, most);
    let mut errors: Vec<String> =
        files.into_iter().filter_map(|file| Some(format!("{}: {}", file.path, file.error?))).collect();
    errors.extend(notifications::secret_errors(settings));
    errors
}
