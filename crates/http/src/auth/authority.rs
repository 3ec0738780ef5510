//! The present credentials: read from the file at the start and reloaded when it changes.
//!
//! A file that becomes invalid, empty or unreadable changes nothing; the error is logged once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sandur_base::small_file;
use sandur_runtime::Env;
use tokio::sync::Semaphore;

use super::credential::Credential;
use super::credentials::{Credentials, User};
use super::file::{self, Error, FILE_BYTES_MAX};
use super::refusal::Refusal;
use super::secret::{self, Digest, PASSWORD_BYTES_MAX};
use super::session_cookie;

/// Interval at which the file is read: the time for which a removed credential still works.
const RELOAD_EVERY: Duration = Duration::from_secs(2);
/// Maximum number of passwords that wait to be checked: one takes about 50 ms, so the last waits about
/// three seconds.
const WAITING_MAX: usize = 64;
/// Maximum length of a token.
const TOKEN_BYTES_MAX: usize = 512;

/// Verifies credentials of requests.
pub struct Authority {
    env: Env,
    path: String,
    /// Hash of the file's first content.
    first: Digest,
    current: RwLock<Arc<Credentials>>,
    /// One password is checked at a time, so that guessing uses at most one processor.
    turn: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Authority {
    /// Reads the file for the first time.
    pub async fn open(env: Env, path: &str) -> Result<Self, Error> {
        let text = read(&env, path).await?;
        let credentials = Credentials::new(&env, file::read(path, &text)?);
        Ok(Self {
            env,
            path: path.to_owned(),
            first: secret::sha256(text.as_bytes()),
            current: RwLock::new(Arc::new(credentials)),
            turn: Arc::new(Semaphore::new(1)),
            waiting: AtomicUsize::new(0),
        })
    }

    /// Number of credentials.
    pub fn count(&self) -> usize {
        self.current().count()
    }

    fn current(&self) -> Arc<Credentials> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reloads the file when it changes; never returns.
    pub async fn follow(self: Arc<Self>) {
        let mut known = Ok(self.first);
        loop {
            self.env.sleep(RELOAD_EVERY).await;
            let text = read(&self.env, &self.path).await;
            let seen = text.as_ref().map(|text| secret::sha256(text.as_bytes())).map_err(Error::clone);
            if known == seen {
                continue;
            }
            match text.and_then(|text| file::read(&self.path, &text)) {
                Ok(listed) => {
                    let credentials = Arc::new(Credentials::new(&self.env, listed));
                    tracing::info!(path = self.path, count = credentials.count(), "credentials reloaded");
                    *self.current.write().unwrap_or_else(PoisonError::into_inner) = credentials;
                }
                Err(error) => tracing::error!(%error, "cannot reload credentials; the old ones stay in use"),
            }
            known = seen;
        }
    }

    /// Whether a credential that was verified before is still in the file, with the same permissions.
    pub fn stands(&self, credential: &Credential) -> bool {
        self.current().lists(credential)
    }

    /// Verifies the credential of a request.
    pub async fn verify(&self, headers: &HeaderMap) -> Result<Arc<Credential>, Refusal> {
        let mut given = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (given.next(), given.next()) else {
            if headers.contains_key(header::AUTHORIZATION) {
                return Err(Refusal::Malformed);
            }
            return session_cookie::token(headers).map_or(Err(Refusal::Missing), |token| self.token(&token));
        };
        let value = value.to_str().map_err(|_| Refusal::Malformed)?;
        let (scheme, rest) = value.trim().split_once(' ').ok_or(Refusal::Malformed)?;
        match scheme.to_ascii_lowercase().as_str() {
            "bearer" => self.token(rest.trim()),
            "basic" => self.password(rest.trim()).await,
            _ => Err(Refusal::Malformed),
        }
    }

    fn token(&self, token: &str) -> Result<Arc<Credential>, Refusal> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Refusal::Unknown);
        }
        self.current().token(token).ok_or(Refusal::Unknown)
    }

    async fn password(&self, encoded: &str) -> Result<Arc<Credential>, Refusal> {
        let decoded = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let decoded = decoded.ok_or(Refusal::Malformed)?;
        let (name, password) = decoded.split_once(':').ok_or(Refusal::Malformed)?;
        if password.len() > PASSWORD_BYTES_MAX {
            return Err(Refusal::Unknown);
        }
        let credentials = self.current();
        let (user, keyed) = (credentials.user(name), credentials.keyed(password));
        if let Some(credential) = user.recall(&keyed) {
            return Ok(credential);
        }
        self.slowly(user, password.to_owned(), keyed).await
    }

    /// Waits for a turn and checks the password, unless another request verified it meanwhile.
    async fn slowly(
        &self,
        user: Arc<User>,
        password: String,
        keyed: Digest,
    ) -> Result<Arc<Credential>, Refusal> {
        let _waiting = Waiting::enter(&self.waiting)?;
        let turn = Arc::clone(&self.turn).acquire_owned().await.expect("the semaphore is never closed");
        if let Some(credential) = user.recall(&keyed) {
            return Ok(credential);
        }
        let job = move || {
            // The turn lasts as long as the work, even if the client disconnects.
            let _turn = turn;
            user.check(&password, keyed)
        };
        self.env.run_blocking(job).await.ok_or(Refusal::Unknown)
    }
}

