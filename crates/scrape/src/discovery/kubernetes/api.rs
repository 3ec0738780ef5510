//! Lists objects of the API, page by page.
//!
//! **Invariants.** The bytes of a page, the number of its objects, the number of pages and of all objects are
//! bounded. The memory of a page is reserved before it is parsed: a text, a list or an object needs a few
//! bytes of JSON, but more of memory.

use std::io::Write;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use sandur_memory::{MemoryBudget, Reservation};
use sandur_runtime::{Env, Lane};
use serde::de::{DeserializeOwned, Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use url::form_urlencoded::Serializer;

use crate::config::{Auth, Tls};
use crate::fetch::{Fetch, FetchRequest};
use crate::scrape::short_of;

/// The number of objects that a page is requested with; servers that ignore it may send more.
const PAGE: usize = 100;
const PAGE_OBJECTS_MAX: usize = 2_000;
/// The largest page in bytes.
const PAGE_BYTES_MAX: u64 = 32 << 20;
/// The largest number of pages and of objects of a list.
const PAGES_MAX: usize = 1_000;
pub(super) const OBJECTS_MAX: usize = 50_000;
/// The longest token for the next page.
const TOKEN_BYTES_MAX: usize = 16 << 10;
/// The longest request.
const REQUEST_MAX: Duration = Duration::from_secs(30);
/// Bytes of a parsed object within another one, of a list, of a text, and of an object of a page, with what
/// lists have reserved for further elements.
const BRACE_BYTES: u64 = 256;
const LIST_BYTES: u64 = 128;
const TEXT_BYTES: u64 = 80;
const OBJECT_BYTES: u64 = 1_536;

const ACCEPT: &str = "application/json";

/// The API of a cluster.
pub(super) struct Api<'a> {
    pub(super) env: &'a Env,
    pub(super) fetch: &'a Arc<dyn Fetch>,
    pub(super) memory: &'a MemoryBudget,
    pub(super) server: &'a str,
    pub(super) auth: &'a Auth,
    pub(super) tls: &'a Tls,
}

/// A page. Every list of the API has these fields.
#[derive(Deserialize)]
struct Page<T> {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: PageMeta,
    items: Option<Items<T>>,
}

/// The objects of a page, whose number is bounded while they are parsed.
struct Items<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Elements(PhantomData))
    }
}

struct Elements<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
    type Value = Items<T>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Items<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(element) = elements.next_element()? {
            if all.len() == PAGE_OBJECTS_MAX {
                let what = format!("a page has more than {PAGE_OBJECTS_MAX} objects; is `limit` ignored?");
                return Err(A::Error::custom(what));
            }
            all.push(element);
        }
        Ok(Items(all))
    }
}

/// Counts what decides how much memory a JSON text needs when it is parsed.
#[derive(Default)]
struct Weight {
    bytes: u64,
    braces: u64,
    lists: u64,
    quotes: u64,
}

impl Weight {
    fn memory(&self) -> u64 {
        let texts = self.quotes.div_ceil(2) * TEXT_BYTES;
        self.bytes + self.braces * BRACE_BYTES + self.lists * LIST_BYTES + texts
    }
}

impl Write for Weight {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes += bytes.len() as u64;
        for byte in bytes {
            match byte {
                b'{' => self.braces += 1,
                b'[' => self.lists += 1,
                b'"' => self.quotes += 1,
                _ => {}
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PageMeta {
    #[serde(rename = "continue")]
    next: Option<String>,
}

/// Objects and their memory.
pub(super) struct Objects<T> {
    pub(super) all: Vec<T>,
    pub(super) held: Vec<Reservation>,
}

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Self { all: Vec::new(), held: Vec::new() }
    }
}

impl Api<'_> {
    /// Adds all objects of a path to a list.
    pub(super) async fn list<T: DeserializeOwned + Serialize + Send + 'static>(
        &self,
        path: &str,
        selectors: &[(&str, &str)],
        objects: &mut Objects<T>,
    ) -> Result<(), String> {
        let failed = |error: String| format!("GET {path}: {error}");
        let mut next: Option<String> = None;
        for _ in 0..PAGES_MAX {
            let url = self.url(path, selectors, next.as_deref());
            let (mut all, token, held) = self.page::<T>(&url).await.map_err(failed)?;
            objects.held.push(held);
            objects.all.append(&mut all);
            if objects.all.len() > OBJECTS_MAX {
                return Err(failed(format!("there are more than {OBJECTS_MAX} objects; use selectors")));
            }
            match token.filter(|token| !token.is_empty()) {
                None => return Ok(()),
                Some(token) if token.len() > TOKEN_BYTES_MAX => {
                    return Err(failed(format!("the continue token is longer than {TOKEN_BYTES_MAX} bytes")));
                }
                Some(token) if next.as_ref() == Some(&token) => {
                    return Err(failed("two pages have the same continue token".to_owned()));
                }
                Some(token) => next = Some(token),
            }
        }
        Err(failed(format!("there are more than {PAGES_MAX} pages")))
    }

    fn url(&self, path: &str, selectors: &[(&str, &str)], next: Option<&str>) -> String {
        let mut query = Serializer::new(String::new());
        query.append_pair("limit", &PAGE.to_string());
        query.extend_pairs(selectors.iter().filter(|(_, selector)| !selector.is_empty()));
        query.extend_pairs(next.map(|token| ("continue", token)));
        format!("{}{path}?{}", self.server, query.finish())
    }

    async fn page<T: DeserializeOwned + Serialize + Send + 'static>(
        &self,
        url: &str,
    ) -> Result<(Vec<T>, Option<String>, Reservation), String> {
        let request = FetchRequest {
            url,
            accept: ACCEPT,
            auth: self.auth,
            tls: self.tls,
            timeout: REQUEST_MAX,
            body_max: PAGE_BYTES_MAX,
            memory: self.memory,
        };
        let fetched = self.env.timeout(REQUEST_MAX, self.fetch.fetch(request)).await;
        let fetched =
            fetched.unwrap_or_else(|| Err(format!("no answer within {} s", REQUEST_MAX.as_secs())))?;
        let memory = self.memory.clone();
        let parse = move || {
            let mut weight = Weight::default();
            weight.write_all(&fetched.body).map_err(|error| error.to_string())?;
            let objects = weight.braces.min(PAGE_OBJECTS_MAX as u64);
            let bytes = weight.memory() + objects * OBJECT_BYTES;
            let mut held = memory.reserve(bytes).map_err(|error| short_of(&error))?;
            let page: Page<T> = serde_json::from_slice(&fetched.body)
                .map_err(|error| format!("the answer is not a list: {error}"))?;
            // Something else than the API may answer: it must not look like a cluster without objects.
            if !page.kind.ends_with("List") {
                return Err(format!("the answer is not a list: its kind is '{:.40}'", page.kind));
            }
            let objects = page.items.map(|items| items.0).unwrap_or_default();
            // Most of a page is fields that were skipped.
            let mut kept = Weight::default();
            serde_json::to_writer(&mut kept, &objects).map_err(|error| error.to_string())?;
            let kept = kept.memory() + objects.len() as u64 * OBJECT_BYTES;
            held.shrink(held.bytes().saturating_sub(kept));
            Ok((objects, page.metadata.next, held))
        };
        self.env.run_cpu(Lane::Background, parse).await
    }
}
