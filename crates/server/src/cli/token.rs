//! `sandur token`: creates credentials for the file of `--auth-file`. Secrets are printed once and not
//! stored.

use std::io::{BufRead, Read};
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use sandur_runtime::Env;
use sandur_terminal::Failed;

use sandur_http::auth::{PASSWORD_BYTES_MAX, Scopes, Tenants, new_token, password_hash, token_hash};

/// The command.
pub fn command() -> Command {
    let tenant =
        Arg::new("tenant").long("tenant").value_name("TENANT").required(true).action(ArgAction::Append).help(
            "Tenant that the token is for; may be repeated; * for every tenant, chosen by X-Scope-OrgID",
        );
    let scopes =
        Arg::new("scopes").long("scopes").value_name("SCOPES").required(true).value_delimiter(',').help(
            "Scopes of the token, separated by commas: read, write, delete, rules:read, rules:write, admin",
        );
    let name = Arg::new("name").long("name").value_name("NAME").default_value("new");
    let name = name.help("Name of the token in the file and in the audit log");
    let create = Command::new("create")
        .about("Create a token, and print it with its lines for the file of --auth-file")
        .args([tenant, scopes, name]);
    let password = Arg::new("password")
        .long("password")
        .action(ArgAction::SetTrue)
        .help("The secret is the password of a user (bcrypt), not a token (SHA-256)");
    let hash = Command::new("hash").about("Print the hash of a secret from stdin").arg(password);
    Command::new("token")
        .about("Create credentials for --auth-file")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(create)
        .subcommand(hash)
}

/// Runs the command.
pub fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let text = match matches.subcommand() {
        Some(("create", m)) => create(&env, m)?,
        Some(("hash", m)) => hash(&env, m.get_flag("password"), &mut std::io::stdin().lock())?,
        _ => unreachable!("clap requires a subcommand"),
    };
    print!("{text}");
    Ok(ExitCode::SUCCESS)
}

fn create(env: &Env, matches: &ArgMatches) -> Result<String, Failed> {
    let many = |name: &str| matches.get_many::<String>(name).unwrap_or_default().map(String::as_str);
    let tenants = Tenants::parse(many("tenant")).map_err(|e| Failed::new(format!("--tenant: {e}")))?;
    let scopes = Scopes::parse(many("scopes").map(str::trim).filter(|scope| !scope.is_empty()));
    let scopes = scopes.map_err(|e| Failed::new(format!("--scopes: {e}")))?;
    let name = matches.get_one::<String>("name").map_or("new", String::as_str);
    let bare = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    if !bare {
        return Err(Failed::new(format!("--name: '{name}' may contain only letters, digits, - and _")));
    }
    let token = new_token(env);
    Ok(format!(
        "# The token, shown once. Clients send `Authorization: Bearer` and it.\n\
         {token}\n\n\
         # For the file of --auth-file:\n\
         [tokens.{name}]\n\
         hash = \"{}\"\n\
         tenants = [{}]\n\
         scopes = [{}]\n",
        token_hash(&token),
        tenants.quoted(),
        scopes.quoted(),
    ))
}

/// The hash of the first line of `input`.
fn hash(env: &Env, password: bool, input: &mut impl BufRead) -> Result<String, Failed> {
    let mut line = String::new();
    // A secret is one line; this bounds the memory of any input.
    let read = Read::take(input, 4_096).read_line(&mut line);
    read.map_err(|e| Failed::new(format!("cannot read the secret from stdin: {e}")))?;
    let secret = line.trim_end_matches(['\n', '\r']);
    if secret.is_empty() {
        return Err(Failed::new("no secret on stdin: write it like `printf %s SECRET | sandur token hash`"));
    }
    if !password {
        return Ok(format!("{}\n", token_hash(secret)));
    }
    let hash = password_hash(env, secret).map_err(|error| {
        Failed::new(format!("{error}; bcrypt uses {PASSWORD_BYTES_MAX} bytes; use a token for more"))
    })?;
    Ok(format!("{hash}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(arguments: &str) -> Result<String, String> {
        let matches = command().try_get_matches_from(arguments.split(' ')).map_err(|e| e.to_string())?;
        let matches = matches.subcommand_matches("create").unwrap();
        create(&Env::system(1), matches).map_err(|failed| failed.message().to_owned())
    }

    #[test]
    fn the_output_of_create_is_valid_in_the_file() {
        let text = made("token create --tenant a --tenant b --scopes write,read --name agents-1").unwrap();
        let token = text.lines().nth(1).unwrap();
        let file = text.replace(token, "");
        assert!(file.contains(&token_hash(token)), "{text}");
        assert!(file.ends_with("tenants = [\"a\", \"b\"]\nscopes = [\"read\", \"write\"]\n"), "{text}");
        for (arguments, message) in [
            ("token create --tenant a/b --scopes read", "--tenant: tenant ID 'a/b'"),
            ("token create --tenant a --scopes everything", "--scopes: 'everything' is not a scope"),
            ("token create --tenant a --scopes read --name a.b", "--name: 'a.b'"),
        ] {
            assert!(made(arguments).unwrap_err().starts_with(message), "{arguments}");
        }
    }

    #[test]
    fn hashes_are_of_the_first_line() {
        let env = Env::system(1);
        let hash = |password, text: &str| hash(&env, password, &mut text.as_bytes());
        assert_eq!(hash(false, "abc\nmore").unwrap().trim_end(), token_hash("abc"));
        assert!(hash(true, "secret\r\n").unwrap().starts_with("$2b$10$"));
        for (password, text) in [(false, ""), (false, "\n"), (true, &"x".repeat(73)[..])] {
            assert!(hash(password, text).is_err(), "{text:?}");
        }
    }
}