/// A place in the queue of passwords.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize) -> Result<Self, Refusal> {
        let place = Self(count);
        if count.fetch_add(1, Ordering::Relaxed) >= WAITING_MAX { Err(Refusal::Busy) } else { Ok(place) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Reads the text of the file.
async fn read(env: &Env, path: &str) -> Result<String, Error> {
    let owned = path.to_owned();
    let text = env.run_blocking(move || small_file::read_text(owned, FILE_BYTES_MAX)).await;
    text.map_err(|error| Error::Unreadable { path: path.to_owned(), reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::secret::token_hash;
    use crate::auth::{Scope, Tenants};

    fn token(name: &str, token: &str) -> String {
        format!("[tokens.{name}]\nhash = '{}'\ntenants = ['a']\nscopes = ['read']\n", token_hash(token))
    }

    fn user(name: &str, password: &str) -> String {
        let hash = bcrypt::hash_with_salt(password, 4, [7; 16]).unwrap();
        format!("[users.{name}]\npassword = '{hash}'\ntenants = ['*']\nscopes = ['write']\n")
    }

    fn basic(pair: &str) -> HeaderMap {
        headers(&format!("Basic {}", STANDARD.encode(pair)))
    }

    fn headers(authorization: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::AUTHORIZATION, authorization.parse().unwrap())])
    }

    struct Kept {
        directory: tempfile::TempDir,
        env: Env,
    }

    impl Kept {
        fn new(text: &str) -> Self {
            let kept = Self { directory: tempfile::tempdir().unwrap(), env: Env::simulated(1, 0) };
            kept.write(text);
            kept
        }

        fn path(&self) -> std::path::PathBuf {
            self.directory.path().join("auth.toml")
        }

        fn write(&self, text: &str) {
            std::fs::write(self.path(), text).unwrap();
        }

        async fn open(&self) -> Result<Arc<Authority>, Error> {
            Authority::open(self.env.clone(), self.path().to_str().unwrap()).await.map(Arc::new)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_and_passwords_are_verified_and_everything_else_is_refused() {
        let kept = Kept::new(&(token("t", "secret-token") + &user("u", "pass:word")));
        let authority = kept.open().await.unwrap();
        let verify = async |headers: HeaderMap| authority.verify(&headers).await.map(|c| c.name.clone());
        for scheme in ["Bearer", "bearer", "BEARER", "Bearer  "] {
            let found = verify(headers(&format!("{scheme} secret-token"))).await;
            assert_eq!(found.as_deref(), Ok("token t"), "{scheme}");
        }
        assert_eq!(verify(basic("u:pass:word")).await.as_deref(), Ok("user u"));
        assert_eq!(verify(HeaderMap::new()).await, Err(Refusal::Missing));
        for unknown in ["Bearer other", "Bearer secret-toke", &format!("Bearer {}", "x".repeat(60_000))] {
            assert_eq!(verify(headers(unknown)).await, Err(Refusal::Unknown), "{unknown:.20}");
        }
        let long = format!("u:pass:word{}", "x".repeat(70));
        for unknown in ["u:pass", "u:", "stranger:pass:word", ":", "u:pass:word\0", &long] {
            assert_eq!(verify(basic(unknown)).await, Err(Refusal::Unknown), "{unknown:?}");
        }
        for malformed in ["", "Bearer", "secret-token", "Digest x", "Basic ***", "Basic dXNlcg=="] {
            assert_eq!(verify(headers(malformed)).await, Err(Refusal::Malformed), "{malformed}");
        }
        let mut two = headers("Bearer secret-token");
        two.append(header::AUTHORIZATION, "Bearer other".parse().unwrap());
        assert_eq!(verify(two).await, Err(Refusal::Malformed), "a proxy may have checked only one of them");
    }

    #[tokio::test(start_paused = true)]
    async fn a_password_is_hashed_slowly_once_and_at_most_one_at_a_time() {
        let kept = Kept::new(&(token("t", "secret-token") + &user("u", "right")));
        let authority = kept.open().await.unwrap();
        let keyed = |password| authority.current().keyed(password);
        let recalled = |password| authority.current().user("u").recall(&keyed(password)).is_some();
        assert!(
            authority.verify(&basic("u:wrong")).await.is_err() && !recalled("wrong") && !recalled("right")
        );
        assert!(authority.verify(&basic("u:right")).await.is_ok() && recalled("right") && !recalled("wrong"));

        let turn = Arc::clone(&authority.turn).try_acquire_owned().unwrap();
        let guess = |n| {
            let authority = Arc::clone(&authority);
            kept.env.spawn("guess", async move { authority.verify(&basic(&format!("u:{n}"))).await })
        };
        let guesses: Vec<_> = (0..WAITING_MAX).map(guess).collect();
        kept.env.sleep(Duration::from_millis(1)).await;
        assert_eq!(authority.verify(&basic("u:one more")).await, Err(Refusal::Busy));
        assert!(authority.verify(&basic("u:right")).await.is_ok(), "known passwords do not wait for guesses");
        assert!(authority.verify(&headers("Bearer secret-token")).await.is_ok(), "tokens do not wait either");
        drop(guesses);
        kept.env.sleep(Duration::from_millis(1)).await;
        drop(turn);
        assert_eq!(
            authority.verify(&basic("u:one more")).await,
            Err(Refusal::Unknown),
            "a client that leaves frees its place"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_file_is_read_again_and_a_bad_one_changes_nothing() {
        let kept = Kept::new(&(token("old", "old-token") + &user("u", "old-password")));
        let authority = kept.open().await.unwrap();
        assert!(authority.verify(&basic("u:old-password")).await.is_ok());
        let _following = kept.env.spawn("credentials", Arc::clone(&authority).follow());
        let knows = async |authorization: HeaderMap| {
            kept.env.sleep(RELOAD_EVERY * 2).await;
            authority.verify(&authorization).await.is_ok()
        };
        assert!(knows(headers("Bearer old-token")).await);
        let good = token("new", "new-token") + &user("u", "new-password");
        for damaged in
            ["", "# nobody\n", "[tokens", &good.replace("read", "raed"), &good.replace("$2b$", "$3$")]
        {
            kept.write(damaged);
            assert!(knows(headers("Bearer old-token")).await, "{damaged}");
        }
        std::fs::remove_file(kept.path()).unwrap();
        assert!(knows(headers("Bearer old-token")).await, "the file is gone");
        kept.write(&good);
        assert!(knows(headers("Bearer new-token")).await);
        assert!(!knows(headers("Bearer old-token")).await);
        assert!(knows(basic("u:new-password")).await && !knows(basic("u:old-password")).await);
        let credential = authority.verify(&headers("Bearer new-token")).await.unwrap();
        assert!(credential.scopes.has(Scope::Read) && credential.tenants != Tenants::Every);
    }

    #[tokio::test(start_paused = true)]
    async fn an_invalid_file_prevents_the_start() {
        let kept = Kept::new("");
        assert!(matches!(kept.open().await, Err(Error::Wrong { .. })));
        kept.write(&"# long\n".repeat(1 << 20));
        let refused = kept.open().await;
        let is_too_large = |reason: &str| reason.contains("larger than");
        assert!(matches!(refused, Err(Error::Unreadable { reason, .. }) if is_too_large(&reason)));
        std::fs::remove_file(kept.path()).unwrap();
        assert!(matches!(kept.open().await, Err(Error::Unreadable { .. })));
    }
}
