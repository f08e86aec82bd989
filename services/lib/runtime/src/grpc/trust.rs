//! The task that publishes this replica's certificate and address for callers to trust, renews the certificate at half of
//! its life, and cleans up after replicas that went away without a word.
//!
//! A renewed certificate is published beside the present one, and shown to callers only after they had time to learn of it;
//! so no call fails because of a renewal. While the API server is away nothing changes: the present certificate goes on.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    time::{Duration, SystemTime},
};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use rustls_pki_types::{ServerName, UnixTime};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{
    published::{self, addr_key, pem_key},
    tls::{Current, Issued, Subject},
};
use crate::{Check, log_format::chain};

/// How often the entry is looked at: it comes back this soon after somebody deleted it.
const LOOK: Duration = Duration::from_secs(10);
/// Between publishing a renewed certificate and showing it.
const SETTLE: Duration = Duration::from_secs(60);
const QUICKEST: Duration = Duration::from_millis(500);
const SLOWEST: Duration = Duration::from_secs(5);
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Certificate and key of this replica, with the place where the server reads them.
pub(crate) struct Keyring {
    pub(crate) subject: Subject,
    pub(crate) current: Current,
    pub(crate) issued: Issued,
    pub(crate) validity: Duration,
}

pub(crate) struct Publisher {
    api: Api<ConfigMap>,
    config_map: String,
    replica: String,
    addr: SocketAddr,
    /// `None` without TLS: then only the address is published.
    keyring: Option<Keyring>,
    /// Issued, not yet shown, and since when it has been published.
    next: Option<(Issued, Option<SystemTime>)>,
    settle: Duration,
}

impl Publisher {
    pub(crate) fn new(
        api: Api<ConfigMap>,
        config_map: String,
        replica: String,
        addr: SocketAddr,
        keyring: Option<Keyring>,
    ) -> Self {
        Self { api, config_map, replica, addr, keyring, next: None, settle: SETTLE }
    }

    pub(crate) async fn run(mut self, published: Check, stop: CancellationToken) -> anyhow::Result<()> {
        let mut delay = QUICKEST;
        let mut complained = false;
        loop {
            let turn = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                turn = tokio::time::timeout(CALL_TIMEOUT, self.turn(SystemTime::now())) => turn,
            };
            let pause = match turn.unwrap_or_else(|_| Err(anyhow::anyhow!("no answer in time"))) {
                Ok(()) => {
                    published.ready();
                    (delay, complained) = (QUICKEST, false);
                    self.until_next(SystemTime::now())
                }
                Err(error) => {
                    let (config_map, error) = (&self.config_map, chain(error.as_ref()));
                    match std::mem::replace(&mut complained, true) {
                        false => warn!(config_map, error, "cannot publish the certificate, trying again"),
                        true => debug!(config_map, error, "still cannot publish the certificate"),
                    }
                    delay = (delay * 2).min(SLOWEST);
                    delay
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
            }
        }
        // Callers turn to other replicas as soon as this is gone, while calls under way still finish.
        let withdrawn = tokio::time::timeout(CALL_TIMEOUT, self.apply(BTreeMap::new())).await;
        if !matches!(withdrawn, Ok(Ok(_))) {
            debug!(
                config_map = self.config_map,
                "could not withdraw the certificate; others remove it once expired"
            );
        }
        Ok(())
    }

    fn until_next(&self, now: SystemTime) -> Duration {
        let due = match (&self.next, &self.keyring) {
            (Some((_, published)), _) => published.map(|since| since + self.settle),
            (None, Some(keyring)) => Some(keyring.issued.renew_at),
            (None, None) => None,
        };
        let due = due.map_or(LOOK, |due| due.duration_since(now).unwrap_or_default());
        due.clamp(Duration::from_millis(10), LOOK)
    }

    /// One look: make what is published agree with what is shown, then move a renewal one step on.
    async fn turn(&mut self, now: SystemTime) -> anyhow::Result<()> {
        let live = self.api.get_opt(&self.config_map).await.context("read the trust ConfigMap")?;
        let mut data = live.and_then(|found| found.data).unwrap_or_default();
        if self.advance(now)? || !self.wanted().iter().all(|(key, value)| data.get(key) == Some(value)) {
            let applied = self.apply(self.wanted()).await.context("write the trust ConfigMap")?;
            data = applied.data.unwrap_or_default();
            if let Some((_, published)) = &mut self.next {
                *published = None;
            }
        }
        if let Some((_, published)) = &mut self.next {
            published.get_or_insert(now);
        }
        self.clean(&data).await
    }

