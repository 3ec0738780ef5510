//! The layers of configuration: defaults, file, environment, flags.

use clap::{Arg, ArgAction, ArgMatches, Command};
use sandur_base::small_file;
use sandur_runtime::environment;

use super::error::{COMMAND_LINE, Error};
use super::file;
use super::settings::Settings;
use super::table::Named;

/// The command `sandur serve`, with flags from the table.
pub fn serve_command() -> Command {
    let config = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .help("Configuration file (TOML); unknown keys are errors. [env: SANDUR_CONFIG]");
    let check = Arg::new("check-config").long("check-config").action(ArgAction::SetTrue).help(
        "Read the whole configuration with its files, secrets and certificates, report every error, and \
         exit: 0 valid, 1 not. Nothing is opened for writing",
    );
    let mut command = Command::new("serve")
        .about("Run the server")
        .long_about(
            "Run the server: embedded on a local directory by default, or on an object-storage bucket.\n\
             Every option is also a key of the file and an environment variable; flags override variables, \
             and variables override the file.",
        )
        .args([config, check]);
    for named in Named::every() {
        command = command.arg(flag(&named));
    }
    command
}

fn flag(named: &Named) -> Arg {
    let help = format!("{} [default: {}] [env: {}]", named.help, shown(&named.default), named.variable());
    let value_name = match named.key.as_str() {
        "store" => "URL".to_owned(),
        "listen"
        | "admin_listen"
        | "otlp_grpc_listen"
        | "carbon.listen"
        | "carbon.pickle_listen"
        | "carbon.protobuf_listen"
        | "cluster.advertise_address" => "ADDR".to_owned(),
        "auth.file" | "tls.cert_file" | "tls.key_file" | "tls.client_ca_file" => "FILE".to_owned(),
        _ => named.kind.to_ascii_uppercase(),
    };
    let heading = match named.key.split_once('.') {
        None => "Options".to_owned(),
        Some((group, _)) => format!("Options of {group}"),
    };
    let id = named.key.clone();
    let arg = Arg::new(id)
        .long(named.flag())
        .value_name(value_name)
        .help(help)
        .help_heading(heading)
        .action(ArgAction::Set);
    let arg = if named.key == "cluster.roles" { arg.visible_alias("roles") } else { arg };
    match named.kind {
        "true|false" => arg.num_args(0..=1).default_missing_value("true"),
        "shares" => arg.action(ArgAction::Append),
        _ => arg,
    }
}

fn shown(default: &str) -> &str {
    if default.is_empty() { "none" } else { default }
}

/// Reads all layers; `matches` are the arguments of [`serve_command`].
pub fn load(matches: &ArgMatches) -> Result<Settings, Error> {
    let flag = |key: &str| {
        let values = matches.try_get_many::<String>(key).ok().flatten()?;
        Some(values.cloned().collect::<Vec<_>>().join(","))
    };
    let path = flag("config").or_else(|| environment::variable("SANDUR_CONFIG"));
    let text = match &path {
        None => None,
        Some(path) => Some((path.as_str(), read(path)?)),
    };
    let file = text.as_ref().map(|(path, text)| (*path, text.as_str()));
    layer(file, &environment::variable, &flag)
}

/// Maximum size of the configuration file and of the file of limits.
pub(super) const FILE_BYTES_MAX: u64 = 64 << 20;

fn read(path: &str) -> Result<String, Error> {
    small_file::read_text(path, FILE_BYTES_MAX)
        .map_err(|error| Error::Unreadable { path: path.to_owned(), reason: error.to_string() })
}

/// Applies the layers in order: file, then values of `variable`, then values of `flag`.
fn layer(
    file: Option<(&str, &str)>,
    variable: &dyn Fn(&str) -> Option<String>,
    flag: &dyn Fn(&str) -> Option<String>,
) -> Result<Settings, Error> {
    let mut settings = Settings::default();
    if let Some((path, text)) = file {
        file::apply(&mut settings, path, text)?;
    }
    for named in Named::every() {
        let set = |settings: &mut Settings, place: &str, name: String, value: String| {
            let bad = |reason| Error::Value { place: place.to_owned(), name, reason };
            named.slot(settings).set(&value).map_err(bad)
        };
        if let Some(value) = variable(&named.variable()) {
            set(&mut settings, "environment", named.variable(), value)?;
        }
        if let Some(value) = flag(&named.key) {
            set(&mut settings, COMMAND_LINE, format!("--{}", named.flag()), value)?;
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_override_variables_and_variables_override_the_file() {
        let file = Some(("f", "store = 'file'\nlisten = 'file'\nmemory_limit = '1GiB'"));
        let variable = |name: &str| match name {
            "SANDUR_LISTEN" | "SANDUR_STORE" => Some("variable".to_owned()),
            _ => None,
        };
        let flag = |key: &str| (key == "store").then(|| "flag".to_owned());
        let settings = layer(file, &variable, &flag).unwrap();
        let found = (settings.store.as_str(), settings.listen.as_str(), settings.memory_limit);
        assert_eq!(found, ("flag", "variable", 1 << 30));
        let bad = layer(None, &|_| None, &|k| (k == "flush.max_age").then(|| "soon".to_owned()));
        let message = bad.unwrap_err().to_string();
        assert!(message.starts_with("command line: --flush-max-age: 'soon' is not a duration"), "{message}");
    }

    #[test]
    fn the_command_line_takes_the_promised_flags() {
        let arguments =
            "serve --self-logs --store x --listen y --memory-limit 1G --config z --auth-require-tenant false";
        let matches = serve_command().try_get_matches_from(arguments.split(' ')).unwrap();
        assert_eq!(matches.get_one::<String>("self_logs").map(String::as_str), Some("true"));
        assert_eq!(matches.get_one::<String>("auth.require_tenant").map(String::as_str), Some("false"));
        assert_eq!(matches.get_one::<String>("memory_limit").map(String::as_str), Some("1G"));
    }

    #[test]
    fn shares_of_single_tenants_are_separate_flags() {
        let read = |arguments: &str| {
            load(&serve_command().try_get_matches_from(arguments.split(' ')).unwrap())
                .map_err(|e| e.to_string())
        };
        let settings =
            read("serve --cache-tenant-share 30% --cache-tenant-share a=50% --cache-tenant-share b=5%")
                .unwrap();
        assert_eq!(settings.cache.tenant_share.to_string(), "30%,a=50%,b=5%");
        let error = read("serve --cache-tenant-share 30").unwrap_err();
        assert!(error.starts_with("command line: --cache-tenant-share: '30' is not a share"), "{error}");
    }
}
