//! What is wrong with TLS, in words. Those of rustls have names of Rust in them.

use std::time::{Duration, UNIX_EPOCH};

use rustls::pki_types::{UnixTime, pem};
use rustls::{CertificateError, Error, OtherError};

/// The last second that a date with four digits of a year can tell.
const END_OF_9999: u64 = 253_402_300_799;
/// Max names of a certificate that a reason has.
const MAX_NAMES: usize = 10;

/// Why the certificate of a service is not trusted.
pub(crate) fn distrust(why: &CertificateError) -> String {
    match why {
        CertificateError::UnknownIssuer => "no trusted authority has signed it".to_owned(),
        CertificateError::BadEncoding => "it is malformed".to_owned(),
        CertificateError::BadSignature => "a signature is wrong".to_owned(),
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("it expired at {}", date(*not_after))
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("it is not valid before {}", date(*not_before))
        }
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => {
            let names = presented.iter().take(MAX_NAMES).map(|name| bare(name));
            let names: Vec<_> = names.collect();
            let expected = expected.to_str();
            match names.is_empty() {
                true => format!("it has no subjectAltName, and needs one for {expected}"),
                false => format!("it is for {}, not for {expected}", names.join(", ")),
            }
        }
        CertificateError::InvalidPurposeContext { .. } => "it is not for servers".to_owned(),
        CertificateError::Other(OtherError(cause)) => match cause.downcast_ref() {
            Some(webpki::Error::CaUsedAsEndEntity) => {
                "it is that of an authority, and not one of the trusted ones".to_owned()
            }
            _ => spaced(&cause.to_string()),
        },
        other => spaced(&other.to_string()),
    }
}

/// Whether a service was refused because its own certificate is that of an authority.
pub(crate) fn is_of_an_authority(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(OtherError(cause))) = error else {
        return false;
    };
    cause.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity)
}

/// Why there is no TLS with a service.
pub(crate) fn words(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(why) => distrust(why),
        Error::InvalidMessage(_) => "its answer is no TLS".to_owned(),
        other => spaced(&other.to_string()),
    }
}

/// What is wrong with a PEM file.
pub(crate) fn pem_problem(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a PEM block in it has no end".to_owned(),
        pem::Error::IllegalSectionStart { .. } => {
            "a line that begins a PEM block in it is malformed".to_owned()
        }
        pem::Error::Base64Decode(_) => "a PEM block in it is not base64".to_owned(),
        other => other.to_string(),
    }
}

fn date(time: UnixTime) -> String {
    let since_1970 = Duration::from_secs(time.as_secs().min(END_OF_9999));
    humantime::format_rfc3339_seconds(UNIX_EPOCH + since_1970).to_string()
}

/// The name in `DnsName("localhost")` or `IpAddress(127.0.0.1)`.
fn bare(name: &str) -> &str {
    let inner = name.split_once('(').map_or(name, |(_, inner)| inner);
    inner.trim_end_matches(')').trim_matches('"')
}

/// Names of Rust as words: `HandshakeFailure` is "handshake failure".
fn spaced(text: &str) -> String {
    let mut spaced = String::new();
    let mut word = String::new();
    for letter in text.chars().chain([' ']) {
        if letter.is_alphanumeric() {
            if letter.is_uppercase() && word.ends_with(char::is_lowercase) {
                word.push(' ');
            }
            word.push(letter);
            continue;
        }
        // A single word may be the first of a sentence, or an abbreviation.
        if word.contains(' ') {
            word = word.to_lowercase();
        }
        spaced.push_str(&word);
        spaced.push(letter);
        word.clear();
    }
    spaced.pop();
    spaced
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::AlertDescription::HandshakeFailure;
    use rustls::PeerIncompatible::NoCipherSuitesInCommon;

    use super::*;

    #[test]
    fn no_reason_has_a_name_of_rust() {
        for (error, expected) in [
            (
                Error::AlertReceived(HandshakeFailure),
                "received fatal alert: handshake failure",
            ),
            (
                Error::PeerIncompatible(NoCipherSuitesInCommon),
                "peer is incompatible: no cipher suites in common",
            ),
            (
                CertificateError::UnhandledCriticalExtension.into(),
                "unhandled critical extension",
            ),
            (
                other(webpki::Error::UnsupportedCertVersion),
                "unsupported cert version",
            ),
            (
                Error::General("TLS is old".to_owned()),
                "unexpected error: TLS is old",
            ),
        ] {
            assert_eq!(words(&error), expected);
        }
    }

    fn other(error: webpki::Error) -> Error {
        CertificateError::Other(OtherError(Arc::new(error))).into()
    }

    #[test]
    fn only_one_error_is_about_certificates_of_authorities() {
        let of_authority = other(webpki::Error::CaUsedAsEndEntity);
        assert!(is_of_an_authority(&of_authority));
        for error in [
            other(webpki::Error::EndEntityUsedAsCa),
            CertificateError::UnknownIssuer.into(),
            Error::DecryptError,
        ] {
            assert!(!is_of_an_authority(&error), "{error}");
        }
    }

    #[test]
    fn a_certificate_names_hosts_and_addresses() {
        assert_eq!(bare("DnsName(\"*.example\")"), "*.example");
        assert_eq!(bare("IpAddress(127.0.0.1)"), "127.0.0.1");
        assert_eq!(bare("DirectoryName"), "DirectoryName");
    }
}
