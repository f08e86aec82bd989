//! Which server a caller talks to, and which it refuses to.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use k8s_openapi::api::core::v1::ConfigMap;
use tonic::Code;

use super::fixture::{Calling, PROVISIONER, ask, serve, serve_at, serve_with, subject, warnings};
use crate::{
    grpc::{
        errors,
        published::{self, Replica},
    },
    watch::{Change, Index as _},
};

#[tokio::test]
async fn a_server_with_another_certificate_than_the_published_one_is_refused() {
    let (server, other) = (serve(None).await, serve(None).await);
    let calling = Calling::to(&[], PROVISIONER);
    let impostor = Replica { addr: server.addr, certificates: vec![other.issued.certificate()] };
    calling.trust.set(BTreeMap::from([("w-1".to_owned(), impostor)]));
    let refused = ask(calling.peers.any(), "caller").await.unwrap_err();
    assert_eq!(
        (refused.code(), errors::reason(&refused).as_deref()),
        (Code::Unavailable, Some("UNREACHABLE"))
    );
    assert!(refused.message().contains("not one that it has published"), "{refused}");
}

#[tokio::test]
async fn an_expired_certificate_is_refused_even_when_published() {
    let server = serve_with(None, SystemTime::now() - Duration::from_secs(7200), |server| server).await;
    let calling = Calling::to(&[("w-1", &server)], PROVISIONER);
    let refused = ask(calling.peers.any(), "caller").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.message().to_lowercase().contains("expired"), "{refused}");
}

#[tokio::test]
async fn clocks_that_differ_by_ten_minutes_keep_nobody_apart() {
    let (ten_minutes, now) = (Duration::from_secs(600), SystemTime::now());
    for issued_at in [now - ten_minutes, now + ten_minutes] {
        let server = serve_with(None, issued_at, |server| server).await;
        let calling = Calling::to(&[("w-1", &server)], PROVISIONER);
        assert_eq!(ask(calling.peers.any(), "caller").await.unwrap(), "service provisioner");
    }
}

#[tokio::test]
async fn a_renewal_fails_no_call_whether_its_connection_is_old_or_new() {
    let server = serve(None).await;
    let old = Calling::to(&[("w-1", &server)], PROVISIONER);
    ask(old.peers.any(), "caller").await.unwrap();

    let renewed = subject(server.addr).issue(SystemTime::now(), Duration::from_secs(3600)).unwrap();
    let both = vec![server.issued.certificate(), renewed.certificate()];
    let replica =
        |certificates| BTreeMap::from([("w-1".to_owned(), Replica { addr: server.addr, certificates })]);
    let new = Calling::to(&[], PROVISIONER);
    for calling in [&old, &new] {
        calling.trust.set(replica(both.clone()));
    }
    ask(new.peers.any(), "caller").await.expect("still shows the first");
    server.current.replace(&renewed);
    ask(old.peers.any(), "caller").await.expect("a connection that stands is not touched");
    let fresh = Calling::to(&[], PROVISIONER);
    fresh.trust.set(replica(both));
    ask(fresh.peers.any(), "caller").await.expect("a new connection gets the renewed one");
    for calling in [&old, &new, &fresh] {
        calling.trust.set(replica(vec![renewed.certificate()]));
        ask(calling.peers.any(), "caller").await.unwrap();
    }
    let late = Calling::to(&[("w-1", &server)], PROVISIONER);
    assert_eq!(
        ask(late.peers.any(), "caller").await.unwrap_err().code(),
        Code::Unavailable,
        "the first is no more"
    );
}

#[tokio::test]
async fn nobody_there_is_said_with_the_place_that_was_looked_at() {
    let calling = Calling::to(&[], PROVISIONER);
    let missing = ask(calling.peers.any(), "caller").await.unwrap_err();
    assert_eq!(
        (missing.code(), errors::reason(&missing).as_deref()),
        (Code::Unavailable, Some("NO_REPLICA"))
    );
    assert_eq!(
        missing.message(),
        "no replica of interruption-watcher has published a certificate in ConfigMap \
         kube-system/karpenter-interruption-watcher-trust; is it running?"
    );
}

