//! Dashboards and panels, and the JSON that Grafana reads.

use serde_json::{Value, json};

/// A dashboard: a file of `packaging/grafana`.
pub struct Dashboard {
    /// Name of the file, and end of the identifier.
    pub name: &'static str,
    pub title: &'static str,
    pub panels: &'static [Panel],
}

/// A panel.
pub struct Panel {
    kind: Kind,
    pub title: &'static str,
    /// What the numbers mean, or what to do.
    about: &'static str,
    unit: Unit,
    /// Queries and the names of their series.
    pub queries: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Graph,
    Stat,
}

/// The unit of the values.
#[derive(Clone, Copy)]
pub enum Unit {
    Bytes,
    BytesPerSecond,
    Dollars,
    Fraction,
    Number,
    PerSecond,
    Seconds,
}

impl Unit {
    fn of_grafana(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::BytesPerSecond => "Bps",
            Self::Dollars => "currencyUSD",
            Self::Fraction => "percentunit",
            Self::Number => "short",
            Self::PerSecond => "ops",
            Self::Seconds => "s",
        }
    }
}

type Queries = &'static [(&'static str, &'static str)];

/// A panel with curves.
pub const fn graph(title: &'static str, about: &'static str, unit: Unit, queries: Queries) -> Panel {
    Panel { kind: Kind::Graph, title, about, unit, queries }
}

/// A panel with the latest values.
pub const fn stat(title: &'static str, about: &'static str, unit: Unit, queries: Queries) -> Panel {
    Panel { kind: Kind::Stat, title, about, unit, queries }
}

/// A query with the words that stand for its shortcuts.
pub fn expand(query: &str, instances: &str, window: &str) -> String {
    query.replace("$i", &format!("instance=~\"{instances}\"")).replace("$r", window)
}

const WIDTH: u64 = 24;

/// The text of the file.
pub fn file(dashboard: &Dashboard) -> String {
    let (mut x, mut y, mut lowest) = (0, 0, 0);
    let mut panels = Vec::new();
    for (number, panel) in dashboard.panels.iter().enumerate() {
        let (width, height) = if panel.kind == Kind::Stat { (6, 4) } else { (12, 8) };
        if x + width > WIDTH || (x > 0 && lowest != height) {
            (x, y) = (0, y + lowest);
        }
        panels.push(panel_json(panel, number + 1, &json!({"x": x, "y": y, "w": width, "h": height})));
        (x, lowest) = (x + width, height);
    }
    let data_source =
        json!({"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"});
    let instances = json!({"name": "instance", "label": "Process", "type": "query", "multi": true,
        "includeAll": true, "allValue": ".*", "current": {"text": "All", "value": "$__all"}, "refresh": 2,
        "sort": 1, "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": {"qryType": 1, "query": "label_values(sandur_build_info, instance)"}});
    let dashboard = json!({
        "uid": format!("sandur-{}", dashboard.name), "title": dashboard.title, "tags": ["sandur"],
        "schemaVersion": 39, "version": 1, "editable": true, "graphTooltip": 1, "timezone": "browser",
        "refresh": "30s", "time": {"from": "now-3h", "to": "now"},
        "links": [{"type": "dashboards", "title": "Sandur", "tags": ["sandur"], "asDropdown": true,
            "keepTime": true, "includeVars": true}],
        "templating": {"list": [data_source, instances]}, "panels": panels,
    });
    format!("{dashboard:#}\n")
}

fn panel_json(panel: &Panel, id: usize, place: &Value) -> Value {
    let source = json!({"type": "prometheus", "uid": "${datasource}"});
    let targets: Vec<Value> = panel
        .queries
        .iter()
        .zip('A'..)
        .map(|((query, legend), letter)| {
            json!({"refId": letter.to_string(), "expr": expand(query, "$instance", "$__rate_interval"),
                "legendFormat": legend, "datasource": source})
        })
        .collect();
    let defaults = json!({"unit": panel.unit.of_grafana(), "min": 0});
    let (kind, options) = match panel.kind {
        Kind::Graph => (
            "timeseries",
            json!({"legend": {"displayMode": "list", "placement": "bottom", "showLegend": true},
                "tooltip": {"mode": "multi", "sort": "desc"}}),
        ),
        Kind::Stat => ("stat", json!({"reduceOptions": {"calcs": ["lastNotNull"]}, "graphMode": "area"})),
    };
    json!({"id": id, "type": kind, "title": panel.title, "description": panel.about, "gridPos": place,
        "datasource": source, "targets": targets, "options": options,
        "fieldConfig": {"defaults": defaults, "overrides": []}})
}
