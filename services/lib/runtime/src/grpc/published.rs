//! The content of a trust ConfigMap: for each replica of one service its address and the certificates it may show. Reading and
//! judging only; `trust` writes it, `discovery` follows it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use rustls_pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _};

use super::pin::{is_certificate, is_expired};

/// Of an address that is none, in characters.
const LONGEST_SHOWN: usize = 60;

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

/// What a trust ConfigMap says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) replicas: BTreeMap<String, Replica>,
    /// What is left out of it, by the name of the replica: one replica's garbage must not hide the others.
    pub(crate) faults: BTreeMap<String, Fault>,
}

/// Why an entry, or one certificate of it, is left out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("{0:?} is no address that can be called (IP:port)")]
    Address(String),
    #[error("there is a certificate and no address")]
    NoAddress,
    #[error("there is an address and no certificate")]
    NoCertificate,
    #[error("the certificate is no PEM text of an X.509 certificate")]
    Certificate,
}

pub(crate) fn read(data: &BTreeMap<String, String>) -> Content {
    let mut content = Content::default();
    let names: BTreeSet<&str> = data
        .keys()
        .filter_map(|key| key.strip_suffix(".addr").or_else(|| key.strip_suffix(".pem")))
        .filter(|name| !name.is_empty())
        .collect();
    for name in names {
        let (addr, pem) = (data.get(&addr_key(name)), data.get(&pem_key(name)));
        let (replica, fault) = match addr.map(|addr| address(addr)) {
            None => (None, Some(Fault::NoAddress)),
            Some(Err(fault)) => (None, Some(fault)),
            Some(Ok(addr)) => {
                let (certificates, fault) = certificates(pem.map_or("", String::as_str));
                // A replica whose every certificate is garbage is not one that runs without TLS.
                let usable = fault.is_none() || !certificates.is_empty();
                (usable.then_some(Replica { addr, certificates }), fault)
            }
        };
        content.replicas.extend(replica.map(|replica| (name.to_owned(), replica)));
        content.faults.extend(fault.map(|fault| (name.to_owned(), fault)));
    }
    content
}

fn address(text: &str) -> Result<SocketAddr, Fault> {
    let parsed = text.trim().parse().ok();
    parsed
        .filter(|addr: &SocketAddr| {
            addr.port() != 0 && !addr.ip().is_unspecified() && !addr.ip().is_multicast()
        })
        .ok_or_else(|| Fault::Address(text.chars().take(LONGEST_SHOWN).collect()))
}

fn certificates(pem: &str) -> (Vec<CertificateDer<'static>>, Option<Fault>) {
    let mut fault = None;
    let mut good = Vec::new();
    for each in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        match each {
            Ok(certificate) if is_certificate(&certificate) => good.push(certificate),
            _ => fault = Some(Fault::Certificate),
        }
    }
    if good.is_empty() && !pem.trim().is_empty() {
        fault = Some(Fault::Certificate);
    }
    (good, fault)
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
    let others = read(data).replicas.into_iter().filter(|(other, _)| other != me);
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
    fn both_certificates_around_a_renewal_are_read() {
        let two = pem(SystemTime::now()) + &pem(SystemTime::now());
        let entries = [
            ("a-1.addr", "10.0.0.1:9090"),
            ("a-1.pem", &two),
            ("a.b-2.addr", "10.0.0.2:9090\n"),
            ("README", "hello"),
        ];
        let content = read(&data(&entries));
        assert_eq!(content.replicas.keys().collect::<Vec<_>>(), ["a-1", "a.b-2"]);
        assert_eq!(content.replicas["a-1"].certificates.len(), 2);
        assert!(content.replicas["a.b-2"].certificates.is_empty() && content.faults.is_empty());
    }

    /// Each kind of it: the fault, and whether a replica is left.
    #[test]
    fn garbage_is_left_out_with_the_reason_and_hides_nobody() {
        let good = pem(SystemTime::now());
        let no_certificate = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
        let half = good[..good.len() / 2].to_owned();
        let mixed = good.clone() + no_certificate;
        type Case<'a> = (Option<&'a str>, Option<&'a str>, Option<Fault>, bool);
        let cases: &[Case] = &[
            (Some("nowhere"), Some(&good), Some(Fault::Address("nowhere".into())), false),
            (Some(""), Some(&good), Some(Fault::Address(String::new())), false),
            (Some("10.0.0.1"), Some(&good), Some(Fault::Address("10.0.0.1".into())), false),
            (Some("10.0.0.1:0"), Some(&good), Some(Fault::Address("10.0.0.1:0".into())), false),
            (Some("[::]:9090"), Some(&good), Some(Fault::Address("[::]:9090".into())), false),
            (Some("224.0.0.1:9090"), Some(&good), Some(Fault::Address("224.0.0.1:9090".into())), false),
            (None, Some(&good), Some(Fault::NoAddress), false),
            (Some("10.0.0.1:9090"), Some("hello"), Some(Fault::Certificate), false),
            (Some("10.0.0.1:9090"), Some(no_certificate), Some(Fault::Certificate), false),
            (Some("10.0.0.1:9090"), Some(&half), Some(Fault::Certificate), false),
            (Some("10.0.0.1:9090"), Some(&mixed), Some(Fault::Certificate), true),
            (Some("[2001:db8::7]:9090"), Some(&good), None, true),
        ];
        for (addr, pem, fault, is_left) in cases {
            let mut entries = data(&[("good.addr", "10.0.0.9:9090"), ("good.pem", &good)]);
            entries.extend(addr.map(|addr| ("a.addr".to_owned(), addr.to_owned())));
            entries.extend(pem.map(|pem| ("a.pem".to_owned(), pem.to_owned())));
            let content = read(&entries);
            assert_eq!(content.faults.get("a"), fault.as_ref(), "{addr:?} {pem:?}");
            assert_eq!(content.replicas.contains_key("a"), *is_left, "{addr:?} {pem:?}");
            assert_eq!(content.replicas["good"].certificates.len(), 1);
        }
        let long = read(&data(&[("a.addr", &"x".repeat(100_000)), ("a.pem", &good)]));
        assert!(long.faults["a"].to_string().len() < 200, "a log line has an end");
    }

    proptest::proptest! {
        /// Whoever may write the ConfigMap can make no caller panic, nor hide the replicas that are there.
        #[test]
        fn whatever_the_config_map_holds_replicas_that_make_sense_are_read(
            mut entries in proptest::collection::btree_map("[a-z.]{0,9}(\\.addr|\\.pem)?", ".{0,40}|-----BEGIN CERTIFICATE-----.{0,20}", 0..8),
        ) {
            entries.insert("good.addr".to_owned(), "10.0.0.1:9090".to_owned());
            entries.insert("good.pem".to_owned(), pem(SystemTime::now()));
            let content = read(&entries);
            proptest::prop_assert_eq!(content.replicas["good"].certificates.len(), 1);
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
