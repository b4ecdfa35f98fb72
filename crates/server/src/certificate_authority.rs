//! An authority that signs certificates for private servers and for their clients.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

use crate::{CertificateFiles, Error};

/// Signs certificates for tests. Its files are gone when the owner drops it.
#[derive(Debug)]
pub struct CertificateAuthority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl CertificateAuthority {
    /// An authority of this name, with a key of its own.
    ///
    /// # Errors
    ///
    /// If its folder cannot be written.
    pub fn new(name: &str) -> Result<Self, Error> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().map_err(failed)?;
        let authority = Self {
            issuer: CertifiedIssuer::self_signed(params, key).map_err(failed)?,
            folder: tempfile::tempdir().map_err(Error::io("create a folder"))?,
        };
        write(&authority.file(), &authority.issuer.pem())?;
        Ok(authority)
    }

    /// The authority's own certificate, for those who trust it.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("authority.pem")
    }

    /// A certificate for a server with these names and IP addresses, or for a client.
    ///
    /// # Errors
    ///
    /// If a name is malformed, or if the files cannot be written.
    pub fn certify(&self, names: &[&str]) -> Result<CertificateFiles, Error> {
        self.sign(params(names)?)
    }

    /// The same, which expires then.
    ///
    /// # Errors
    ///
    /// As for [`CertificateAuthority::certify`].
    pub fn certify_until(
        &self,
        names: &[&str],
        end: SystemTime,
    ) -> Result<CertificateFiles, Error> {
        let mut params = params(names)?;
        let end = end.duration_since(UNIX_EPOCH).unwrap_or_default();
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + end;
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Result<CertificateFiles, Error> {
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        let folder = tempfile::tempdir_in(self.folder.path())
            .map_err(Error::io("create a folder"))?
            .keep();
        let files = CertificateFiles {
            ca: self.file(),
            cert: folder.join("cert.pem"),
            key: folder.join("key.pem"),
        };
        write(&files.cert, &certificate.pem())?;
        write(&files.key, &key.serialize_pem())?;
        Ok(files)
    }
}

fn params(names: &[&str]) -> Result<CertificateParams, Error> {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    CertificateParams::new(names).map_err(failed)
}

fn write(file: &Path, pem: &str) -> Result<(), Error> {
    fs::write(file, pem).map_err(Error::io(format!("write {}", file.display())))
}

fn failed(error: rcgen::Error) -> Error {
    Error::io("make a certificate")(io::Error::other(error))
}
