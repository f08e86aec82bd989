//! A replacement before the drain, for rebalance recommendations (`--drain-on-rebalance`): there is time, so nothing is taken away
//! before something else is ready.
//!
//! Keeps no state. The command's id follows from the claim, the replacements carry it as an annotation, and the message stays in
//! the queue until the drain has begun: whoever receives it next, also after a crash, goes on where the last one was. When the
//! queue forgets the message first, the old node stays, and the extra one is consolidated like any other.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use proto::provisioner::v1::provisioner_client::ProvisionerClient;
use proto::provisioner::v1::{
    CreateReplacementsRequest, SimulateRequest, SimulateResponse, SimulationPurpose,
};
use proto::types::v1::ObjectRef;
use runtime::grpc::Peers;
use tonic::{Code, Status};

use crate::claims::{Claim, Claims};
use crate::handover::Failure;
use crate::message::Kind;

/// Between two looks at a replacement that is on its way.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
const SOLVE_LIMIT: i64 = 5;

/// How far the replacement of one claim is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// All pods have a place elsewhere.
    Ready,
    Waiting(Duration),
    /// Nothing can take the pods; the words say why.
    Impossible(String),
}

/// Who knows what would become of the pods; the real one is the provisioner.
pub(crate) trait Planner: Send + Sync {
    /// Any replica answers.
    fn simulate(&self, question: SimulateRequest) -> BoxFuture<'_, Result<SimulateResponse, Status>>;

    /// Only the leader does it.
    fn create(&self, request: CreateReplacementsRequest) -> BoxFuture<'_, Result<(), Status>>;
}

impl Planner for Peers {
    fn simulate(&self, question: SimulateRequest) -> BoxFuture<'_, Result<SimulateResponse, Status>> {
        async move {
            let mut client = ProvisionerClient::new(self.any());
            client.simulate(question).await.map(tonic::Response::into_inner)
        }
        .boxed()
    }

    fn create(&self, request: CreateReplacementsRequest) -> BoxFuture<'_, Result<(), Status>> {
        async move {
            let mut client = ProvisionerClient::new(self.leader());
            client.create_replacements(request).await.map(drop)
        }
        .boxed()
    }
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Replacements {
    pub(crate) claims: Claims,
    pub(crate) planner: Arc<dyn Planner>,
}

pub(crate) fn command(claim: &Claim) -> String {
    format!("rebalance-{}", claim.uid)
}

/// What replacements that exist say; `None` when there are none.
fn progress(made: &[Arc<Claim>]) -> Option<Step> {
    if made.is_empty() || made.iter().all(|claim| claim.deleting) {
        return None;
    }
    let ready = made.iter().filter(|claim| !claim.deleting).all(|claim| claim.initialized);
    Some(if ready { Step::Ready } else { Step::Waiting(LOOK_AGAIN) })
}

impl Replacements {
    pub(crate) async fn step(&self, claim: &Arc<Claim>) -> Result<Step, Failure> {
        let id = command(claim);
        let stopping = |_| Failure::Away("the process is stopping".to_owned());
        let made = self.claims.of_command(id.clone()).await.map_err(stopping)?;
        if let Some(step) = progress(&made) {
            return Ok(step);
        }
        let node = if claim.node.is_empty() { &claim.name } else { &claim.node };
        let question = SimulateRequest {
            remove_nodes: vec![node.to_string()],
            purpose: SimulationPurpose::Interruption.into(),
            solve_limit: Some(prost_types::Duration { seconds: SOLVE_LIMIT, nanos: 0 }),
            ..SimulateRequest::default()
        };
        let plan = self.planner.simulate(question).await.map_err(failure)?;
        if let Some(pod) = plan.unschedulable.first().and_then(|left| left.pod.as_ref()) {
            let others = plan.unschedulable.len() - 1;
            let more = if others == 0 { String::new() } else { format!(" and {others} more") };
            return Ok(Step::Impossible(format!(
                "not drained: pod {}/{}{more} would find no other place",
                pod.namespace, pod.name
            )));
        }
        if !plan.not_reached.is_empty() {
            return Ok(Step::Waiting(LOOK_AGAIN));
        }
        if plan.new_nodes.is_empty() {
            return Ok(Step::Ready);
        }
        let request = CreateReplacementsRequest {
            command_id: id,
            replaces: vec![ObjectRef { name: claim.name.to_string(), uid: claim.uid.to_string() }],
            nodes: plan.new_nodes,
            reason: Kind::RebalanceRecommendation.as_str().to_owned(),
        };
        self.planner.create(request).await.map_err(failure)?;
        Ok(Step::Waiting(LOOK_AGAIN))
    }
}

fn failure(status: Status) -> Failure {
    let words = format!("provisioner: {}", status.message());
    match status.code() {
        Code::InvalidArgument | Code::Internal | Code::Unknown | Code::Unimplemented => {
            Failure::Refused(words)
        }
        _ => Failure::Away(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(ready: bool, deleting: bool) -> Arc<Claim> {
        let mut object = serde_json::json!({
            "metadata": {"name": "r", "uid": "2"},
            "status": {"conditions": [{"type": "Initialized", "status": if ready { "True" } else { "Unknown" }}]},
        });
        if deleting {
            object["metadata"]["deletionTimestamp"] = "2026-11-16T08:00:00Z".into();
        }
        Arc::new(Claim::of(&serde_json::from_value(object).unwrap()).unwrap())
    }

    #[test]
    fn a_claim_is_drained_when_every_replacement_that_is_left_is_ready() {
        assert_eq!(progress(&[]), None);
        assert_eq!(progress(&[made(true, false), made(false, false)]), Some(Step::Waiting(LOOK_AGAIN)));
        assert_eq!(progress(&[made(true, false), made(true, false)]), Some(Step::Ready));
        assert_eq!(progress(&[made(true, false), made(false, true)]), Some(Step::Ready));
        assert_eq!(progress(&[made(true, true)]), None, "it failed: another is needed");
    }
}
