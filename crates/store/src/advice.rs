//! What is wrong by the store's own words, and what to do about it.
//!
//! Stores name the cause of a refusal by a code or in the message: `RequestTimeTooSkewed`, `the region is
//! wrong`. The advice goes by that cause, not by the request that met it: a bucket's name that the store does
//! not take is met by the first create, and has nothing to do with creates.

use crate::classify::{Cause, without_paths};

/// A cause that a person has to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There is no such bucket or container.
    NoBucket,
    /// No bucket can have this name.
    BucketName,
    /// The clocks of this machine and of the store differ.
    Clock,
    /// The bucket is in another region.
    Region,
    /// The request has no credentials.
    Anonymous,
    /// The key or the account is not known.
    UnknownKey,
    /// The secret does not belong to the key.
    Secret,
    /// A temporary credential has expired.
    Expired,
    /// The credentials do not allow the operation.
    Permission,
    /// The network that this machine is in is not allowed.
    Network,
    /// The account takes no keys.
    KeysForbidden,
    /// The account is disabled or not paid.
    Account,
    /// The key that encrypts the bucket cannot be used.
    EncryptionKey,
    /// The host has no address.
    Host,
    /// The certificate of the store is not trusted.
    Certificate,
}

use Fault::*;

/// Words of stores, in order of precedence, and what they mean. S3 and what speaks it, Google Cloud Storage,
/// Azure, and the libraries below.
const WORDS: &[(&str, Fault)] = &[
    ("NoSuchBucket", NoBucket),
    ("ContainerNotFound", NoBucket),
    ("ContainerBeingDeleted", NoBucket),
    ("The specified bucket does not exist", NoBucket),
    ("InvalidBucketName", BucketName),
    ("InvalidResourceName", BucketName),
    ("RequestTimeTooSkewed", Clock),
    ("Request date header too old", Clock),
    // Google's answer to a token that is made too early or too late.
    ("in a reasonable timeframe", Clock),
    ("a non-empty Access Key", UnknownKey),
    ("AuthorizationHeaderMalformed", Region),
    ("PermanentRedirect", Region),
    ("IllegalLocationConstraint", Region),
    ("InvalidRegion", Region),
    ("Received redirect without LOCATION", Region),
    ("InvalidAccessKeyId", UnknownKey),
    ("InvalidClientTokenId", UnknownKey),
    // versitygw's word, with status 404.
    ("UserNotFound", UnknownKey),
    ("account not found", UnknownKey),
    ("SignatureDoesNotMatch", Secret),
    ("is not the same as any computed signature", Secret),
    ("Invalid JWT Signature", Secret),
    ("ExpiredToken", Expired),
    ("TokenRefreshRequired", Expired),
    ("Lifetime validation failed", Expired),
    ("InvalidToken", Secret),
    ("kms:GenerateDataKey", EncryptionKey),
    ("kms:Encrypt", EncryptionKey),
    ("kms:Decrypt", EncryptionKey),
    ("KMS.", EncryptionKey),
    ("KeyVault", EncryptionKey),
    ("AuthorizationPermissionMismatch", Permission),
    ("AuthorizationSourceIPMismatch", Network),
    ("AuthorizationFailure", Network),
    ("KeyBasedAuthenticationNotPermitted", KeysForbidden),
    ("AccountIsDisabled", Account),
    ("AccountProblem", Account),
    ("AllAccessDisabled", Account),
    ("NoAuthenticationInformation", Anonymous),
    ("PublicAccessNotPermitted", Anonymous),
    ("AuthenticationRequired", Anonymous),
    ("InvalidAuthenticationInfo", Secret),
    ("AuthenticationFailed", Secret),
    ("AccessDenied", Permission),
    ("failed to lookup address", Host),
    ("dns error", Host),
    ("invalid peer certificate", Certificate),
];

impl Fault {
    /// The fault that the reason of a failure names.
    pub fn named_in(reason: &str) -> Option<Self> {
        let said = without_paths(reason);
        WORDS.iter().find(|(word, _)| said.contains(word)).map(|(_, fault)| *fault)
    }

