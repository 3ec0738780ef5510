//! Traces as text: one access per line, with named columns.
//!
//! The first line names the columns, in any order. `time_s`, `key` and `bytes` are required. Optional are
//! `op` (`get` or `set`; without it every access is a get), `hint` (`point`, `ingest`, `metadata`, or
//! `scan:BYTES`; without it gets are `point` and sets `ingest`) and `tenant` (a number). Other columns are
//! ignored. Keys are any text without a comma; there is no quoting. Lines that begin with `#` are skipped.

use std::io::BufRead;

use xxhash_rust::xxh3::xxh3_64;

use super::error::TraceError;
use sandur_cache::Hint;
use sandur_cache::model::{Kind, Request};

/// Bytes of the longest line. Input with a longer one is not a trace.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Reads a trace line by line.
#[derive(Debug)]
pub struct Csv<R> {
    input: R,
    columns: Option<Columns>,
    line: u64,
    text: String,
}

/// The position of each column.
#[derive(Clone, Copy, Debug)]
struct Columns {
    time: usize,
    key: usize,
    bytes: usize,
    op: Option<usize>,
    hint: Option<usize>,
    tenant: Option<usize>,
}

impl<R: BufRead> Csv<R> {
    /// Reads from `input`.
    pub fn new(input: R) -> Self {
        Self { input, columns: None, line: 0, text: String::new() }
    }

    fn read(&mut self) -> Result<Option<Request>, TraceError> {
        loop {
            self.text.clear();
            let limited = &mut std::io::Read::take(&mut self.input, LINE_BYTES_MAX as u64);
            if limited.read_line(&mut self.text)? == 0 {
                return Ok(None);
            }
            self.line += 1;
            if self.text.len() >= LINE_BYTES_MAX {
                return Err(self.error("the line is too long for a trace"));
            }
            let text = self.text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            match self.columns {
                Some(columns) => {
                    return columns.request(text).map(Some).map_err(|problem| self.error(&problem));
                }
                None => {
                    let columns = Columns::named(text).map_err(|problem| self.error(&problem))?;
                    self.columns = Some(columns);
                }
            }
        }
    }

    fn error(&self, problem: &str) -> TraceError {
        TraceError::Line { line: self.line, problem: problem.to_owned() }
    }
}

impl<R: BufRead> Iterator for Csv<R> {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

impl Columns {
    fn named(header: &str) -> Result<Self, String> {
        let names: Vec<&str> = header.split(',').map(str::trim).collect();
        let find = |name: &str| names.iter().position(|n| n.eq_ignore_ascii_case(name));
        let need = |name: &str| {
            find(name).ok_or_else(|| format!("the first line names no column '{name}': it says '{header}'"))
        };
        let (op, hint, tenant) = (find("op"), find("hint"), find("tenant"));
        Ok(Self { time: need("time_s")?, key: need("key")?, bytes: need("bytes")?, op, hint, tenant })
    }

    fn request(&self, line: &str) -> Result<Request, String> {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let field = |at: usize, name: &str| fields.get(at).copied().ok_or(format!("'{name}' is missing"));
        let number = |at: usize, name: &str| {
            let text = field(at, name)?;
            let whole = text.split('.').next().unwrap_or(text);
            whole.parse::<u32>().map_err(|_| format!("'{name}' is '{text}', not a number below 2^32"))
        };
        let kind = match self.op.map(|at| field(at, "op")).transpose()? {
            None | Some("get" | "read" | "") => Kind::Read,
            Some("set" | "write") => Kind::Write,
            Some(other) => return Err(format!("'op' is '{other}', neither get nor set")),
        };
        let hint = match self.hint.map(|at| field(at, "hint")).transpose()?.filter(|hint| !hint.is_empty()) {
            None if kind == Kind::Write => Hint::Ingest,
            None => Hint::Point,
            Some(text) => hint(text)?,
        };
        let tenant = self.tenant.map(|at| number(at, "tenant")).transpose()?.unwrap_or(0);
        let hash = xxh3_64(field(self.key, "key")?.as_bytes());
        let (at_s, bytes) = (number(self.time, "time_s")?, number(self.bytes, "bytes")?);
        Ok(Request { at_s, hash, bytes, kind, hint, tenant })
    }
}

fn hint(text: &str) -> Result<Hint, String> {
    match text {
        "point" => Ok(Hint::Point),
        "ingest" => Ok(Hint::Ingest),
        "metadata" => Ok(Hint::Metadata),
        _ => {
            let bytes = text.strip_prefix("scan:").and_then(|bytes| bytes.parse().ok());
            let unknown = || format!("'hint' is '{text}': use point, ingest, metadata or scan:BYTES");
            bytes.map(|bytes| Hint::Scan { bytes }).ok_or_else(unknown)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Request>, String> {
        Csv::new(text.as_bytes()).collect::<Result<_, _>>().map_err(|e: TraceError| e.to_string())
    }

    #[test]
    fn columns_may_be_in_any_order_and_optional_ones_may_be_missing() {
        let requests = read("key,time_s,bytes\na,1,10\n# note\n\nb,2.5,20\n").unwrap();
        assert_eq!(requests.len(), 2);
        assert_eq!((requests[1].at_s, requests[1].bytes, requests[1].kind), (2, 20, Kind::Read));
        let text = "bytes,op,other,tenant,hint,time_s,key\n5,set,x,7,,1,a\n5,get,x,7,scan:900,1,a\n";
        let requests = read(text).unwrap();
        assert_eq!((requests[0].kind, requests[0].hint, requests[0].tenant), (Kind::Write, Hint::Ingest, 7));
        assert_eq!(requests[1].hint, Hint::Scan { bytes: 900 });
        assert_eq!(requests[0].hash, requests[1].hash);
    }

    #[test]
    fn errors_name_the_line_and_the_remedy() {
        let error = |text| read(text).unwrap_err();
        assert!(error("a,b\n1,2\n").contains("line 1") && error("a,b\n").contains("time_s"));
        assert!(error("time_s,key,bytes\n1,a,-5\n").contains("'bytes' is '-5'"));
        assert!(error("time_s,key,bytes\n1,a\n").contains("line 2"));
        assert!(error("time_s,key,bytes,op\n1,a,5,del\n").contains("neither get nor set"));
        assert!(error("time_s,key,bytes,hint\n1,a,5,all\n").contains("scan:BYTES"));
    }
}
