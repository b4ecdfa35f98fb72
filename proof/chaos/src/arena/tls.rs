//! The certificates of a run whose servers speak TLS.

use std::net::IpAddr;

use anyhow::Result;
use baton::{Target, TlsFiles};
use baton_server::{CertificateAuthority, CertificateFiles};

/// An authority, and the certificate that it gave to all clients.
pub(super) struct Tls {
    authority: CertificateAuthority,
    client: CertificateFiles,
}

impl Tls {
    pub(super) fn new() -> Result<Self> {
        let authority = CertificateAuthority::new("chaos")?;
        let client = authority.certify(&["chaos"])?;
        Ok(Self { authority, client })
    }

    /// A certificate for servers on this address.
    pub(super) fn certify(&self, host: IpAddr) -> Result<CertificateFiles> {
        Ok(self.authority.certify(&[&host.to_string()])?)
    }

    /// The environment variables of clients.
    pub(super) fn variables(&self) -> Vec<(String, String)> {
        [
            ("BATON_TLS_CA", &self.client.ca),
            ("BATON_TLS_CERT", &self.client.cert),
            ("BATON_TLS_KEY", &self.client.key),
        ]
        .map(|(name, path)| (name.to_owned(), path.display().to_string()))
        .to_vec()
    }

    /// These servers, as a client with a certificate reaches them.
    pub(super) fn target(&self, url: &str) -> Result<Target> {
        let files = TlsFiles {
            ca: Some(self.client.ca.clone()),
            client: Some((self.client.cert.clone(), self.client.key.clone())),
        };
        Ok(Target::parse(url)?.with_tls(files)?)
    }
}