    /// What it means for the request.
    pub fn cause(self) -> Cause {
        match self {
            NoBucket => Cause::NoBucket,
            // Credentials of a role are renewed, names come back.
            Expired | Host | Certificate => Cause::Unavailable,
            BucketName | Clock | Region | Anonymous | UnknownKey | Secret | Permission | Network
            | KeysForbidden | Account | EncryptionKey => Cause::Denied,
        }
    }

    /// Whether it matters where the credentials came from.
    pub fn is_of_credentials(self) -> bool {
        match self {
            Anonymous | UnknownKey | Secret | Expired | Permission | KeysForbidden => true,
            NoBucket | BucketName | Clock | Region | Network | Account | EncryptionKey | Host
            | Certificate => false,
        }
    }

    /// What to do, at a store with this URL.
    pub fn remedy(self, store: &str) -> &'static str {
        match self {
            NoBucket => match scheme(store) {
                "file" => "put the store's directory back",
                "az" => "create the container, or correct its name or ?account= in --store",
                _ => "create the bucket, or correct its name in --store",
            },
            BucketName => match scheme(store) {
                "gs" => "correct the bucket's name in --store: lower-case letters, digits, '-', '_' and '.'",
                "az" => "correct the container's name in --store: 3 to 63 lower-case letters, digits and '-'",
                _ => "correct the bucket's name in --store: 3 to 63 lower-case letters, digits, '-' and '.'",
            },
            Clock => {
                "set this machine's clock, for example by NTP: the store takes no request whose time is \
                 minutes away from its own"
            }
            Region => "name the region of the bucket: ?region=.. in --store, or AWS_REGION",
            Host => "correct the endpoint, region or account in --store, or this machine's name servers",
            Certificate => {
                "install the authority of the store's certificate on this machine, or name its file in \
                 SSL_CERT_FILE; the certificate must name the host of the endpoint"
            }
            Network => "allow this machine's address in the network rules of the account",
            Account => "put the account in order with the provider: it is disabled or not paid",
            EncryptionKey => {
                "enable the key that encrypts the bucket, and allow the credentials to encrypt and decrypt \
                 with it"
            }
            Anonymous => denied_remedy(store),
            UnknownKey | Secret | Expired | Permission | KeysForbidden => self.credentials_remedy(store),
        }
    }

    fn credentials_remedy(self, store: &str) -> &'static str {
        match (self, scheme(store)) {
            (UnknownKey, "s3") => {
                "correct the access key (AWS_ACCESS_KEY_ID), or the endpoint in --store: this store does not \
                 know the key"
            }
            (Secret, "s3") => {
                "correct the secret key (AWS_SECRET_ACCESS_KEY) or the token (AWS_SESSION_TOKEN): it does \
                 not belong to the access key; a proxy that changes requests looks the same"
            }
            (Expired, "s3") => {
                "renew AWS_SESSION_TOKEN together with its keys; those of a role renew themselves"
            }
            (Permission, "s3") => {
                "allow this access key s3:GetObject, s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload \
                 and s3:ListBucket in this bucket"
            }
            (UnknownKey | Secret, "gs") => {
                "set GOOGLE_SERVICE_ACCOUNT to a key file of a service account that exists, whose key is \
                 valid"
            }
            (Permission, "gs") => {
                "give the service account the role Storage Object Admin (roles/storage.objectAdmin) in this \
                 bucket"
            }
            (UnknownKey | Secret, "az") => {
                "correct ?account= in --store and AZURE_STORAGE_ACCOUNT_KEY: the key does not belong to the \
                 account"
            }
            (Permission, "az") => {
                "give the identity the role Storage Blob Data Contributor in this container"
            }
            (KeysForbidden, "az") => {
                "attach an identity to this machine, or allow access by key in the account: it is switched \
                 off"
            }
            (Expired, _) => "renew the credentials: they have expired",
            (_, _) => denied_remedy(store),
        }
    }
}

