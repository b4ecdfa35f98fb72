//! The certificates of a connection with TLS.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use redis::{ClientTlsConfig, TlsCertificates};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::{Error, Setting};

/// Max bytes of a file of certificates. One that never ends is not the one that was meant.
const MAX_PEM_BYTES: u64 = 1 << 20;

/// Files of certificates in PEM form. Without any, a connection trusts the authorities that the machine
/// trusts, and shows no certificate of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authorities that sign the servers' certificates, instead of those that the machine trusts.
    pub ca: Option<PathBuf>,
    /// This client's certificate and its key, for servers that ask for one.
    pub client: Option<(PathBuf, PathBuf)>,
}

impl TlsFiles {
    pub(super) fn certificates(&self) -> Result<TlsCertificates, Error> {
        let client_tls = match &self.client {
            None => None,
            Some((cert, key)) => Some(client(cert, key)?),
        };
        let root_cert = match &self.ca {
            None => None,
            Some(file) => Some(read(file, Content::Certificate)?),
        };
        Ok(TlsCertificates {
            client_tls,
            root_cert,
        })
    }
}

/// A client's certificate and its key.
fn client(cert: &Path, key: &Path) -> Result<ClientTlsConfig, Error> {
    let client_cert = read(cert, Content::Certificate)?;
    let client_key = read(key, Content::Key)?;
    let wrong = |why: &dyn std::fmt::Display| {
        let (cert, key) = (cert.display(), key.display());
        problem(format!("{cert} and {key} do not fit together: {why}"))
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&client_cert).collect();
    let chain = chain.map_err(|error| wrong(&error))?;
    let secret = PrivateKeyDer::from_pem_slice(&client_key).map_err(|error| wrong(&error))?;
    CertifiedKey::from_der(chain, secret, &ring::default_provider())
        .map_err(|error| wrong(&error))?;
    Ok(ClientTlsConfig {
        client_cert,
        client_key,
    })
}

/// What a file must have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Certificate,
    Key,
}

impl Content {
    fn is_in(self, pem: &[u8]) -> bool {
        match self {
            Self::Certificate => CertificateDer::from_pem_slice(pem).is_ok(),
            Self::Key => PrivateKeyDer::from_pem_slice(pem).is_ok(),
        }
    }
}

fn read(file: &Path, wanted: Content) -> Result<Vec<u8>, Error> {
    let wrong = |why: &str| problem(format!("cannot use {}: {why}", file.display()));
    let mut pem = Vec::new();
    let opened = File::open(file);
    let length = opened.and_then(|file| file.take(MAX_PEM_BYTES + 1).read_to_end(&mut pem));
    length.map_err(|error| wrong(&error.to_string()))?;
    if pem.len() as u64 > MAX_PEM_BYTES {
        return Err(wrong(&format!("it has more than {MAX_PEM_BYTES} bytes")));
    }
    if wanted.is_in(&pem) {
        return Ok(pem);
    }
    Err(wrong(match wanted {
        Content::Certificate if Content::Key.is_in(&pem) => "it has a key and no certificate",
        Content::Key if Content::Certificate.is_in(&pem) => "it has a certificate and no key",
        Content::Certificate => "it has no certificate in PEM form",
        Content::Key => "it has no private key in PEM form",
    }))
}

fn problem(problem: String) -> Error {
    Error::setting(Setting::Target, problem)
}
