//! The content of a trust ConfigMap: for each replica of one service its address and the certificates it may show. Reading and
//! judging only; `trust` writes it, `discovery` follows it.

use std::{collections::BTreeMap, net::SocketAddr};

use rustls_pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _};

use super::pin::is_expired;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    pub(crate) addr: SocketAddr,
    /// Empty for a replica that runs without TLS. Two around a renewal.
    pub(crate) certificates: Vec<CertificateDer<'static>>,
}

pub(crate) fn pem_key(replica: &str) -> String {
    format!("{replica}.pem")
}

pub(crate) fn addr_key(replica: &str) -> String {
    format!("{replica}.addr")
}

/// Entries that make no sense are left out: one replica's nonsense must not hide the others.
pub(crate) fn read(data: &BTreeMap<String, String>) -> BTreeMap<String, Replica> {
    let named = data.iter().filter_map(|(key, value)| Some((key.strip_suffix(".addr")?, value)));
    named
        .filter_map(|(name, addr)| {
            let addr = addr.trim().parse().ok()?;
            let pem = data.get(&pem_key(name)).map(String::as_str).unwrap_or_default();
            let certificates =
                CertificateDer::pem_slice_iter(pem.as_bytes()).filter_map(Result::ok).collect();
            Some((name.to_owned(), Replica { addr, certificates }))
        })
        .collect()
}

/// Replicas that are certainly gone: all their certificates have expired, or `me` has their address now.
pub(crate) fn gone(
    data: &BTreeMap<String, String>,
    me: &str,
    my_addr: SocketAddr,
    name: &ServerName<'_>,
    now: UnixTime,
) -> Vec<String> {
    let over = |replica: &Replica| {
        let certificates = &replica.certificates;
        !certificates.is_empty() && certificates.iter().all(|certificate| is_expired(certificate, name, now))
    };
    let others = read(data).into_iter().filter(|(other, _)| other != me);
    others.filter(|(_, replica)| replica.addr == my_addr || over(replica)).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::{Service, grpc::tls::Subject};

    const DAY: Duration = Duration::from_secs(86_400);

    fn pem(issued_at: SystemTime) -> String {
        let advertised = "10.0.0.1:9090".parse().unwrap();
        let subject = Subject { service: Service::Disruption, namespace: "kube-system".into(), advertised };
        subject.issue(issued_at, DAY).unwrap().pem
    }

    fn data(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn both_certificates_around_a_renewal_are_read_and_nonsense_is_left_out() {
        let two = pem(SystemTime::now()) + &pem(SystemTime::now());
        let replicas = read(&data(&[
            ("a-1.addr", "10.0.0.1:9090"),
            ("a-1.pem", &two),
            ("a.b-2.addr", "10.0.0.2:9090\n"),
            ("broken.addr", "nowhere"),
            ("broken.pem", &two),
            ("lonely.pem", "-----BEGIN"),
            ("README", "hello"),
        ]));
        assert_eq!(replicas.keys().collect::<Vec<_>>(), ["a-1", "a.b-2"]);
        assert_eq!(replicas["a-1"].certificates.len(), 2);
        assert!(replicas["a.b-2"].certificates.is_empty());
    }

    proptest::proptest! {
        /// Whoever may write the ConfigMap can make no caller panic, nor hide the replicas that are there.
        #[test]
        fn whatever_the_config_map_holds_replicas_that_make_sense_are_read(
            mut entries in proptest::collection::btree_map("[a-z.]{0,9}(\\.addr|\\.pem)?", ".{0,40}|-----BEGIN CERTIFICATE-----.{0,20}", 0..8),
        ) {
            entries.insert("good.addr".to_owned(), "10.0.0.1:9090".to_owned());
            entries.insert("good.pem".to_owned(), pem(SystemTime::now()));
            let replicas = read(&entries);
            proptest::prop_assert_eq!(replicas["good"].certificates.len(), 1);
            let name = ServerName::try_from("localhost").unwrap();
            let gone = gone(&entries, "me", "10.0.0.9:9090".parse().unwrap(), &name, UnixTime::now());
            proptest::prop_assert!(!gone.contains(&"good".to_owned()));
        }
    }

    #[test]
    fn only_expired_replicas_and_those_whose_address_was_taken_over_are_gone() {
        let (old, new) = (pem(SystemTime::now() - 2 * DAY), pem(SystemTime::now()));
        let data = data(&[
            ("me.addr", "10.0.0.9:9090"),
            ("me.pem", &old),
            ("expired.addr", "10.0.0.2:9090"),
            ("expired.pem", &old),
            ("renewing.addr", "10.0.0.3:9090"),
            ("renewing.pem", &(old.clone() + &new)),
            ("fresh.addr", "10.0.0.4:9090"),
            ("fresh.pem", &new),
            ("moved.addr", "10.0.0.9:9090"),
            ("moved.pem", &new),
        ]);
        let name = ServerName::try_from("localhost").unwrap();
        let gone = gone(&data, "me", "10.0.0.9:9090".parse().unwrap(), &name, UnixTime::now());
        assert_eq!(gone, ["expired", "moved"]);
    }
}
