//! A replica whose published address cannot be reached, behind an API server that forwards ports. The API server's end of the
//! WebSocket is played here: a real one forwards only to pods under a real kubelet, which needs root.

use std::net::SocketAddr;

use futures::SinkExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::*;

const DOMAIN: &str = "karpenter-provisioner.kube-system.svc";
/// Reserved for documentation (RFC 5737): no host has it.
const NOWHERE: &str = "192.0.2.1";

#[test]
fn replicas_are_read_with_their_certificates() {
    let published = [("a.addr", "10.0.0.1:9090\n"), ("a.pem", "PEM"), ("b.pem", "no address yet")];
    let published = published.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let expected =
        Replica { name: "a".to_owned(), address: "10.0.0.1:9090".to_owned(), pem: "PEM".to_owned() };
    assert_eq!(replicas(&published), [expected]);
}

/// A gRPC server with a certificate of its own, and that certificate.
#[allow(clippy::disallowed_methods, reason = "it ends with the test")]
async fn replica() -> (SocketAddr, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate =
        rcgen::CertificateParams::new(vec![DOMAIN.to_owned()]).unwrap().self_signed(&key).unwrap();
    let identity = Identity::from_pem(certificate.pem(), key.serialize_pem());
    let (_reporter, health) = tonic_health::server::health_reporter();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut server = Server::builder().tls_config(ServerTlsConfig::new().identity(identity)).unwrap();
    tokio::spawn(server.add_service(health).serve_with_incoming(TcpIncoming::from(listener)));
    (address, certificate.pem())
}

/// An API server that forwards every port of pod `karpenter-0` to the same port of this machine.
#[allow(clippy::disallowed_methods, reason = "it ends with the test")]
async fn api_server() -> Api<Pod> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(forward_port(stream));
        }
    });
    let config = kube::Config::new(format!("http://{address}").parse().unwrap());
    Api::namespaced(kube::Client::try_from(config).unwrap(), "kube-system")
}

#[allow(clippy::result_large_err, reason = "the type of the handshake's callback")]
async fn forward_port(stream: TcpStream) {
    let mut asked = String::new();
    let handshake = |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        asked = request.uri().to_string();
        let protocol = "v4.channel.k8s.io".parse().unwrap();
        response.headers_mut().insert("sec-websocket-protocol", protocol);
        Ok(response)
    };
    let mut socket = tokio_tungstenite::accept_hdr_async(stream, handshake).await.unwrap();
    let (path, port) = asked.split_once("ports=").expect("the port in the query");
    assert!(path.contains("/namespaces/kube-system/pods/karpenter-0/portforward"), "{path}");
    let port: u16 = port.trim_end_matches('&').parse().unwrap();
    let [low, high] = port.to_le_bytes();
    // Channel 0 carries data and channel 1 errors; each begins with the port.
    for channel in [0, 1] {
        socket.send(Message::binary(vec![channel, low, high])).await.unwrap();
    }
    let mut pod = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let mut buffer = vec![0; 16 << 10];
    loop {
        tokio::select! {
            read = pod.read(&mut buffer) => {
                let Ok(count @ 1..) = read else { break };
                let frame = [&[0], &buffer[..count]].concat();
                if socket.send(Message::binary(frame)).await.is_err() { break }
            }
            message = socket.next() => match message {
                Some(Ok(Message::Binary(frame))) if frame.first() == Some(&0) => {
                    pod.write_all(&frame[1..]).await.unwrap();
                }
                Some(Ok(_)) => {}
                _ => break,
            }
        }
    }
}

/// A gRPC server without TLS.
#[allow(clippy::disallowed_methods, reason = "it ends with the test")]
async fn plain_replica() -> SocketAddr {
    let (_reporter, health) = tonic_health::server::health_reporter();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(Server::builder().add_service(health).serve_with_incoming(TcpIncoming::from(listener)));
    address
}

/// A way to `server` that, once it is cut, still takes every byte and passes none on.
#[allow(clippy::disallowed_methods, reason = "it ends with the test")]
async fn way_to(server: SocketAddr, cut: CancellationToken) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let cut = cut.clone();
            tokio::spawn(async move {
                let mut far = TcpStream::connect(server).await.unwrap();
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                    () = cut.cancelled() => {
                        let _ = tokio::io::copy(&mut near, &mut tokio::io::sink()).await;
                    }
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn a_connection_that_leads_nowhere_any_more_is_noticed_in_bounded_time() {
    let cut = CancellationToken::new();
    let address = way_to(plain_replica().await, cut.clone()).await;
    let mut client = HealthClient::new(insecurely(&address.to_string()).await.unwrap());
    let watched = HealthCheckRequest { service: String::new() };
    let mut stream = client.watch(watched).await.unwrap().into_inner();
    assert_eq!(stream.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    cut.cancel();
    // From here on time passes as fast as everybody waits.
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let lost = stream.message().await.expect_err("nobody is there");
    let took = began.elapsed();
    assert!(took <= PROBE_EVERY + PROBE_ANSWER + Duration::from_secs(1), "{took:?}: {lost}");
}

async fn status(channel: Channel) -> ServingStatus {
    let answer = HealthClient::new(channel).check(HealthCheckRequest { service: String::new() }).await;
    answer.unwrap().get_ref().status()
}

#[tokio::test]
async fn a_replica_out_of_reach_is_asked_through_the_api_server() {
    let (address, pem) = replica().await;
    let unreachable =
        Replica { name: "karpenter-0".into(), address: format!("{NOWHERE}:{}", address.port()), pem };
    let channel = to_any(&api_server().await, DOMAIN, &[unreachable]).await.unwrap();
    assert_eq!(status(channel).await, ServingStatus::Serving);
}

#[tokio::test]
async fn a_replica_that_shows_another_certificate_is_not_believed_either_way() {
    let ((address, _), (_, other)) = (replica().await, replica().await);
    let other = Replica { name: "karpenter-0".into(), address: address.to_string(), pem: other };
    let error = to_any(&api_server().await, DOMAIN, &[other]).await.unwrap_err().to_string();
    assert!(error.contains("127.0.0.1") && error.contains("port-forward to karpenter-0"), "{error}");
}
