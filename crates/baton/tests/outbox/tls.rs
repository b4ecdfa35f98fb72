//! An outbox behind TLS. A proxy in front of a private Postgres, which is on a socket, speaks it.

use std::sync::Arc;

use baton::{Outbox, Warning};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio_rustls::TlsAcceptor;

use super::database::shared;
use super::fleet::until;
use super::{rows, started};

/// What a client of Postgres sends first if it wants TLS.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// Serves TLS for `localhost` in front of a socket. Returns its port, and the authority as PEM.
async fn proxy(socket: String) -> (u16, String) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let localhost = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = localhost.signed_by(&key, &authority).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client, acceptor.clone(), socket.clone()));
        }
    });
    (port, authority.pem())
}

/// Takes a client that asks for TLS, and no other.
async fn serve(mut client: TcpStream, acceptor: TlsAcceptor, socket: String) {
    let mut first = [0; SSL_REQUEST.len()];
    if client.read_exact(&mut first).await.is_err() || first != SSL_REQUEST {
        return;
    }
    client.write_all(b"S").await.unwrap();
    if let Ok(mut client) = acceptor.accept(client).await {
        let mut server = UnixStream::connect(socket).await.unwrap();
        let _ = copy_bidirectional(&mut client, &mut server).await;
    }
}

#[tokio::test]
async fn an_outbox_speaks_tls_with_a_server_that_it_trusts() {
    let Some(database) = shared().await else {
        return;
    };
    database.outbox("secret").await;
    database.insert("secret", 1, 3).await;
    let (port, authority) = proxy(database.socket()).await;
    let outbox = |host: &str, mode: &str| {
        let address = format!("postgres://baton@{host}:{port}/postgres?sslmode={mode}");
        Outbox::new(&address).unwrap().table("secret")
    };
    let trusting = |host, mode| outbox(host, mode).ca_pem(authority.as_bytes()).unwrap();
    for (source, reason) in [
        (
            outbox("localhost", "require"),
            "cannot connect to Postgres: invalid peer certificate: UnknownIssuer",
        ),
        (
            trusting("127.0.0.1", "require"),
            "cannot connect to Postgres: invalid peer certificate: certificate not valid for name \"127.0.0.1\"",
        ),
        // The proxy takes only clients that ask for TLS.
        (
            trusting("localhost", "disable"),
            "cannot connect to Postgres: ",
        ),
    ] {
        let (_fleet, generator, worker) = started(source).await;
        until("a warning", || !generator.warnings().is_empty()).await;
        let warnings = generator.warnings();
        assert!(
            matches!(&warnings[..], [Warning::SourceFailed { reason: why }] if why.starts_with(reason)),
            "{warnings:?}"
        );
        generator.stop().await;
        worker.stop().await;
    }
    let (fleet, generator, worker) = started(trusting("localhost", "require")).await;
    fleet.all_done(3).await;
    assert_eq!(fleet.texts(), rows(3));
    database.until_empty("secret").await;
    generator.stop().await;
    worker.stop().await;
}

#[test]
fn authorities_that_are_none_are_refused() {
    let half = "-----BEGIN CERTIFICATE-----\nAAAA\n";
    let wrong = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (pem, problem) in [
        ("", "no CA certificates: there is no PEM block CERTIFICATE"),
        (half, "no CA certificates: a PEM block is malformed"),
        (wrong, "no CA certificates: a certificate is malformed"),
    ] {
        let outbox = Outbox::new("host=localhost").unwrap();
        let error = outbox.ca_pem(pem.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), problem);
    }
}
