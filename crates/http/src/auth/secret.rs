//! Creates, hashes and compares tokens and passwords.
//!
//! A token is 256 random bits, which cannot be guessed, so its plain SHA-256 is safe to store. Passwords
//! are chosen by users and need bcrypt, which is slow on purpose (`htpasswd -B` creates the same hashes).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::{digest, hmac};
use sandur_runtime::Env;
use subtle::ConstantTimeEq;

/// Prefix of tokens, by which users and secret scanners recognise them.
const TOKEN_PREFIX: &str = "sandur_";
/// Prefix of a token's hash in the file.
const TOKEN_HASH_PREFIX: &str = "sha256:";
/// Maximum length of a password: bcrypt ignores further bytes.
pub const PASSWORD_BYTES_MAX: usize = 72;
/// 2^10 rounds, about 50 ms: the default of `htpasswd` and most libraries.
const COST: u32 = 10;
/// 2^14 rounds take about a second; a higher cost would let one request occupy a thread for hours.
const COST_MAX: u32 = 14;
const COST_MIN: u32 = 4;

/// SHA-256 of a secret.
pub type Digest = [u8; 32];

/// Creates a token. It is printed once and not stored.
pub fn new_token(env: &Env) -> String {
    format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(env.secret::<32>()))
}

/// The hash of a token, as in the file.
pub fn token_hash(token: &str) -> String {
    let hex: String = sha256(token.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{TOKEN_HASH_PREFIX}{hex}")
}

/// The hash of a password, as in the file. The error says why the password is not allowed.
pub fn password_hash(env: &Env, password: &str) -> Result<String, String> {
    if password.is_empty() || password.len() > PASSWORD_BYTES_MAX || password.contains('\0') {
        return Err(format!("a password must have 1 to {PASSWORD_BYTES_MAX} bytes and no zero byte"));
    }
    let parts = bcrypt::hash_with_salt(password, COST, env.secret::<16>()).map_err(|e| e.to_string())?;
    Ok(parts.to_string())
}

/// Parses the hash of a token.
pub fn read_token_hash(text: &str) -> Result<Digest, String> {
    let wrong = || {
        format!("a token's hash is '{TOKEN_HASH_PREFIX}' and 64 hex digits: `sandur token hash` creates one")
    };
    let hex = text.strip_prefix(TOKEN_HASH_PREFIX).ok_or_else(wrong)?;
    if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
    }
    Ok(digest)
}

/// Checks that the text is a bcrypt hash that can be verified in bounded time.
pub fn check_password_hash(text: &str) -> Result<(), String> {
    let parts: bcrypt::HashParts = text.parse().map_err(|_| {
        "a password's hash is a bcrypt hash, '$2y$10$..': `sandur token hash --password` or `htpasswd -nB` \
         creates one"
            .to_owned()
    })?;
    let cost = parts.get_cost();
    if !(COST_MIN..=COST_MAX).contains(&cost) {
        return Err(format!("the cost {cost} of this hash is not between {COST_MIN} and {COST_MAX}"));
    }
    Ok(())
}

/// Whether the password matches the hash. Takes tens of milliseconds or more.
pub fn verify_password(password: &str, hash: &str) -> bool {
    !password.contains('\0') && bcrypt::non_truncating_verify(password, hash).unwrap_or(false)
}

/// A hash of the usual cost that no password matches, so that unknown names take as long as users. Its
/// salt and its 184 bits are zero.
pub const HASH_WITHOUT_PASSWORD: &str = "$2b$10$.....................................................";

/// SHA-256.
pub fn sha256(bytes: &[u8]) -> Digest {
    let digest = digest::digest(&digest::SHA256, bytes);
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Compares in constant time.
pub fn same(a: &Digest, b: &Digest) -> bool {
    a.ct_eq(b).into()
}

/// A keyed hash with a random key per process, so that its values cannot be predicted outside.
pub struct KeyedHash(hmac::Key);

impl KeyedHash {
    /// With a new random key.
    pub fn new(env: &Env) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, &env.secret::<32>()))
    }

    /// The hash.
    pub fn of(&self, bytes: &[u8]) -> Digest {
        hmac::sign(&self.0, bytes).as_ref().try_into().expect("HMAC-SHA-256 has 32 bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_random_and_their_hashes_are_plain_sha256() {
        let env = Env::system(1);
        let token = new_token(&env);
        assert!(token.len() == 50 && token.starts_with("sandur_") && token != new_token(&env), "{token}");
        assert_eq!(read_token_hash(&token_hash(&token)), Ok(sha256(token.as_bytes())));
        // FIPS 180-4, the example "abc".
        let abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(token_hash("abc"), abc);
        for bad in ["", "sha256:", &abc[7..], &abc[..70], &abc.replace('b', "g"), &format!("{abc}0")] {
            assert!(read_token_hash(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn hashes_of_htpasswd_are_read_and_slow_ones_refused() {
        // htpasswd -nbB user secret
        let theirs = "$2y$05$6PrUh9cQXEmd0IPGCIVPNuuwNC2q3nlUXsG3dCNr6BLkZp4uGUlcu";
        check_password_hash(theirs).unwrap();
        let env = Env::system(1);
        let ours = password_hash(&env, "secret").unwrap();
        check_password_hash(&ours).unwrap();
        assert!(verify_password("secret", &ours) && !verify_password("Secret", &ours));
        assert!(!verify_password("secret\0", &ours) && !verify_password(&"s".repeat(73), &ours));
        let slow = check_password_hash(&theirs.replace("$05$", "$31$")).unwrap_err();
        assert!(slow.contains("between 4 and 14"), "{slow}");
        check_password_hash(HASH_WITHOUT_PASSWORD).unwrap();
        assert!(bcrypt::non_truncating_verify("", HASH_WITHOUT_PASSWORD).is_ok_and(|same| !same));
        for bad in ["", "secret", "$2y$10$short", "$1$abc$def"] {
            assert!(check_password_hash(bad).is_err(), "{bad}");
        }
        for bad in ["", &"x".repeat(73), "a\0b"] {
            assert!(password_hash(&env, bad).is_err(), "{bad:?}");
        }
    }
}
