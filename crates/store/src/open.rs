//! Opens the store of a URL and checks that it works.
//!
//! Retries and timeouts of `object_store` are disabled, except for a last timeout, because this crate
//! implements both. Credentials come from the environment variables of each service, from key files and
//! from the machine's role, by the rules of `object_store`'s builders; those of S3 by
//! [`crate::aws_chain`].

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{BackoffConfig, ClientOptions, HeaderValue, ObjectStore, RetryConfig};
use sandur_runtime::{Env, environment};

use crate::advice::{Fault, denied_remedy};
use crate::aws_chain::{self, Chain};
use crate::classify::classify;
use crate::connector::Listening;
use crate::directory::Directory;
use crate::error::Error;
use crate::options::{Access, StoreOptions};
use crate::probe::probe;
use crate::request::{Multipart, Requester};
use crate::store::{Store, StoreKind};
use crate::url::{Location, Service, Settings};

/// Ends requests that no other timeout has ended.
const BACKSTOP: Duration = Duration::from_secs(300);

impl Store {
    /// Checks the form of a URL without opening the store.
    pub fn check_url(url: &str) -> Result<(), Error> {
        Location::parse(url).map(drop)
    }

    /// Opens the store at `url` (see the crate's documentation for the forms), locks a local directory,
    /// and checks that the store has the necessary capabilities.
    pub async fn open(url: &str, env: Env, options: StoreOptions) -> Result<Store, Error> {
        let location = Location::parse(url)?;
        let shown: Arc<str> = location.url().into();
        let mut tried = None;
        let (requester, kind) = match &location {
            Location::Memory => {
                let requester =
                    Requester::new(Arc::new(InMemory::new()), env, shown, &options.request_limits);
                (requester, StoreKind::Memory)
            }
            Location::Bucket { service, bucket, prefix, settings } => {
                let chain = credentials(&env, *service, settings, &shown).await?;
                let connected = connect(*service, bucket, settings, chain.as_ref());
                let connected = connected.map_err(|e| unconnected(e, &shown))?;
                tried = chain.map(|chain| chain.tried);
                let requester =
                    Requester::new(below(connected.objects, prefix), env, shown, &options.request_limits);
                let multipart = Multipart { store: connected.parts, prefix: Path::from(prefix.as_str()) };
                (requester.with_multipart(multipart), StoreKind::Bucket)
            }
            Location::Directory(path) => {
                let (path, url, access) = (path.clone(), Arc::clone(&shown), options.access);
                let opened = env.run_blocking(move || open_directory(&path, &url, access)).await?;
                let (directory, objects) = opened;
                let root = directory.root().to_owned();
                (
                    Requester::local(directory, objects, env, shown, &options.request_limits),
                    StoreKind::Local { root },
                )
            }
        };
        let requester = Arc::new(requester);
        if options.probe && options.access == Access::ReadWrite {
            match probe(&requester).await {
                // What exists can be read; writes are attempted when there are some.
                Err(error @ (Error::Full { .. } | Error::ReadOnly { .. }))
                    if requester.directory.is_some() =>
                {
                    tracing::error!(%error, "the store can only be read now");
                }
                Err(error) => {
                    return Err(match tried {
                        Some(tried) => error.with_credentials(&tried),
                        None => error,
                    });
                }
                Ok(()) => {}
            }
        }
        Ok(Store::over(requester, kind, options))
    }
}

/// Finds the credentials of S3. The builders of the other services find their own.
async fn credentials(
    env: &Env,
    service: Service,
    settings: &Settings,
    url: &Arc<str>,
) -> Result<Option<Chain>, Error> {
    if service != Service::S3 || settings.skip_signature == Some(true) {
        return Ok(None);
    }
    let chain = env.run_blocking(aws_chain::look).await;
    chain.map(Some).map_err(|tried| Error::Invalid {
        reason: format!("{url} cannot be opened: no credentials: {tried}; {}", denied_remedy(url)),
    })
}

fn open_directory(
    path: &std::path::Path,
    url: &Arc<str>,
    access: Access,
) -> Result<(Directory, Arc<dyn ObjectStore>), Error> {
    let directory = match access {
        Access::ReadWrite => Directory::open_exclusive(path, url)?,
        Access::ReadOnly => Directory::open_shared(path, url)?,
    };
    let files = LocalFileSystem::new_with_prefix(directory.root()).map_err(|e| unconnected(e, url))?;
    Ok((directory, Arc::new(files.with_fsync(true))))
}

fn unconnected(error: object_store::Error, url: &Arc<str>) -> Error {
    let reason = classify(error).reason;
    let remedy = Fault::named_in(&reason).map_or_else(|| denied_remedy(url), |fault| fault.remedy(url));
    Error::Invalid { reason: format!("{url} cannot be opened: {reason}; {remedy}") }
}

