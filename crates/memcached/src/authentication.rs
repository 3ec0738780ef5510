//! Authentication of clients: the user file of the text protocol, and SASL PLAIN of the binary protocol.
//!
//! Invariants: the time to compare passwords does not depend on where they differ. If the file cannot be
//! read or has an invalid line, the server does not start. A reload that fails keeps the present users.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sandur_base::small_file;
use sandur_runtime::environment;

use super::error::Error;
use super::settings::Settings;

/// The largest number of users in a file.
const USERS_MAX: usize = 1024;
/// The largest size of a file in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The users that may authenticate.
#[derive(Debug, Default)]
pub(super) struct Users {
    file: Option<(PathBuf, Form)>,
    users: Mutex<Vec<User>>,
}

/// The format of a line after the user's name.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// The password.
    Plain,
    /// The password and further fields, separated by colons.
    Database,
}

struct User {
    name: Box<[u8]>,
    password: Box<[u8]>,
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "User({})", String::from_utf8_lossy(&self.name))
    }
}

impl Users {
    /// Loads the users of the configured file. Without a file there are none.
    pub fn load(settings: &Settings) -> Result<Self, Error> {
        let sasl_file = || environment::variable("MEMCACHED_SASL_PWDB").map(PathBuf::from);
        let file = if settings.sasl {
            sasl_file().map(|path| (path, Form::Database))
        } else {
            settings.auth_file.clone().map(|path| (path, Form::Plain))
        };
        let users = match &file {
            Some((path, form)) => read(path, *form)?,
            None => Vec::new(),
        };
        Ok(Self { file, users: Mutex::new(users) })
    }

    /// Whether there are no users.
    pub fn is_empty(&self) -> bool {
        self.users.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Reads the file again.
    pub fn reload(&self) -> Result<(), Error> {
        if let Some((path, form)) = &self.file {
            let users = read(path, *form)?;
            *self.users.lock().unwrap_or_else(PoisonError::into_inner) = users;
        }
        Ok(())
    }

    /// Returns whether there is a user with this name and password.
    pub fn check(&self, name: &[u8], password: &[u8]) -> bool {
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        // every entry is compared, so that the time does not reveal the position of a match
        users
            .iter()
            .fold(false, |found, user| found | (same(&user.name, name) & same(&user.password, password)))
    }

    /// Checks a message of SASL PLAIN (RFC 4616): authorization id, name and password, separated by zero
    /// bytes. A name may have a realm after `@`.
    pub fn check_plain(&self, message: &[u8]) -> bool {
        let mut parts = message.splitn(3, |byte| *byte == 0);
        let (Some(_), Some(name), Some(password)) = (parts.next(), parts.next(), parts.next()) else {
            return false;
        };
        let bare = name.split(|byte| *byte == b'@').next().unwrap_or(name);
        self.check(name, password) | self.check(bare, password)
    }
}

fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |bits, (a, b)| bits | (a ^ b)) == 0
}

fn read(path: &Path, form: Form) -> Result<Vec<User>, Error> {
    let failed = |reason: String| Error::UserFile { path: path.to_owned(), reason };
    let text = small_file::read(path, FILE_BYTES_MAX).map_err(|error| failed(error.to_string()))?;
    let mut users = Vec::new();
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let wrong = |what: &str| Err(failed(format!("line {number} {what}; lines are user:password")));
        let Some(colon) = memchr::memchr(b':', line) else {
            return wrong("is malformed");
        };
        let rest = &line[colon + 1..];
        let password = match form {
            Form::Plain => rest,
            Form::Database => rest.split(|byte| *byte == b':').next().unwrap_or_default(),
        };
        // An empty password would admit every client that sends none.
        if colon == 0 || password.is_empty() {
            return wrong(if colon == 0 { "has no user" } else { "has no password" });
        }
        users.push(User { name: line[..colon].into(), password: password.into() });
        if users.len() > USERS_MAX {
            return Err(failed(format!("it has more than {USERS_MAX} users")));
        }
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn users(text: &str) -> Result<Users, Error> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("users");
        fs::write(&file, text).unwrap();
        Users::load(&Settings { auth_file: Some(file), ..Settings::default() })
    }

    #[test]
    fn users_of_the_file_are_accepted() {
        let users = users("foo:bar\r\nbaaaz:qu:ux\nlast:one").unwrap();
        assert!(
            users.check(b"foo", b"bar") && users.check(b"baaaz", b"qu:ux") && users.check(b"last", b"one")
        );
        for (name, password) in [("foo", "bab"), ("foo", ""), ("", ""), ("foo", "bar "), ("fo", "bar")] {
            assert!(!users.check(name.as_bytes(), password.as_bytes()), "{name}:{password}");
        }
        assert!(users.check_plain(b"\0foo\0bar") && users.check_plain(b"id\0foo@realm\0bar"));
        for message in ["foo\0bar", "\0foo\0bab", "", "\0\0"] {
            assert!(!users.check_plain(message.as_bytes()), "{message:?}");
        }
    }

    #[test]
    fn an_empty_user_or_password_fails_the_start_and_names_the_line() {
        for (text, message) in [
            ("foo:bar\n\nbaz:\n", "line 3 has no password"),
            (":secret\n", "line 1 has no user"),
            ("foo:bar\r\n:\r\n", "line 2 has no user"),
            ("foo:\r\n", "line 1 has no password"),
        ] {
            let error = users(text).unwrap_err().to_string();
            assert!(error.contains(message), "{text:?}: {error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("users");
        fs::write(&file, "foo::more").unwrap();
        assert!(read(&file, Form::Database).is_err(), "the password is the text between the colons");
    }

    #[test]
    fn an_invalid_or_missing_file_fails_the_start() {
        let error = users("foo:bar\nnonsense\n").unwrap_err().to_string();
        assert!(error.contains("line 2 is malformed"), "{error}");
        let missing = Settings { auth_file: Some("/nonexistent/users".into()), ..Settings::default() };
        assert!(Users::load(&missing).is_err());
    }
}
