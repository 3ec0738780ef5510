//! Queries that the demo proposes: only those that find something in the shipped data.

use sandur_cli::client::Client;
use sandur_cli::results;
use sandur_model::{HOUR_NS, MILLISECOND_NS, SECOND_NS};
use sandur_runtime::Env;
use sandur_terminal::Failed;

use super::targets::SCRAPE_EVERY;

/// Number of proposed log queries.
pub const PROPOSED: usize = 5;

/// How a query is run.
#[derive(Clone, Copy)]
enum Ask {
    /// Over the last hour.
    Hour,
    /// Over the last thirty days, since log files may be old.
    Month,
    /// Over the last hour, with a point per minute.
    Minutes,
    /// At the present instant.
    Instant,
}

impl Ask {
    /// The options of `sandur query` for this.
    fn options(self) -> &'static str {
        match self {
            Self::Hour => "",
            Self::Month => " --since 30d",
            Self::Minutes => " --step 1m",
            Self::Instant => " --instant",
        }
    }
}

/// A query and its description.
pub struct Query {
    shows: &'static str,
    text: &'static str,
    ask: Ask,
}

/// In order of preference; the last ones are used on machines without readable logs.
const CANDIDATES: [Query; 7] = [
    Query {
        shows: "errors of every service, in any format",
        text: r#"{env="demo"} | detected_level="error""#,
        ask: Ask::Hour,
    },
    Query {
        shows: "slow payments, from nested JSON",
        text: concat!(
            r#"{app="payments"} | json | duration_ms > 1000 "#,
            r#"| line_format "{{.user_name}} waited {{.duration_ms}} ms: {{.msg}}""#
        ),
        ask: Ask::Hour,
    },
    Query {
        shows: "lines per level and minute: incidents stand out",
        text: r#"sum by (detected_level) (count_over_time({env="demo"}[1m]))"#,
        ask: Ask::Minutes,
    },
    Query {
        shows: "lines per second by service",
        text: r#"sum by (app) (rate({env="demo"}[5m]))"#,
        ask: Ask::Instant,
    },
    Query { shows: "this machine's own logs", text: r#"{job="machine"}"#, ask: Ask::Month },
    Query {
        shows: "users with the most wrong passwords, from logfmt",
        text: r#"topk(3, sum by (user) (count_over_time({app="auth"} |= "wrong password" | logfmt [1h])))"#,
        ask: Ask::Instant,
    },
    Query {
        shows: "answers by status, from an access log",
        text: concat!(
            r#"sum by (status) (count_over_time({app="gateway"} "#,
            r#"| pattern `<_> "<_>" <status> <_>` | status != "" [5m]))"#
        ),
        ask: Ask::Minutes,
    },
];

/// PromQL over the metrics of the shop and of the server.
const OF_METRICS: [Query; 3] = [
    Query {
        shows: "lines per second by service over the last hour, as a chart (PromQL)",
        text: "sum by (app) (rate(shop_lines_total[2m]))",
        ask: Ask::Minutes,
    },
    Query {
        shows: "instances that wrote the most (PromQL)",
        text: "topk(3, increase(shop_line_bytes_total[30m]))",
        ask: Ask::Instant,
    },
    Query {
        shows: "memory of this server in MiB, from its own metrics (PromQL)",
        text: r#"process_resident_memory_bytes{job="sandur"} / 2 ^ 20"#,
        ask: Ask::Instant,
    },
];

/// A query that was tried.
pub struct Proposal {
    query: &'static Query,
    /// What it found and the time it took.
    found: String,
}

impl Proposal {
    /// The comment above the command.
    pub fn comment(&self) -> String {
        format!("# {}: {}", self.query.shows, self.found)
    }

    /// The command line of the query; `program` and `options` come before the query.
    pub fn command(&self, program: &str, options: &str) -> String {
        format!("{program} query{options} '{}'{}", self.query.text, self.query.ask.options())
    }
}

/// Waits until the server has scraped itself, for at most three intervals.
pub async fn wait_for_scrapes(env: &Env, client: &Client) -> Result<(), Failed> {
    let deadline = env.monotonic() + 3 * SCRAPE_EVERY;
    while env.monotonic() < deadline {
        let of_itself = client.get("/api/v1/query", &[("query", r#"up{job="sandur"}"#.to_owned())]).await?;
        if !results::read(&of_itself)?.data.is_empty() {
            break;
        }
        env.sleep(SCRAPE_EVERY / 20).await;
    }
    Ok(())
}

/// The first [`PROPOSED`] queries that find something; each is tried once.
pub async fn propose(env: &Env, client: &Client) -> Result<Vec<Proposal>, Failed> {
    let mut proposals = Vec::new();
    for query in &CANDIDATES {
        if proposals.len() == PROPOSED {
            break;
        }
        proposals.extend(attempt(env, client, query).await?.map(|found| Proposal { query, found }));
    }
    for query in &OF_METRICS {
        proposals.extend(attempt(env, client, query).await?.map(|found| Proposal { query, found }));
    }
    Ok(proposals)
}

/// What the query finds; `None` if it finds nothing.
async fn attempt(env: &Env, client: &Client, query: &Query) -> Result<Option<String>, Failed> {
    let (path, pairs) = request(query, env.now_ns());
    let began = env.monotonic();
    let body = client.get(path, &pairs).await?;
    let took = (env.monotonic() - began).as_millis();
    let data = results::read(&body)?.data;
    Ok((!data.is_empty()).then(|| format!("{} in {took} ms", data.size_in_words())))
}

fn request(query: &Query, now_ns: i64) -> (&'static str, Vec<(&'static str, String)>) {
    let text = ("query", query.text.to_owned());
    if OF_METRICS.iter().any(|of_metrics| of_metrics.text == query.text) {
        return metrics_request(query, text, now_ns);
    }
    let back = match query.ask {
        Ask::Instant => return ("/loki/api/v1/query", vec![text, ("time", now_ns.to_string())]),
        Ask::Month => 30 * 24 * HOUR_NS,
        Ask::Hour | Ask::Minutes => HOUR_NS,
    };
    let mut pairs = vec![text, ("start", (now_ns - back).to_string()), ("end", now_ns.to_string())];
    if matches!(query.ask, Ask::Minutes) {
        pairs.push(("step", "1m".to_owned()));
    }
    ("/loki/api/v1/query_range", pairs)
}

fn metrics_request(
    query: &Query,
    text: (&'static str, String),
    now_ns: i64,
) -> (&'static str, Vec<(&'static str, String)>) {
    let now = now_ns.div_euclid(SECOND_NS);
    if matches!(query.ask, Ask::Instant) {
        // With milliseconds, since a sample of the present second may be later than its start.
        let milliseconds = now_ns.rem_euclid(SECOND_NS) / MILLISECOND_NS;
        return ("/api/v1/query", vec![text, ("time", format!("{now}.{milliseconds:03}"))]);
    }
    let start = now - HOUR_NS / SECOND_NS;
    let times = [("start", start.to_string()), ("end", now.to_string()), ("step", "1m".to_owned())];
    ("/api/v1/query_range", [text].into_iter().chain(times).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_candidate_is_logql_that_a_shell_passes_on() {
        assert!(CANDIDATES.len() > PROPOSED);
        for query in &CANDIDATES {
            sandur_logql::parse(query.text).unwrap_or_else(|e| panic!("{}: {e}", query.text));
            assert!(!query.text.contains('\''), "{}", query.text);
        }
        for query in &OF_METRICS {
            assert!(sandur_logql::parse(query.text).is_err(), "{} is taken for LogQL", query.text);
            assert!(
                sandur_promql::mistake(query.text).is_none() && !query.text.contains('\''),
                "{}",
                query.text
            );
        }
        let proposal = Proposal { query: &CANDIDATES[4], found: "2 lines in 1 ms".to_owned() };
        assert_eq!(proposal.comment(), "# this machine's own logs: 2 lines in 1 ms");
        assert_eq!(proposal.command("sandur", ""), "sandur query '{job=\"machine\"}' --since 30d");
    }

    #[test]
    fn requests_ask_what_the_options_ask() {
        let now = 40 * 24 * HOUR_NS;
        let value = |ask, name| {
            let (_, pairs) = request(&Query { shows: "", text: "{a=\"b\"}", ask }, now);
            pairs.into_iter().find(|(n, _)| *n == name).map(|(_, value)| value)
        };
        assert_eq!(value(Ask::Month, "start"), Some((10 * 24 * HOUR_NS).to_string()));
        assert_eq!(value(Ask::Hour, "step"), None);
        assert_eq!(value(Ask::Minutes, "step").as_deref(), Some("1m"));
        assert_eq!(value(Ask::Instant, "time"), Some(now.to_string()));
        let (_, of_metrics) = request(&OF_METRICS[1], now + 7 * MILLISECOND_NS);
        assert!(of_metrics.contains(&("time", "3456000.007".to_owned())), "{of_metrics:?}");
    }
}
