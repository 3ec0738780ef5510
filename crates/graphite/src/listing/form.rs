//! The formats of listings, which are go-carbon's.

use sandur_protobuf::Writer as _;

use crate::carbonserver::CarbonserverForm;
use crate::encoding::json::quoted;

/// The format of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListingForm {
    /// Names alone.
    Names(CarbonserverForm),
    /// Names with the size that a whisper file of the series would have, and the time of the last value.
    Details(CarbonserverForm),
    /// JSON of names with these sizes, and their sum.
    Query {
        /// The most names that are listed; all are counted.
        limit: u64,
        /// Whether names are omitted.
        totals_only: bool,
    },
}

/// The totals of the paths listed so far.
#[derive(Default)]
pub(super) struct Totals {
    pub(super) count: u64,
    bytes: u64,
    shown: u64,
}

impl ListingForm {
    /// The content type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Names(form) | Self::Details(form) => form.content_type(),
            Self::Query { .. } => CarbonserverForm::Json.content_type(),
        }
    }

    /// Whether the format includes sizes of files.
    pub(super) fn has_sizes(self) -> bool {
        !matches!(self, Self::Names(_))
    }

    fn is_json(self) -> bool {
        !matches!(self, Self::Names(form) | Self::Details(form) if form != CarbonserverForm::Json)
    }

    pub(super) fn begin(self, out: &mut Vec<u8>) {
        if self.is_json() {
            out.extend_from_slice(b"{\"Metrics\":[");
        }
    }

    /// Writes a path with the size of its file and the time of its last value.
    pub(super) fn path(self, out: &mut Vec<u8>, totals: &mut Totals, (path, bytes, last): (&str, u64, i64)) {
        totals.count += 1;
        totals.bytes = totals.bytes.saturating_add(bytes);
        match self {
            Self::Query { limit, totals_only } if totals_only || totals.shown >= limit => return,
            _ if self.is_json() && totals.shown > 0 => out.push(b','),
            _ => {}
        }
        totals.shown += 1;
        let written = match self {
            Self::Names(CarbonserverForm::Json) => quoted(path),
            Self::Names(_) => return out.text(1, path),
            Self::Details(CarbonserverForm::Json) => {
                format!("{{\"Size\":{bytes},\"ModTime\":{last},\"Name\":{}}}", quoted(path))
            }
            Self::Details(_) => return entry(out, (path, bytes, last)),
            Self::Query { .. } => {
                let name = quoted(path);
                format!("{{\"Name\":{name},\"PhysicalSize\":0,\"LogicalSize\":{bytes}}}")
            }
        };
        out.extend_from_slice(written.as_bytes());
    }

    pub(super) fn end(self, out: &mut Vec<u8>, totals: &Totals) {
        let written = match self {
            Self::Names(_) if self.is_json() => "]}".to_owned(),
            Self::Details(_) if self.is_json() => "],\"FreeSpace\":0,\"TotalSpace\":0}".to_owned(),
            Self::Query { .. } => {
                let Totals { count, bytes, .. } = totals;
                format!("],\"Count\":{count},\"PhysicalSize\":0,\"LogicalSize\":{bytes}}}")
            }
            Self::Names(_) | Self::Details(_) => return,
        };
        out.extend_from_slice(written.as_bytes());
    }
}

/// Writes an entry of the map in a `MetricDetailsResponse`.
fn entry(out: &mut Vec<u8>, (path, bytes, last): (&str, u64, i64)) {
    out.message(1, |out| {
        out.text(1, path);
        out.message(2, |out| {
            out.number(2, bytes.min(i64::MAX as u64));
            out.number(3, last as u64);
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(form: ListingForm) -> Vec<u8> {
        let (mut out, mut totals) = (Vec::new(), Totals::default());
        form.begin(&mut out);
        for path in ["a", "b\"", "c"] {
            form.path(&mut out, &mut totals, (path, 28, 300));
        }
        form.end(&mut out, &totals);
        out
    }

    #[test]
    fn paths_are_written_in_each_format() {
        let json = |form| String::from_utf8(written(form)).unwrap();
        assert_eq!(json(ListingForm::Names(CarbonserverForm::Json)), r#"{"Metrics":["a","b\"","c"]}"#);
        assert_eq!(written(ListingForm::Names(CarbonserverForm::Older)), b"\x0a\x01a\x0a\x02b\"\x0a\x01c");
        let details = json(ListingForm::Details(CarbonserverForm::Json));
        assert!(details.starts_with(r#"{"Metrics":[{"Size":28,"ModTime":300,"Name":"a"},{"#), "{details}");
        assert!(details.ends_with(r#""Name":"c"}],"FreeSpace":0,"TotalSpace":0}"#), "{details}");
        let details = written(ListingForm::Details(CarbonserverForm::Newer));
        assert!(details.starts_with(b"\x0a\x0a\x0a\x01a\x12\x05\x10\x1c\x18\xac\x02\x0a\x0b"), "{details:?}");
        let query = json(ListingForm::Query { limit: 1, totals_only: false });
        let expected = r#"{"Metrics":[{"Name":"a","PhysicalSize":0,"LogicalSize":28}],"#;
        assert_eq!(query, format!("{expected}{}", r#""Count":3,"PhysicalSize":0,"LogicalSize":84}"#));
        let totals = json(ListingForm::Query { limit: 9, totals_only: true });
        assert_eq!(totals, r#"{"Metrics":[],"Count":3,"PhysicalSize":0,"LogicalSize":84}"#);
    }
}
