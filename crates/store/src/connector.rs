//! The HTTP client below `object_store`: the usual one, that also listens for `Retry-After`.

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};

use crate::answer;

/// Makes listening clients.
#[derive(Debug)]
pub(crate) struct Listening;

#[derive(Debug)]
struct Listener(HttpClient);

impl HttpConnector for Listening {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let usual = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Listener(usual)))
    }
}

#[async_trait]
impl HttpService for Listener {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let response = self.0.execute(request).await?;
        let header = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
        if let Some(after) = header.and_then(answer::retry_after) {
            answer::hear(after);
        }
        Ok(response)
    }
}