/// What to do about a refusal that says no more than that.
pub(crate) fn denied_remedy(store: &str) -> &'static str {
    match scheme(store) {
        "file" => "give this user read and write permission on the directory",
        "s3" => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or attach a role) that may get, put, \
             list and delete in this bucket"
        }
        "gs" => "set GOOGLE_SERVICE_ACCOUNT (or attach a service account) with Storage Object Admin",
        "az" => {
            "give ?account=.. and set AZURE_STORAGE_ACCOUNT_KEY (or attach an identity) that may \
             read, write, list and delete"
        }
        _ => "check the credentials",
    }
}

fn scheme(store: &str) -> &str {
    store.split(':').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_of_a_store_has_its_own_advice() {
        // Reasons as this crate keeps them: status, code and message.
        for (reason, store, part) in [
            ("status code: 404 Not Found, NoSuchBucket, The specified bucket", "s3://b", "create the bucket"),
            (
                "status code: 400 Bad Request, InvalidBucketName, not valid",
                "s3://B_",
                "correct the bucket's name",
            ),
            ("status code: 403 Forbidden, RequestTimeTooSkewed, too large", "s3://b", "clock"),
            ("status code: 400, AuthorizationHeaderMalformed, the region is wrong", "s3://b", "?region="),
            (
                "status code: 400, AuthorizationHeaderMalformed, a non-empty Access Key",
                "s3://b",
                "AWS_ACCESS_KEY_ID",
            ),
            ("Received redirect without LOCATION, this normally", "s3://b", "?region="),
            ("status code: 403 Forbidden, SignatureDoesNotMatch, x", "s3://b", "AWS_SECRET_ACCESS_KEY"),
            ("status code: 403 Forbidden, InvalidAccessKeyId, x", "s3://b", "AWS_ACCESS_KEY_ID"),
            ("status code: 404 Not Found, UserNotFound, x", "s3://b", "AWS_ACCESS_KEY_ID"),
            ("status code: 403 Forbidden, AccessDenied, x", "s3://b", "s3:PutObject"),
            ("status code: 403, AccessDenied, not authorized to perform: kms:Decrypt", "s3://b", "encrypt"),
            ("status code: 400 Bad Request, ExpiredToken, x", "s3://b", "AWS_SESSION_TOKEN"),
            ("status code: 403 Forbidden, AccessDenied, x", "gs://b", "roles/storage.objectAdmin"),
            ("invalid_grant: Token must be short-lived and in a reasonable timeframe", "gs://b", "clock"),
            ("invalid_grant: Invalid JWT Signature.", "gs://b", "GOOGLE_SERVICE_ACCOUNT"),
            ("status code: 404 Not Found, ContainerNotFound, x", "az://c", "create the container"),
            ("status code: 400, InvalidResourceName, x", "az://C", "container's name"),
            ("403, AuthenticationFailed, x, Request date header too old: 'Mon'", "az://c", "clock"),
            (
                "403, AuthenticationFailed, Server failed to authenticate",
                "az://c",
                "AZURE_STORAGE_ACCOUNT_KEY",
            ),
            ("403, AuthorizationPermissionMismatch, x", "az://c", "Storage Blob Data Contributor"),
            ("403, AuthorizationFailure, x", "az://c", "network rules"),
            ("403, KeyBasedAuthenticationNotPermitted, x", "az://c", "attach an identity"),
            ("error trying to connect: dns error: failed to lookup", "az://c", "account in --store"),
        ] {
            let remedy = Fault::named_in(reason).unwrap_or_else(|| panic!("{reason}")).remedy(store);
            assert!(remedy.contains(part), "{reason}: {remedy}");
        }
        assert_eq!(Fault::named_in("status code: 403 Forbidden"), None);
        let reset = "error sending request for url (http://kms:1/b/blocks/AccessDenied/1): connection reset";
        assert_eq!(Fault::named_in(reset), None, "a tenant may have any name");
    }
}
