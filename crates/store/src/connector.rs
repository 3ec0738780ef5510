//! The HTTP client below `object_store`, which also reads `Retry-After`. Requests to the metadata
//! service of the machine, which provides credentials, have a short timeout, because it answers at once
//! or not at all.

use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};

use crate::answer;

/// Timeout of requests to the metadata service.
const METADATA_TIMEOUT: Duration = Duration::from_secs(3);

/// Makes HTTP clients that read `Retry-After`.
#[derive(Debug)]
pub(crate) struct Listening;

#[derive(Debug)]
struct Listener {
    usual: HttpClient,
    metadata: HttpClient,
}

impl HttpConnector for Listening {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        // An error means that the process has a provider already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let usual = ReqwestConnector::default().connect(options)?;
        let brief = options.clone().with_timeout(METADATA_TIMEOUT).with_connect_timeout(METADATA_TIMEOUT);
        let metadata = ReqwestConnector::default().connect(&brief)?;
        Ok(HttpClient::new(Listener { usual, metadata }))
    }
}

#[async_trait]
impl HttpService for Listener {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let client = if is_metadata(request.uri().host()) { &self.metadata } else { &self.usual };
        let response = client.execute(request).await?;
        let header = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
        if let Some(after) = header.and_then(answer::retry_after) {
            answer::hear(after);
        }
        Ok(response)
    }
}

/// Whether a host is a link-local address or the IPv6 address of the AWS metadata service. No store has
/// such an address.
fn is_metadata(host: Option<&str>) -> bool {
    let address = host.and_then(|host| host.trim_matches(['[', ']']).parse::<IpAddr>().ok());
    address.is_some_and(|address| match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        // fd00:ec2::254 and fd00:ec2::23
        IpAddr::V6(v6) => v6.segments()[..2] == [0xfd00, 0x0ec2],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_metadata_addresses_have_a_short_timeout() {
        for near in ["169.254.169.254", "169.254.170.2", "[fd00:ec2::254]", "fd00:ec2::23"] {
            assert!(is_metadata(Some(near)), "{near}");
        }
        for far in ["127.0.0.1", "10.0.0.1", "s3.eu-west-1.amazonaws.com", "[::1]", "169.254.169.254.example"]
        {
            assert!(!is_metadata(Some(far)), "{far}");
        }
        assert!(!is_metadata(None));
    }
}
