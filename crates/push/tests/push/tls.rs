//! HTTPS: whom the handler trusts.

use std::io::{BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use baton_push::Push;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::service::{handle_one, read_request};

/// An authority that no system trusts.
fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// The certificate of an authority for localhost, as `openssl req -x509` makes it, and its key.
fn self_signed(change: impl FnOnce(&mut CertificateParams)) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    change(&mut params);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A service with a certificate of this authority for localhost. Returns its port.
fn service(issuer: &CertifiedIssuer<'static, KeyPair>) -> u16 {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap();
    service_with(certificate.der(), &key)
}

/// A service with this certificate. Returns its port.
fn service_with(certificate: &CertificateDer<'static>, key: &KeyPair) -> u16 {
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
    // This does not check that the key is that of the certificate.
    let certified = CertifiedKey::new(vec![certificate.clone()], key);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
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
async fn a_self_signed_certificate_is_trusted_if_it_is_the_named_one() {
    let named = self_signed(|_| {});
    let port = service_with(named.der(), named.key());
    let outcome = |host: &str, pem: String| {
        let push = push(host, port).ca_pem(pem.as_bytes()).build().unwrap();
        async move { handle_one(&push).await }
    };
    assert_eq!(outcome("localhost", named.pem()).await, "done");
    let two = format!("{}{}", authority().pem(), named.pem());
    assert_eq!(outcome("localhost", two).await, "done");
    // Another certificate of the same key and names is not the named one.
    let mut again = CertificateParams::new(["localhost".to_owned()]).unwrap();
    again.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let again = again.self_signed(named.key()).unwrap();
    assert_eq!(
        outcome("localhost", again.pem()).await,
        format!(
            "unavailable: the certificate of localhost:{port} is not trusted: it is that of an \
             authority, and not one of the trusted ones"
        )
    );
    assert_eq!(
        outcome("127.0.0.1", named.pem()).await,
        format!(
            "unavailable: the certificate of 127.0.0.1:{port} is not trusted: it is for localhost, \
             not for 127.0.0.1"
        )
    );
}

#[tokio::test]
async fn a_named_certificate_must_be_in_date() {
    for (years, why) in [
        ((1990, 2000), "it expired at 2000-01-01T00:00:00Z"),
        ((3000, 3010), "it is not valid before 3000-01-01T00:00:00Z"),
    ] {
        let named = self_signed(|params| {
            params.not_before = rcgen::date_time_ymd(years.0, 1, 1);
            params.not_after = rcgen::date_time_ymd(years.1, 1, 1);
        });
        let port = service_with(named.der(), named.key());
        let push = push("localhost", port).ca_pem(named.pem().as_bytes());
        let place = format!("the certificate of localhost:{port}");
        let expected = format!("unavailable: {place} is not trusted: {why}");
        assert_eq!(handle_one(&push.build().unwrap()).await, expected);
    }
}

#[tokio::test]
async fn a_named_certificate_needs_its_key() {
    let named = self_signed(|_| {});
    let thief = KeyPair::generate().unwrap();
    let port = service_with(named.der(), &thief);
    let push = push("localhost", port).ca_pem(named.pem().as_bytes());
    let place = format!("the certificate of localhost:{port}");
    let expected = format!("unavailable: {place} is not trusted: a signature is wrong");
    assert_eq!(handle_one(&push.build().unwrap()).await, expected);
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_costs_no_attempt() {
    let issuer = authority();
    let port = service(&issuer);
    let other = self_signed(|params| {
        params.distinguished_name.push(DnType::CommonName, "other");
    });
    let strange = push("localhost", port).ca_pem(other.pem().as_bytes());
    let outcome = handle_one(&strange.build().unwrap()).await;
    let untrusted = |host: &str, why: &str| {
        format!("unavailable: the certificate of {host}:{port} is not trusted: {why}")
    };
    let unknown = "no trusted authority has signed it";
    assert_eq!(outcome, untrusted("localhost", unknown));
    let other_name = push("127.0.0.1", port).ca_pem(issuer.pem().as_bytes());
    let outcome = handle_one(&other_name.build().unwrap()).await;
    let wrong_name = "it is for localhost, not for 127.0.0.1";
    assert_eq!(outcome, untrusted("127.0.0.1", wrong_name));
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

#[tokio::test]
async fn a_service_that_speaks_http_is_named_as_such() {
    let greeter = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = greeter.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = greeter.accept().unwrap();
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .unwrap();
        let _ = stream.read(&mut [0; 1024]);
    });
    let issuer = authority();
    let push = push("127.0.0.1", port).ca_pem(issuer.pem().as_bytes());
    assert_eq!(
        handle_one(&push.build().unwrap()).await,
        format!("unavailable: no TLS with 127.0.0.1:{port}: its answer is no TLS")
    );
}

#[test]
fn a_file_without_certificates_is_refused() {
    for (pem, problem) in [
        ("", "it has no PEM block CERTIFICATE"),
        ("hello", "it has no PEM block CERTIFICATE"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "a certificate in it is malformed",
        ),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n",
            "a PEM block in it has no end",
        ),
        (
            "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
            "a PEM block in it is not base64",
        ),
        (
            "-----BEGIN CERTIFICATE\n",
            "a line that begins a PEM block in it is malformed",
        ),
    ] {
        let push = push("localhost", 1).ca_pem(pem.as_bytes());
        let error = push.build().map(|_| ()).unwrap_err().to_string();
        assert_eq!(error, format!("no CA certificates: {problem}"));
    }
}

#[test]
fn authorities_without_tls_are_refused() {
    let push = Push::to("http://localhost/").unwrap();
    let push = push.ca_pem(authority().pem().as_bytes());
    let error = push.build().map(|_| ()).unwrap_err().to_string();
    assert_eq!(error, "only an https:// URL needs CA certificates");
}
