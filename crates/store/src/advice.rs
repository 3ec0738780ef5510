//! Derives the cause of a failure from the store's error text, and the remedy from the cause.
//!
//! Stores name the cause of a refusal by a code or in the message: `RequestTimeTooSkewed`, `the region
//! is wrong`. The remedy depends on that cause and not on the request: for example, the first create
//! fails if the bucket name is invalid, although that has nothing to do with creates.

use crate::cause::Cause;

/// A cause that the operator must remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The bucket or container does not exist.
    NoBucket,
    /// The bucket name is not valid.
    BucketName,
    /// The clocks of this machine and of the store differ.
    Clock,
    /// The bucket is in another region.
    Region,
    /// The request has no credentials, and anonymous access is not permitted.
    Anonymous,
    /// The access key or the account does not exist.
    UnknownKey,
    /// The secret does not match the access key.
    Secret,
    /// A temporary credential has expired.
    Expired,
    /// The credentials do not permit the operation.
    Permission,
    /// The account does not permit requests from this machine's network.
    Network,
    /// The account does not permit access by key.
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

/// Codes and texts of error responses, in order of precedence, and their causes: of S3 and compatible
/// stores, Google Cloud Storage, Azure, and the libraries below.
const WORDS: &[(&str, Fault)] = &[
    ("NoSuchBucket", NoBucket),
    ("ContainerNotFound", NoBucket),
    ("ContainerBeingDeleted", NoBucket),
    ("The specified bucket does not exist", NoBucket),
    ("InvalidBucketName", BucketName),
    ("InvalidResourceName", BucketName),
    ("RequestTimeTooSkewed", Clock),
    ("Request date header too old", Clock),
    // Google's answer to a token whose time is too early or too late.
    ("in a reasonable timeframe", Clock),
    ("a non-empty Access Key", UnknownKey),
    ("AuthorizationHeaderMalformed", Region),
    ("PermanentRedirect", Region),
    ("IllegalLocationConstraint", Region),
    ("InvalidRegion", Region),
    ("Received redirect without LOCATION", Region),
    ("InvalidAccessKeyId", UnknownKey),
    ("InvalidClientTokenId", UnknownKey),
    // versitygw's code, with status 404.
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
    /// The fault that the text of a failure names.
    pub fn named_in(reason: &str) -> Option<Self> {
        let said = without_paths(reason);
        WORDS.iter().find(|(word, _)| said.contains(word)).map(|(_, fault)| *fault)
    }

    /// The cause of the request's failure.
    pub fn cause(self) -> Cause {
        match self {
            NoBucket => Cause::NoBucket,
            // Credentials of a role are renewed, and name resolution and certificates recover.
            Expired | Host | Certificate => Cause::Unavailable,
            BucketName | Clock | Region | Anonymous | UnknownKey | Secret | Permission | Network
            | KeysForbidden | Account | EncryptionKey => Cause::Denied,
        }
    }

    /// Whether the source of the credentials is relevant.
    pub fn is_of_credentials(self) -> bool {
        match self {
            Anonymous | UnknownKey | Secret | Expired | Permission | KeysForbidden => true,
            NoBucket | BucketName | Clock | Region | Network | Account | EncryptionKey | Host
            | Certificate => false,
        }
    }

    /// The remedy, for a store with this URL.
    pub fn remedy(self, store: &str) -> &'static str {
        match self {
            NoBucket => match scheme(store) {
                "file" => "restore the store's directory",
                "az" => "create the container, or correct its name or ?account= in --store",
                _ => "create the bucket, or correct its name in --store",
            },
            BucketName => match scheme(store) {
                "gs" => "correct the bucket's name in --store: lower-case letters, digits, '-', '_' and '.'",
                "az" => "correct the container's name in --store: 3 to 63 lower-case letters, digits and '-'",
                _ => "correct the bucket's name in --store: 3 to 63 lower-case letters, digits, '-' and '.'",
            },
            Clock => {
                "set this machine's clock, for example by NTP: the store accepts no request whose time is \
                 minutes away from its own"
            }
            Region => "name the region of the bucket: ?region=.. in --store, or AWS_REGION",
            Host => "correct the endpoint, region or account in --store, or this machine's name servers",
            Certificate => {
                "install the authority of the store's certificate on this machine, or name its file in \
                 SSL_CERT_FILE; the certificate must name the host of the endpoint"
            }
            Network => "allow this machine's address in the network rules of the account",
            Account => "restore the account at the provider: it is disabled or not paid",
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

/// The remedy for a refusal without further details.
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

/// The text without URLs and paths: clients choose names of tenants, which must not be taken for codes.
pub(crate) fn without_paths(reason: &str) -> String {
    reason.split_whitespace().filter(|word| !word.contains('/')).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_texts_of_stores_lead_to_their_remedies() {
        // Texts as this crate keeps them: status, code and message.
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
        assert_eq!(Fault::named_in(reset), None, "names of tenants are ignored");
    }
}