#[tokio::test]
async fn calls_go_round_all_replicas_and_past_those_that_are_gone() {
    let (a, b, mut gone) = (serve(None).await, serve(None).await, serve(None).await);
    gone.stop.cancel();
    (&mut gone.task).await.unwrap().unwrap();
    let calling = Calling::to(&[("a", &a), ("b", &b), ("gone", &gone)], PROVISIONER);
    for _ in 0..12 {
        ask(calling.peers.any(), "caller").await.expect("a replica that cannot be reached costs no call");
    }
    let handled = |running: &super::fixture::Running| {
        let text = running.metrics.prometheus_text();
        let line =
            text.lines().find(|line| line.starts_with("grpc_server_handled_total{")).unwrap().to_owned();
        line.rsplit(' ').next().unwrap().parse::<u32>().unwrap()
    };
    assert!(handled(&a) >= 3 && handled(&b) >= 3, "{} {}", handled(&a), handled(&b));
    assert_eq!(handled(&a) + handled(&b), 12);
}

#[tokio::test]
async fn the_leader_or_a_named_replica_is_asked_and_nobody_else() {
    let (a, b) = (serve(None).await, serve(None).await);
    let calling = Calling::to(&[("a", &a), ("b", &b)], PROVISIONER);
    let nobody = ask(calling.peers.leader(), "caller").await.unwrap_err();
    assert_eq!(errors::reason(&nobody).as_deref(), Some("NO_LEADER"));
    assert!(nobody.message().contains("kube-system/karpenter-interruption-watcher"), "{nobody}");

    calling.leader.set(Some("b".to_owned()));
    for _ in 0..4 {
        ask(calling.peers.leader(), "caller").await.unwrap();
    }
    ask(calling.peers.replica("a"), "caller").await.unwrap();
    let count =
        |running: &super::fixture::Running| running.metrics.prometheus_text().contains("grpc_code=\"OK\"} 4");
    assert!(count(&b) && !count(&a));
    calling.leader.set(Some("c".to_owned()));
    let unknown = ask(calling.peers.leader(), "caller").await.unwrap_err();
    assert_eq!(errors::reason(&unknown).as_deref(), Some("NO_SUCH_REPLICA"));
}

#[tokio::test]
async fn a_replica_that_was_restarted_elsewhere_is_found_again() {
    let first = serve(None).await;
    let calling = Calling::to(&[("w-1", &first)], PROVISIONER);
    ask(calling.peers.any(), "caller").await.unwrap();
    let second = serve(None).await;
    first.stop.cancel();
    calling.publish(&[("w-1", &second)]);
    ask(calling.peers.any(), "caller").await.unwrap();
    assert_eq!(calling.peers.replicas(), ["w-1"]);
}

#[tokio::test]
async fn services_talk_over_ipv6_where_ipv4_is_refused() {
    let server = serve_at("[::1]:0").await;
    let port = server.addr.port();
    assert!(tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err(), "only IPv6 listens");
    let published = format!("{}", server.addr);
    assert_eq!(published, format!("[::1]:{port}"), "as it stands in the trust ConfigMap");
    let calling = Calling::to(&[("w-1", &server)], PROVISIONER);
    assert_eq!(ask(calling.peers.any(), "caller").await.unwrap(), "service provisioner");
}

#[tokio::test]
async fn replicas_that_cannot_be_reached_get_no_share_of_the_work() {
    let (alive, dead) = (serve(None).await, serve(None).await);
    let calling = Calling::to(&[("a", &alive), ("b", &dead)], PROVISIONER);
    assert_eq!(calling.peers.replicas(), ["a", "b"], "nobody is known to be down yet");
    dead.stop.cancel();
    // The entry of a replica whose machine died stays published until its certificate expires.
    while ask(calling.peers.replica("b"), "caller").await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert_eq!(calling.peers.replicas(), ["a"]);
    alive.stop.cancel();
    while ask(calling.peers.replica("a"), "caller").await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert_eq!(calling.peers.replicas(), ["a", "b"], "where all are down, all are tried");
}

