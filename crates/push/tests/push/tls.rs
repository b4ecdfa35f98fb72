//! HTTPS: whom the handler trusts.

use std::io::{BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use baton_push::Push;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::service::{handle_one, read_request};

/// An authority that no system trusts.
fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A service with a certificate of this authority for localhost. Returns its port.
fn service(issuer: &CertifiedIssuer<'static, KeyPair>) -> u16 {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap();
    let certificates: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for (at, stream) in listener.incoming().enumerate() {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let stream = StreamOwned::new(session, stream.unwrap());
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream);
                while read_request(&mut reader, at).is_some() {
                    // The body has the number of the connection.
                    let body = format!("[\"SADD\",\"connections\",{at}]");
                    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-baton-effects";
                    let length = body.len();
                    let answer = format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}");
                    reader.get_mut().write_all(answer.as_bytes()).unwrap();
                }
            });
        }
    });
    port
}

fn push(host: &str, port: u16) -> baton_push::PushBuilder {
    Push::to(&format!("https://{host}:{port}/")).unwrap()
}

#[tokio::test]
async fn a_certificate_of_a_named_authority_is_trusted_and_connections_are_reused() {
    let issuer = authority();
    let port = service(&issuer);
    let push = push("localhost", port).ca_pem(issuer.pem().as_bytes());
    let push = push.build().unwrap();
    let mut connections = Vec::new();
    for _ in 0..3 {
        let message = baton::Message::new(1, b"text");
        let (outcome, effects) = crate::service::handle(&push, message).await;
        assert_eq!(outcome, "done");
        connections.push(effects);
    }
    assert!(connections.iter().all(|effects| *effects == connections[0]));
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_costs_no_attempt() {
    let issuer = authority();
    let port = service(&issuer);
    let other = authority();
    let strange = push("localhost", port).ca_pem(other.pem().as_bytes());
    let outcome = handle_one(&strange.build().unwrap()).await;
    let expected = format!("unavailable: the certificate of localhost:{port} is not trusted: ");
    assert!(outcome.starts_with(&expected), "{outcome}");
    let other_name = push("127.0.0.1", port).ca_pem(issuer.pem().as_bytes());
    let outcome = handle_one(&other_name.build().unwrap()).await;
    let expected = format!("unavailable: the certificate of 127.0.0.1:{port} is not trusted: ");
    assert!(outcome.starts_with(&expected), "{outcome}");
}

#[tokio::test]
async fn a_service_that_speaks_no_tls_costs_no_attempt() {
    let issuer = authority();
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = mute.local_addr().unwrap().port();
    let push = push("127.0.0.1", port)
        .ca_pem(issuer.pem().as_bytes())
        .timeout(Duration::from_millis(200));
    let outcome = handle_one(&push.build().unwrap()).await;
    let expected = format!("unavailable: no connection to 127.0.0.1:{port} within 200ms");
    assert_eq!(outcome, expected);
}

#[test]
fn a_file_without_certificates_is_refused() {
    for pem in [
        "",
        "hello",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        let push = push("localhost", 1).ca_pem(pem.as_bytes());
        let error = push.build().map(|_| ()).unwrap_err().to_string();
        assert!(error.starts_with("no CA certificates: "), "{error}");
    }
}

#[test]
fn authorities_without_tls_are_refused() {
    let push = Push::to("http://localhost/").unwrap();
    let push = push.ca_pem(authority().pem().as_bytes());
    let error = push.build().map(|_| ()).unwrap_err().to_string();
    assert_eq!(error, "only an https:// URL needs CA certificates");
}