fn below(objects: Arc<dyn ObjectStore>, prefix: &str) -> Arc<dyn ObjectStore> {
    if prefix.is_empty() { objects } else { Arc::new(PrefixStore::new(objects, prefix)) }
}

fn no_retries() -> RetryConfig {
    RetryConfig { backoff: BackoffConfig::default(), max_retries: 0, retry_timeout: BACKSTOP }
}

fn client(settings: &Settings, allow_http_variable: &str) -> ClientOptions {
    let from_environment = || environment::variable(allow_http_variable).is_some_and(|v| v == "true");
    ClientOptions::new()
        .with_user_agent(HeaderValue::from_static(concat!("sandur/", env!("CARGO_PKG_VERSION"))))
        .with_allow_http(settings.allow_http.unwrap_or_else(from_environment))
        .with_connect_timeout(Duration::from_secs(5))
        .with_timeout(BACKSTOP)
        .with_pool_idle_timeout(Duration::from_secs(60))
        .with_pool_max_idle_per_host(128)
}

/// One client with its two interfaces.
struct Connected {
    objects: Arc<dyn ObjectStore>,
    parts: Arc<dyn MultipartStore>,
}

impl Connected {
    fn new<T: ObjectStore + MultipartStore>(client: T) -> Self {
        let client = Arc::new(client);
        Self { objects: Arc::clone(&client) as Arc<dyn ObjectStore>, parts: client }
    }
}

fn connect(
    service: Service,
    bucket: &str,
    settings: &Settings,
    chain: Option<&Chain>,
) -> Result<Connected, object_store::Error> {
    match service {
        Service::S3 => connect_s3(bucket, settings, chain),
        Service::Google => connect_google(bucket, settings),
        Service::Azure => connect_azure(bucket, settings),
    }
}

fn connect_s3(
    bucket: &str,
    settings: &Settings,
    chain: Option<&Chain>,
) -> Result<Connected, object_store::Error> {
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_client_options(client(settings, "AWS_ALLOW_HTTP"))
        .with_http_connector(Listening)
        // One request per object: a DELETE is free, and not every server supports the POST that deletes
        // several.
        .with_disable_bulk_delete(true)
        .with_retry(no_retries());
    if let Some(keys) = chain.and_then(|chain| chain.keys.clone()) {
        builder = builder.with_access_key_id(keys.id).with_secret_access_key(keys.secret);
        if let Some(token) = keys.token {
            builder = builder.with_token(token);
        }
    }
    let has_region = ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().any(|n| environment::variable(n).is_some());
    let of_profile = chain.and_then(|chain| chain.region.as_ref()).filter(|_| !has_region);
    if let Some(region) = settings.region.as_ref().or(of_profile) {
        builder = builder.with_region(region);
    }
    if let Some(endpoint) = &settings.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    if let Some(on) = settings.virtual_hosted_style {
        builder = builder.with_virtual_hosted_style_request(on);
    }
    if let Some(on) = settings.unsigned_payload {
        builder = builder.with_unsigned_payload(on);
    }
    if let Some(on) = settings.skip_signature {
        builder = builder.with_skip_signature(on);
    }
    if let Some(on) = settings.bulk_delete {
        builder = builder.with_disable_bulk_delete(!on);
    }
    Ok(Connected::new(builder.build()?))
}

fn connect_google(bucket: &str, settings: &Settings) -> Result<Connected, object_store::Error> {
    let mut builder = GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(bucket)
        .with_client_options(client(settings, "GOOGLE_ALLOW_HTTP"))
        .with_http_connector(Listening)
        .with_retry(no_retries());
    if let Some(endpoint) = &settings.endpoint {
        builder = builder.with_base_url(endpoint);
    }
    if let Some(on) = settings.skip_signature {
        builder = builder.with_skip_signature(on);
    }
    Ok(Connected::new(builder.build()?))
}

fn connect_azure(container: &str, settings: &Settings) -> Result<Connected, object_store::Error> {
    let mut builder = MicrosoftAzureBuilder::from_env()
        .with_container_name(container)
        .with_client_options(client(settings, "AZURE_ALLOW_HTTP"))
        .with_http_connector(Listening)
        .with_retry(no_retries());
    if let Some(account) = &settings.account {
        builder = builder.with_account(account);
    }
    if let Some(endpoint) = &settings.endpoint {
        builder = builder.with_endpoint(endpoint.clone());
    }
    if let Some(on) = settings.skip_signature {
        builder = builder.with_skip_signature(on);
    }
    Ok(Connected::new(builder.build()?))
}