fn config_map(entries: &[(&str, &str)]) -> Change<ConfigMap> {
    let data = entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Change::Applied(ConfigMap { data: Some(data), ..ConfigMap::default() }.into())
}

#[tokio::test]
async fn malformed_trust_entries_are_named_once_in_the_log_and_valid_ones_go_on() {
    let server = serve(None).await;
    let (addr, pem) = (server.addr.to_string(), server.issued.pem.as_str());
    let mut calling = Calling::to(&[], PROVISIONER);
    let with_garbage = [
        ("garbled-address.addr", "nowhere"),
        ("garbled-address.pem", pem),
        ("garbled-certificate.addr", "127.0.0.1:1"),
        ("garbled-certificate.pem", "-----BEGIN CERTIFICATE-----\nhello\n-----END CERTIFICATE-----"),
        ("garbled-no-address.pem", pem),
        ("garbled-no-certificate.addr", "127.0.0.1:1"),
        ("w-1.addr", &addr),
        ("w-1.pem", pem),
    ];
    for _ in 0..3 {
        calling.trust.change(config_map(&with_garbage)).await;
        assert_eq!(calling.peers.replicas(), ["w-1"]);
        assert_eq!(ask(calling.peers.any(), "caller").await.unwrap(), "service provisioner");
    }
    let logged: Vec<_> = warnings().into_iter().filter(|line| line.contains("garbled-address")).collect();
    assert_eq!(logged.len(), 1, "{logged:?}");
    for part in [
        "karpenter-interruption-watcher-trust",
        "garbled-address: \\\"nowhere\\\" is no address",
        "garbled-certificate: the certificate is no PEM",
        "garbled-no-address: there is a certificate and no address",
        "garbled-no-certificate: there is an address and no certificate",
    ] {
        assert!(logged[0].contains(part), "{part} in {}", logged[0]);
    }
}

#[tokio::test]
async fn where_every_trust_entry_is_malformed_a_call_is_refused_with_the_reasons() {
    let server = serve(None).await;
    let (addr, pem) = (server.addr.to_string(), server.issued.pem.as_str());
    let mut calling = Calling::to(&[], PROVISIONER);
    let all_garbage = [("a.addr", "nowhere"), ("a.pem", pem), ("b.addr", "127.0.0.1:1"), ("b.pem", "hello")];
    calling.trust.change(config_map(&all_garbage)).await;
    let refused = ask(calling.peers.any(), "caller").await.unwrap_err();
    assert_eq!(
        (refused.code(), errors::reason(&refused).as_deref()),
        (Code::Unavailable, Some("NO_REPLICA"))
    );
    for part in [
        "kube-system/karpenter-interruption-watcher-trust",
        "a: \"nowhere\" is no address",
        "b: the certificate is no PEM",
        "within 10 s",
    ] {
        assert!(refused.message().contains(part), "{part} in {refused}");
    }
    // The replica has corrected its entry.
    calling.trust.change(config_map(&[("a.addr", &addr), ("a.pem", pem), ("b.addr", "nowhere")])).await;
    assert_eq!(ask(calling.peers.any(), "caller").await.unwrap(), "service provisioner");
}

#[test]
fn what_a_replica_publishes_is_what_callers_read() {
    for addr in ["10.1.2.3:9090", "[2001:db8::7]:9090"] {
        let addr = addr.parse().unwrap();
        let issued = subject(addr).issue(SystemTime::now(), Duration::from_secs(3600)).unwrap();
        let data = BTreeMap::from([
            (published::addr_key("w-1"), addr.to_string()),
            (published::pem_key("w-1"), issued.pem.clone()),
        ]);
        let content = published::read(&data);
        let replica = Replica { addr, certificates: vec![issued.certificate()] };
        assert_eq!(content.replicas, BTreeMap::from([("w-1".to_owned(), replica)]));
        assert!(content.faults.is_empty(), "{:?}", content.faults);
    }
}
