//! Why client and server do not accept each other's certificates.

use std::error::Error as _;
use std::io;
use std::sync::Arc;

use rustls::{AlertDescription, CertificateError};

/// Why a connection with TLS failed. The words say what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateProblem {
    /// The client does not trust the authority that signed the server's certificate.
    #[error(
        "this client does not trust the authority that signed the server's certificate: give the \
         client that authority's certificate"
    )]
    UnknownAuthority,
    /// The server's certificate does not have the name or address by which the client knows the server.
    #[error(
        "the server's certificate is for another name: use a name that the certificate has, or give \
         the server a certificate with the name or IP address that this client uses"
    )]
    OtherName,
    /// The server's certificate is not valid now.
    #[error("the server's certificate has expired or is not valid yet: renew it, or set the clock")]
    OutOfDate,
    /// The server shows the certificate of an authority, as `openssl req -x509` makes it.
    #[error(
        "the server's certificate is that of an authority, which no server may show: make one with \
         basicConstraints=CA:FALSE, or let the authority sign one"
    )]
    Authority,
    /// The server wants a certificate, and the client has none.
    #[error("the server wants a certificate from this client: give the client one, and its key")]
    ClientHasNone,
    /// The server does not accept the client's certificate.
    #[error(
        "the server refuses this client's certificate: give the client one that is valid and signed \
         by an authority that the server trusts"
    )]
    ClientRefused,
}

impl CertificateProblem {
    /// What is wrong with a certificate, if that is why a connection failed.
    pub(crate) fn of(error: &redis::RedisError) -> Option<Self> {
        let error = error.source()?;
        let error = error.downcast_ref::<Arc<dyn std::error::Error + Send + Sync>>()?;
        let error = error.downcast_ref::<io::Error>()?.get_ref()?;
        match error.downcast_ref::<rustls::Error>()? {
            rustls::Error::InvalidCertificate(error) => Self::of_server(error),
            rustls::Error::AlertReceived(alert) => Self::of_client(*alert),
            _ => None,
        }
    }

    fn of_server(error: &CertificateError) -> Option<Self> {
        match error {
            CertificateError::UnknownIssuer => Some(Self::UnknownAuthority),
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Some(Self::OtherName)
            }
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Some(Self::OutOfDate),
            CertificateError::Other(other)
                if other.0.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity) =>
            {
                Some(Self::Authority)
            }
            _ => None,
        }
    }

    fn of_client(alert: AlertDescription) -> Option<Self> {
        match alert {
            AlertDescription::CertificateRequired => Some(Self::ClientHasNone),
            AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::UnsupportedCertificate => Some(Self::ClientRefused),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use rustls::OtherError;

    use super::*;

    #[test]
    fn a_certificate_of_an_authority_is_told_from_other_faults() {
        let other = |fault| CertificateError::Other(OtherError(Arc::new(fault)));
        let problem = |fault| CertificateProblem::of_server(&other(fault));
        let authority = Some(CertificateProblem::Authority);
        assert_eq!(problem(webpki::Error::CaUsedAsEndEntity), authority);
        assert_eq!(problem(webpki::Error::BadDer), None);
    }
}
