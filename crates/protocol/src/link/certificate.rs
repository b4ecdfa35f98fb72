//! When the certificate of a server expires.
//!
//! The connections of a link have verified the certificate, but the client library does not show it.
//! So this makes one more handshake, takes the certificate, and sends nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use redis::ConnectionAddr;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How long the handshake may take.
const TIMEOUT: Duration = Duration::from_secs(3);

/// When the certificate of the server at this address expires; none if it has none, or shows none in
/// time.
pub(super) async fn expiry(address: &ConnectionAddr) -> Option<SystemTime> {
    let ConnectionAddr::TcpTls { host, port, .. } = address else {
        return None;
    };
    let provider = Arc::new(ring::default_provider());
    let seen = Arc::new(Seen {
        provider: Arc::clone(&provider),
        certificate: Mutex::default(),
    });
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .ok()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&seen) as Arc<dyn ServerCertVerifier>)
        .with_no_client_auth();
    let name = ServerName::try_from(host.clone()).ok()?;
    let handshake = async {
        let stream = TcpStream::connect((host.as_str(), *port)).await?;
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
    };
    // A server that asks for a certificate of this client ends the handshake. Its own came before.
    let _ = tokio::time::timeout(TIMEOUT, handshake).await;
    let certificate = seen.certificate.lock();
    let certificate = certificate.unwrap_or_else(PoisonError::into_inner).take()?;
    not_after(&certificate)
}

/// Keeps the certificate that a server shows, and trusts it: nothing is sent to that server.
#[derive(Debug)]
struct Seen {
    provider: Arc<CryptoProvider>,
    certificate: Mutex<Option<Vec<u8>>>,
}

impl ServerCertVerifier for Seen {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let mut seen = self
            .certificate
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *seen = Some(certificate.to_vec());
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// The types of the values in a certificate that matter here.
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The end of a certificate's validity. The certificate begins with version, serial number,
/// algorithm, issuer and validity.
fn not_after(certificate: &[u8]) -> Option<SystemTime> {
    let body = typed(SEQUENCE, &mut typed(SEQUENCE, &mut &*certificate)?)?;
    let mut rest = body;
    if rest.first() == Some(&VERSION) {
        value(&mut rest)?;
    }
    for _serial_algorithm_issuer in 0..3 {
        value(&mut rest)?;
    }
    let mut validity = typed(SEQUENCE, &mut rest)?;
    let _not_before = value(&mut validity)?;
    let (kind, text) = value(&mut validity)?;
    let text = str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (century, text) = match kind {
        // Years from 1950 to 2049 have two digits.
        UTC_TIME if text < "50" => ("20", text),
        UTC_TIME => ("19", text),
        GENERALIZED_TIME => (text.get(..2)?, text.get(2..)?),
        _ => return None,
    };
    let part = |at: usize| text.get(at..at + 2);
    let [year, month, day] = [part(0)?, part(2)?, part(4)?];
    let [hour, minute, second] = [part(6)?, part(8)?, part(10)?];
    let time = format!("{century}{year}-{month}-{day}T{hour}:{minute}:{second}Z");
    humantime::parse_rfc3339(&time).ok()
}

/// Takes the next value off, which must be of this type.
fn typed<'a>(wanted: u8, rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (kind, content) = value(rest)?;
    (kind == wanted).then_some(content)
}

/// Takes the next value off: its type and its content.
fn value<'a>(rest: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (kind, tail) = rest.split_first()?;
    let (first, mut tail) = tail.split_first()?;
    let length = match *first {
        short @ 0..=0x7f => usize::from(short),
        long => {
            let bytes = usize::from(long & 0x7f);
            let (digits, behind) = tail.split_at_checked(bytes)?;
            if bytes > size_of::<u32>() {
                return None;
            }
            tail = behind;
            let digits = digits.iter();
            digits.fold(0, |sum, digit| sum << 8 | usize::from(*digit))
        }
    };
    let (content, behind) = tail.split_at_checked(length)?;
    *rest = behind;
    Some((*kind, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate with nothing in it but the values before its validity, and these times.
    fn certificate(kind: u8, not_after: &str) -> Vec<u8> {
        let wrap = |kind: u8, content: &[u8]| {
            let mut bytes = vec![kind, 0x81, content.len() as u8];
            bytes.extend_from_slice(content);
            bytes
        };
        let validity = [
            wrap(UTC_TIME, b"200101000000Z"),
            wrap(kind, not_after.as_bytes()),
        ];
        let body = [
            wrap(VERSION, &wrap(0x02, &[2])),
            wrap(0x02, &[1]),
            wrap(SEQUENCE, &[]),
            wrap(SEQUENCE, &[]),
            wrap(SEQUENCE, &validity.concat()),
        ];
        wrap(SEQUENCE, &wrap(SEQUENCE, &body.concat()))
    }

    #[test]
    fn the_end_of_validity_is_read_in_both_forms() {
        for (kind, text, expected) in [
            (UTC_TIME, "261117010203Z", "2026-11-17T01:02:03Z"),
            (UTC_TIME, "491231235959Z", "2049-12-31T23:59:59Z"),
            (GENERALIZED_TIME, "40960101000000Z", "4096-01-01T00:00:00Z"),
        ] {
            let expected = humantime::parse_rfc3339(expected).unwrap();
            assert_eq!(not_after(&certificate(kind, text)), Some(expected));
        }
    }

    #[test]
    fn bytes_that_are_no_certificate_have_no_end() {
        let whole = certificate(UTC_TIME, "261117010203Z");
        for cut in 0..whole.len() {
            assert_eq!(not_after(&whole[..cut]), None, "{cut}");
        }
        for text in [
            "",
            "Z",
            "2611170102Z",
            "26111701020\u{fc}Z",
            "261317010203Z",
        ] {
            assert_eq!(not_after(&certificate(UTC_TIME, text)), None, "{text}");
        }
        assert_eq!(not_after(&[SEQUENCE, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }
}