    /// Whether there is something new to publish. A certificate is shown only after it has been published for a while, however
    /// long the API server refuses to store it.
    fn advance(&mut self, now: SystemTime) -> anyhow::Result<bool> {
        let Some(keyring) = &mut self.keyring else { return Ok(false) };
        match self.next.take() {
            Some((issued, Some(since))) if now >= since + self.settle => {
                keyring.current.replace(&issued);
                keyring.issued = issued;
                info!(replica = self.replica, "new connections get the renewed certificate");
                Ok(true)
            }
            Some(waiting) => {
                self.next = Some(waiting);
                Ok(false)
            }
            None if now >= keyring.issued.renew_at => {
                let issued = keyring.subject.issue(now, keyring.validity)?;
                self.next = Some((issued, None));
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn wanted(&self) -> BTreeMap<String, String> {
        let mut data = BTreeMap::from([(addr_key(&self.replica), self.addr.to_string())]);
        if let Some(keyring) = &self.keyring {
            let next = self.next.iter().map(|(issued, _)| issued.pem.as_str());
            let pems = std::iter::once(keyring.issued.pem.as_str()).chain(next);
            data.insert(pem_key(&self.replica), pems.collect());
        }
        data
    }

    /// Server-side apply under a manager of our own: keys we stop naming vanish, keys of other replicas are not touched, a
    /// missing ConfigMap is made.
    async fn apply(&self, data: BTreeMap<String, String>) -> kube::Result<ConfigMap> {
        let body = serde_json::json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": self.config_map },
            "data": data,
        });
        let manager: String = format!("trust-{}", self.replica).chars().take(128).collect();
        self.api.patch(&self.config_map, &PatchParams::apply(&manager).force(), &Patch::Apply(&body)).await
    }

    async fn clean(&self, data: &BTreeMap<String, String>) -> anyhow::Result<()> {
        let name = ServerName::try_from("localhost").expect("a valid name");
        let gone = published::gone(data, &self.replica, self.addr, &name, UnixTime::now());
        if gone.is_empty() {
            return Ok(());
        }
        info!(config_map = self.config_map, ?gone, "removing replicas that are gone");
        let keys = gone.iter().flat_map(|name| [pem_key(name), addr_key(name)]);
        let nothing: BTreeMap<String, Option<String>> = keys.map(|key| (key, None)).collect();
        let patch = Patch::Merge(serde_json::json!({ "data": nothing }));
        self.api
            .patch(&self.config_map, &PatchParams::default(), &patch)
            .await
            .context("remove replicas that are gone")?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::{
        Readiness, Service,
        testing::{Reply, api_server},
    };

    const HOUR: Duration = Duration::from_secs(3600);

    fn publisher(now: SystemTime, client: kube::Client) -> Publisher {
        let addr = "127.0.0.1:9090".parse().unwrap();
        let subject =
            Subject { service: Service::Termination, namespace: "kube-system".into(), advertised: addr };
        let issued = subject.issue(now, 24 * HOUR).unwrap();
        let keyring = Keyring { subject, current: Current::new(&issued), issued, validity: 24 * HOUR };
        let api = Api::default_namespaced(client);
        Publisher::new(api, "karpenter-termination-trust".into(), "t-1".into(), addr, Some(keyring))
    }

    fn shown(publisher: &Publisher) -> String {
        publisher.wanted()["t-1.pem"].clone()
    }

    #[tokio::test]
    async fn a_renewal_is_published_beside_the_old_certificate_before_it_is_shown() {
        let start = SystemTime::now();
        let mut publisher = publisher(start, api_server(|_| Reply::Broken));
        let first = shown(&publisher);
        assert!(!publisher.advance(start + 11 * HOUR).unwrap());
        assert_eq!(shown(&publisher), first);

        let half = start + 12 * HOUR;
        assert!(publisher.advance(half).unwrap());
        let both = shown(&publisher);
        assert!(both.starts_with(&first) && both.len() > first.len());
        assert_eq!(publisher.keyring.as_ref().unwrap().issued.pem, first, "callers still see the first");

        assert!(!publisher.advance(half + SETTLE * 2).unwrap(), "nobody has seen it published");
        publisher.next.as_mut().unwrap().1 = Some(half);
        assert!(!publisher.advance(half + SETTLE / 2).unwrap());
        assert!(publisher.advance(half + SETTLE).unwrap());
        let second = shown(&publisher);
        assert!(both.ends_with(&second) && second != first, "only the renewed one is left");
        assert_eq!(publisher.until_next(half + SETTLE), LOOK);
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_that_stops_withdraws_its_entry_at_once() {
        let patches = Arc::new(Mutex::new(Vec::new()));
        let log = patches.clone();
        let client = api_server(move |asked| match asked.method == http::Method::GET {
            true => Reply::error(404, "NotFound"),
            false => {
                assert!(asked.target.contains("fieldManager=trust-t-1"), "{}", asked.target);
                log.lock().unwrap().push(asked.body["data"].clone());
                Reply::Json(200, asked.body)
            }
        });
        let readiness = Readiness::default();
        let (published, stop) = (readiness.check("trust", "to be published"), CancellationToken::new());
        let publisher = publisher(SystemTime::now(), client);
        let stopping = async {
            readiness.ready().await;
            stop.cancel();
        };
        let (ran, ()) = tokio::join!(publisher.run(published, stop.clone()), stopping);
        ran.unwrap();
        let patches = patches.lock().unwrap();
        let [first, .., last] = patches.as_slice() else { panic!("{patches:?}") };
        assert_eq!(first["t-1.addr"], "127.0.0.1:9090");
        // Applied by the same manager, so its keys vanish and no others.
        assert_eq!(*last, serde_json::json!({}));
    }
}
