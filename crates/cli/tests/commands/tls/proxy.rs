//! TLS in front of a server that has none.

use std::path::Path;
use std::sync::Arc;

use baton_server::{CertificateFiles, PrivateServer};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// Takes TLS on a port of its own and hands what it hears to a server. It ends when dropped.
pub(super) struct TlsProxy {
    port: u16,
    _runtime: Runtime,
}

impl TlsProxy {
    pub(super) fn start(server: &PrivateServer, certificate: &CertificateFiles) -> Self {
        Self::asking(server, certificate, None)
    }

    /// Lets in only callers with a certificate of this authority, if one is given.
    pub(super) fn asking(
        server: &PrivateServer,
        certificate: &CertificateFiles,
        callers: Option<&Path>,
    ) -> Self {
        let provider = Arc::new(ring::default_provider());
        let verifier = match callers {
            None => WebPkiClientVerifier::no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                let authority = CertificateDer::from_pem_file(authority).unwrap();
                roots.add(authority).unwrap();
                let roots = Arc::new(roots);
                WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
                    .build()
                    .unwrap()
            }
        };
        let chain = CertificateDer::from_pem_file(&certificate.cert).unwrap();
        let key = PrivateKeyDer::from_pem_file(&certificate.key).unwrap();
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![chain], key)
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
