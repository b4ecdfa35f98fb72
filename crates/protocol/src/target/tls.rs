//! The certificates of a connection with TLS.

use std::path::{Path, PathBuf};

use redis::{ClientTlsConfig, TlsCertificates};

use crate::{Error, Setting};

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
            Some((cert, key)) => Some(ClientTlsConfig {
                client_cert: read(cert)?,
                client_key: read(key)?,
            }),
        };
        Ok(TlsCertificates {
            client_tls,
            root_cert: self.ca.as_deref().map(read).transpose()?,
        })
    }
}

fn read(file: &Path) -> Result<Vec<u8>, Error> {
    let wrong = |why: String| {
        let problem = format!("cannot read {}: {why}", file.display());
        Error::setting(Setting::Target, problem)
    };
    let pem = std::fs::read(file).map_err(|error| wrong(error.to_string()))?;
    let begins = pem.windows(11).any(|window| window == b"-----BEGIN ");
    match begins {
        true => Ok(pem),
        false => Err(wrong("it is not a PEM file".to_owned())),
    }
}
