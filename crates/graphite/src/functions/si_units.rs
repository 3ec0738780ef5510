//! Formats numbers with the prefixes of a system of units.

const BINARY: [(&str, f64); 5] = [
    ("Pi", 1_125_899_906_842_624.0),
    ("Ti", 1_099_511_627_776.0),
    ("Gi", 1_073_741_824.0),
    ("Mi", 1_048_576.0),
    ("Ki", 1024.0),
];
const SI: [(&str, f64); 5] = [("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)];

/// The scaled number, and its prefix with the unit; `None` if the system is unknown.
pub(super) fn units_of(value: f64, system: &str, unit: &str) -> Option<(f64, String)> {
    let system = match system {
        "binary" => &BINARY,
        "si" => &SI,
        _ => return None,
    };
    let (prefix, size) = system.iter().find(|(_, size)| value.abs() >= *size).unwrap_or(&("", 1.0));
    let scaled = value / size;
    let near = scaled - scaled.floor() < 1e-11 && value > 1.0;
    Some((if near { scaled.floor() } else { scaled }, format!("{prefix}{unit}")))
}
