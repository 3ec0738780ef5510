//! The credentials of one version of the file, looked up by token or user.
//!
//! Tokens are looked up by a keyed hash of their hash, so that timing does not help to guess one. A
//! password is verified slowly once; afterwards it is compared with a keyed hash of the last correct one,
//! so one hash per user is remembered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sandur_runtime::Env;

use super::credential::Credential;
use super::file::Listed;
use super::scope::Scopes;
use super::secret::{self, Digest, KeyedHash};
use super::tenants::Tenants;

/// A user with a password hash.
pub struct User {
    credential: Arc<Credential>,
    hash: String,
    /// Keyed hash of the last correct password.
    verified: Mutex<Option<Digest>>,
}

impl User {
    fn new(credential: Credential, hash: String) -> Self {
        Self { credential: Arc::new(credential), hash, verified: Mutex::default() }
    }

    /// Returns the credential if this password was correct before.
    pub fn recall(&self, keyed: &Digest) -> Option<Arc<Credential>> {
        let verified = *self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        verified.is_some_and(|known| secret::same(&known, keyed)).then(|| Arc::clone(&self.credential))
    }

    /// Verifies the password slowly, and remembers it if it is correct.
    pub fn check(&self, password: &str, keyed: Digest) -> Option<Arc<Credential>> {
        if !secret::verify_password(password, &self.hash) {
            return None;
        }
        *self.verified.lock().unwrap_or_else(PoisonError::into_inner) = Some(keyed);
        Some(Arc::clone(&self.credential))
    }
}

/// All credentials of one version of the file.
pub struct Credentials {
    keyed: KeyedHash,
    tokens: HashMap<Digest, (Digest, Arc<Credential>)>,
    users: HashMap<String, Arc<User>>,
    named: HashMap<String, Arc<Credential>>,
    stranger: Arc<User>,
}

impl Credentials {
    /// The credentials that the file lists.
    pub fn new(env: &Env, listed: Listed) -> Self {
        let keyed = KeyedHash::new(env);
        let token =
            |(digest, credential): (Digest, Credential)| (keyed.of(&digest), (digest, Arc::new(credential)));
        let tokens: HashMap<_, _> = listed.tokens.into_iter().map(token).collect();
        let user = |(name, hash, credential)| (name, Arc::new(User::new(credential, hash)));
        let users: HashMap<_, _> = listed.users.into_iter().map(user).collect();
        let of_tokens = tokens.values().map(|(_, credential)| credential);
        let of_users = users.values().map(|user: &Arc<User>| &user.credential);
        let named = of_tokens.chain(of_users).map(|one| (one.name.clone(), Arc::clone(one))).collect();
        let nobody = Credential {
            name: "nobody".to_owned(),
            tenants: Tenants::Named(Vec::new()),
            scopes: Scopes::default(),
            fingerprint: secret::sha256(b""),
        };
        let stranger = Arc::new(User::new(nobody, secret::HASH_WITHOUT_PASSWORD.to_owned()));
        Self { keyed, tokens, users, named, stranger }
    }

    /// Number of credentials.
    pub fn count(&self) -> usize {
        self.tokens.len() + self.users.len()
    }

    /// Whether the credential, of this or an earlier version, is listed with the same secret and
    /// permissions.
    pub fn lists(&self, credential: &Credential) -> bool {
        self.named.get(&credential.name).is_some_and(|listed| **listed == *credential)
    }

    /// The credential of a token.
    pub fn token(&self, token: &str) -> Option<Arc<Credential>> {
        let digest = secret::sha256(token.as_bytes());
        let (known, credential) = self.tokens.get(&self.keyed.of(&digest))?;
        secret::same(known, &digest).then(|| Arc::clone(credential))
    }

    /// The user with this name, or a dummy user, which takes the same time to check.
    pub fn user(&self, name: &str) -> Arc<User> {
        Arc::clone(self.users.get(name).unwrap_or(&self.stranger))
    }

    /// The keyed hash that [`User::recall`] compares.
    pub fn keyed(&self, password: &str) -> Digest {
        self.keyed.of(password.as_bytes())
    }
}
