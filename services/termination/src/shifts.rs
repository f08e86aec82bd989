//! What EC2 says about a zone that AWS shifts traffic away from is not believed (`settings.enableZonalShift`, aws.md §5.7): there
//! nothing is ended, and nothing that was seen is taken for gone. pricing-cache knows which zones these are; while it is away,
//! its last answer holds.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cloud::instance::{Instance, InstanceState};
use cloud::select::TagFilter;
use cloud::{Answer, CloudError, ErrorKind, Terminator};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use proto::pricingcache::v1::ListUnavailableRequest;
use proto::pricingcache::v1::pricing_cache_client::PricingCacheClient;
use runtime::grpc::Peers;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

/// pricing-cache itself reads the shifts every half minute.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Names of zones.
pub(crate) type Zones = BTreeSet<String>;

/// Keeps asking pricing-cache which zones are shifted away from.
pub(crate) async fn follow(
    pricing: Peers,
    zones: watch::Sender<Zones>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    loop {
        let answer = PricingCacheClient::new(pricing.any()).list_unavailable(ListUnavailableRequest {}).await;
        match answer {
            Ok(answer) => {
                let now: Zones = answer.into_inner().shifted_zones.into_iter().collect();
                zones.send_if_modified(|zones| {
                    let changed = *zones != now;
                    if changed {
                        info!(zones = ?now, "zones that AWS shifts traffic away from: nothing is ended there");
                        *zones = now;
                    }
                    changed
                });
            }
            Err(error) => debug!(%error, "which zones are shifted is not known anew; the last answer holds"),
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(LOOK_AGAIN) => {}
        }
    }
}

/// EC2, asked with that caution.
pub(crate) struct Cautious {
    ec2: Arc<dyn Terminator>,
    shifted: watch::Receiver<Zones>,
    /// Every instance that is alive as far as was ever seen.
    seen: Mutex<HashMap<String, Instance>>,
}

impl Cautious {
    pub(crate) fn new(ec2: Arc<dyn Terminator>, shifted: watch::Receiver<Zones>) -> Self {
        Self { ec2, shifted, seen: Mutex::default() }
    }

    /// Adds what EC2 leaves out although it was there and its zone is not to be believed; `asked` tells which are meant.
    fn complete(&self, mut found: Vec<Instance>, asked: impl Fn(&Instance) -> bool) -> Vec<Instance> {
        let shifted = self.shifted.borrow();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let there: BTreeSet<&str> = found.iter().map(|instance| instance.id.as_str()).collect();
        let missing = |instance: &Instance| asked(instance) && !there.contains(instance.id.as_str());
        seen.retain(|_, instance| !missing(instance) || shifted.contains(&instance.zone));
        let mut kept: Vec<Instance> = seen.values().filter(|instance| missing(instance)).cloned().collect();
        kept.sort_by(|a, b| a.id.cmp(&b.id));
        for instance in &found {
            seen.insert(instance.id.clone(), instance.clone());
        }
        found.append(&mut kept);
        found
    }

    fn zone_of(&self, id: &str) -> Option<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(id).map(|instance| instance.zone.clone())
    }
}

fn held(id: &str, zone: &str) -> CloudError {
    CloudError {
        kind: ErrorKind::Unfulfillable,
        operation: "TerminateInstances",
        code: String::new(),
        message: format!(
            "{id} is not ended while AWS shifts traffic away from zone {zone}; end or cancel the zonal shift first"
        ),
        request_id: None,
    }
}

impl Terminator for Cautious {
    fn terminate(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<(String, Result<InstanceState, CloudError>)>> {
        let mut answers = Vec::new();
        let mut free = Vec::new();
        for id in ids {
            match self.zone_of(&id).filter(|zone| self.shifted.borrow().contains(zone)) {
                Some(zone) => {
                    let error = held(&id, &zone);
                    answers.push((id, Err(error)));
                }
                None => free.push(id),
            }
        }
        async move {
            if !free.is_empty() {
                answers.extend(self.ec2.terminate(free).await);
            }
            answers
        }
        .boxed()
    }

    fn instances_by_id(&self, ids: Vec<String>) -> Answer<'_, Vec<Instance>> {
        async move {
            let asked: BTreeSet<String> = ids.iter().cloned().collect();
            let found = self.ec2.instances_by_id(ids).await?;
            Ok(self.complete(found, |instance| asked.contains(&instance.id)))
        }
        .boxed()
    }

    fn instances_by_tags(&self, tags: Vec<TagFilter>) -> Answer<'_, Vec<Instance>> {
        async move {
            let found = self.ec2.instances_by_tags(tags.clone()).await?;
            Ok(self.complete(found, |instance| tags.iter().all(|tag| tag.matches(&instance.tags))))
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use cloud::memory::MemoryCloud;

    use super::*;
    use crate::instances::tests::instance_in;

    fn ids(found: &[Instance]) -> Vec<&str> {
        found.iter().map(|instance| instance.id.as_str()).collect()
    }

    fn asked() -> Vec<String> {
        vec!["i-1".to_owned(), "i-2".to_owned()]
    }

    #[tokio::test]
    async fn in_a_shifted_zone_nothing_is_ended_and_nothing_seen_is_gone_until_the_shift_is_over() {
        let memory = Arc::new(MemoryCloud::new("us-east-1"));
        for (id, zone) in [("i-1", "us-east-1a"), ("i-2", "us-east-1b")] {
            memory.state().instances.insert(id.to_owned(), instance_in(id, zone, &[]));
        }
        let zones = watch::Sender::new(Zones::new());
        let ec2 = Cautious::new(memory.clone(), zones.subscribe());
        assert_eq!(ids(&ec2.instances_by_id(asked()).await.unwrap()), ["i-1", "i-2"]);

        zones.send_replace(Zones::from(["us-east-1a".to_owned()]));
        let answers: HashMap<_, _> = ec2.terminate(asked()).await.into_iter().collect();
        assert!(answers["i-1"].as_ref().is_err_and(|error| error.message.contains("us-east-1a")));
        assert!(answers["i-2"].is_ok());
        assert_eq!(memory.state().instances["i-1"].state, InstanceState::Running);

        memory.state().instances.clear();
        assert_eq!(ids(&ec2.instances_by_id(asked()).await.unwrap()), ["i-1"]);
        assert_eq!(ids(&ec2.instances_by_tags(Vec::new()).await.unwrap()), ["i-1"]);

        zones.send_replace(Zones::new());
        assert!(ec2.instances_by_id(asked()).await.unwrap().is_empty());
    }
}
