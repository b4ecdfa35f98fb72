//! Whose certificates a push handler trusts.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::verifier::Verifier;
use crate::{PushError, tls_error};

/// Trusts the authorities in a PEM file, or else those of this system.
pub(crate) fn client_config(ca_pem: Option<&[u8]>) -> Result<Arc<ClientConfig>, PushError> {
    let (roots, named) = match ca_pem {
        Some(pem) => of_pem(pem)?,
        None => (of_system()?, Vec::new()),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Verifier::new(roots, named, Arc::clone(&provider));
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| PushError::Certificates(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier.map_err(PushError::Certificates)?))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Authorities, and the certificates that say so.
type Roots = (RootCertStore, Vec<CertificateDer<'static>>);

fn of_pem(pem: &[u8]) -> Result<Roots, PushError> {
    let bad = |problem: String| PushError::Certificates(format!("no CA certificates: {problem}"));
    let mut roots = RootCertStore::empty();
    let mut named = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| bad(tls_error::pem_problem(&error)))?;
        let added = roots.add(certificate.clone());
        added.map_err(|_| bad("a certificate in it is malformed".to_owned()))?;
        named.push(certificate);
    }
    if roots.is_empty() {
        return Err(bad("it has no PEM block CERTIFICATE".to_owned()));
    }
    Ok((roots, named))
}

fn of_system() -> Result<RootCertStore, PushError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map(|error| format!(" ({error})"));
        let why = why.unwrap_or_default();
        let problem = format!("this system has no CA certificates{why}: name a file with some");
        return Err(PushError::Certificates(problem));
    }
    Ok(roots)
}
