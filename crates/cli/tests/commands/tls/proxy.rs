//! TLS in front of a server that has none, and the authority behind its certificate.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use baton_server::PrivateServer;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// An authority that signs certificates, and the file with which clients trust it.
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

/// A server's certificate and the key to it.
pub(super) struct Certificate {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let authority = Self {
            issuer,
            folder: tempfile::tempdir().unwrap(),
        };
        std::fs::write(authority.file(), authority.issuer.pem()).unwrap();
        authority
    }

    /// A certificate for the server of this name.
    pub(super) fn certify(&self, name: &str) -> Certificate {
        self.sign(CertificateParams::new([name.to_owned()]).unwrap())
    }

    /// The same, which expires then.
    pub(super) fn certify_until(&self, name: &str, end: SystemTime) -> Certificate {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        let end = end.duration_since(UNIX_EPOCH).unwrap();
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + end;
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Certificate {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Certificate {
            chain: vec![certificate.der().clone()],
            key: key.into(),
        }
    }

    /// Files with a caller's certificate and its key.
    pub(super) fn certify_caller(&self) -> [PathBuf; 2] {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["caller".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let files = ["caller.pem", "caller.key"].map(|name| self.folder.path().join(name));
        std::fs::write(&files[0], certificate.pem()).unwrap();
        std::fs::write(&files[1], key.serialize_pem()).unwrap();
        files
    }

    /// The authority's own certificate.
    pub(super) fn file(&self) -> PathBuf {
        self.folder.path().join("authority.pem")
    }
}

/// Takes TLS on a port of its own and hands what it hears to a server. It ends when dropped.
pub(super) struct TlsProxy {
    port: u16,
    _runtime: Runtime,
}

impl TlsProxy {
    pub(super) fn start(server: &PrivateServer, certificate: Certificate) -> Self {
        Self::asking(server, certificate, None)
    }

    /// Lets in only callers with a certificate of this authority, if one is given.
    pub(super) fn asking(
        server: &PrivateServer,
        certificate: Certificate,
        callers: Option<&Authority>,
    ) -> Self {
        let provider = Arc::new(ring::default_provider());
        let verifier = match callers {
            None => WebPkiClientVerifier::no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.issuer.der().clone()).unwrap();
                let roots = Arc::new(roots);
                WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
                    .build()
                    .unwrap()
            }
        };
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(certificate.chain, certificate.key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime
            .block_on(TcpListener::bind(("127.0.0.1", 0)))
            .unwrap();
        let port = listener.local_addr().unwrap().port();
        let behind = ("127.0.0.1", server.port().unwrap());
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    // A caller that does not trust the certificate hangs up here.
                    let mut outside = acceptor.accept(stream).await?;
                    let mut inside = TcpStream::connect(behind).await?;
                    copy_bidirectional(&mut outside, &mut inside).await
                });
            }
        });
        Self {
            port,
            _runtime: runtime,
        }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }
}
