//! Reads the names in a certificate, for messages only. No decision depends on them.

/// Maximum length of a name that is shown.
const NAME_BYTES_MAX: usize = 200;
/// Object identifiers 2.5.4.3 (common name) and 2.5.4.10 (organization).
const NAMING: [&[u8]; 2] = [&[0x55, 0x04, 0x03], &[0x55, 0x04, 0x0A]];

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
/// `[0]`: the version, which may be left out.
const VERSION: u8 = 0xA0;

/// Names in a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The subject.
    pub subject: Option<String>,
    /// The issuer.
    pub issuer: Option<String>,
    /// Whether subject and issuer are the same.
    pub is_self_signed: bool,
}

impl Names {
    /// The names in a DER certificate; `None` if it cannot be parsed.
    pub fn read(certificate: &[u8]) -> Option<Self> {
        let (outer, _) = element(certificate, SEQUENCE)?;
        let (mut rest, _) = element(outer, SEQUENCE)?;
        if let Some((_, after)) = element(rest, VERSION) {
            rest = after;
        }
        let (_, rest) = any(rest)?; // serial number
        let (_, rest) = element(rest, SEQUENCE)?; // signature algorithm
        let (issuer, rest) = element(rest, SEQUENCE)?;
        let (_, rest) = element(rest, SEQUENCE)?; // validity
        let (subject, _) = element(rest, SEQUENCE)?;
        Some(Self { subject: name(subject), issuer: name(issuer), is_self_signed: subject == issuer })
    }
}

/// The common name of a distinguished name, or else the organization.
fn name(distinguished: &[u8]) -> Option<String> {
    NAMING.iter().find_map(|wanted| {
        let mut rest = distinguished;
        while let Some((set, after)) = element(rest, SET) {
            rest = after;
            let Some((pair, _)) = element(set, SEQUENCE) else { continue };
            let Some((kind, value)) = element(pair, OBJECT_IDENTIFIER) else { continue };
            if kind == *wanted {
                let ((_, text), _) = any(value)?;
                let text = String::from_utf8_lossy(&text[..text.len().min(NAME_BYTES_MAX)]);
                return Some(text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect());
            }
        }
        None
    })
}

/// The content of the DER element at the start of `bytes`, if it has this tag, and the rest.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let ((found, content), rest) = any(bytes)?;
    (found == tag).then_some((content, rest))
}

type Element<'a> = (u8, &'a [u8]);

fn any(bytes: &[u8]) -> Option<(Element<'_>, &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let length = match first {
        0..=0x7F => usize::from(first),
        // A certificate has no length of more than four bytes.
        0x81..=0x84 => {
            let (length, after) = rest.split_at_checked(usize::from(first & 0x7F))?;
            rest = after;
            length.iter().fold(0usize, |n, byte| n << 8 | usize::from(*byte))
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some(((tag, content), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_and_issuer_are_read_and_truncated_certificates_do_not_panic() {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(["logs.example".to_owned()]).unwrap();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, "The\nCA");
        let certificate = parameters.self_signed(&key).unwrap();
        let der = certificate.der();
        let names = Names::read(der).unwrap();
        assert_eq!(names.subject.as_deref(), Some("The CA"));
        assert!(names.is_self_signed && names.issuer == names.subject);
        for length in 0..der.len() {
            Names::read(&der[..length]);
            let mut other = der.to_vec();
            other[length] ^= 0x81;
            Names::read(&other);
        }
    }
}
