//! The search for nodes to remove, driven by the provisioner's answers: questions and answers of `consolidation` on the wire.

#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::Arc;

use consolidation::search::{Answer, Found, PlannedNode, Proposal, Purpose, Question, Search, Situation};
use model::labels;
use model::price::MicroDollars;
use policy::consolidation::{MinValues, Outcome, Replacement, TypeOption};
use proto::provisioner::v1::{SimulateRequest, SimulateResponse, SimulationPurpose};
use proto::types::v1 as types;
use tonic::Status;

/// Simulations asked for at once; the first in their order that works ends the pass.
const AT_ONCE: usize = 64;

/// Answers what-ifs.
pub(crate) trait Simulate {
    /// One answer for each question, in order; an error in it is about that question alone.
    fn simulate(
        &self,
        questions: &[Question],
    ) -> impl Future<Output = Result<Vec<Result<SimulateResponse, String>>, Status>> + Send;
}

/// A new node of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Planned(pub(crate) types::PlannedNode);

impl PlannedNode for Planned {
    fn price(&self) -> MicroDollars {
        MicroDollars::new(self.0.launch.as_ref().map_or(0, |launch| launch.micro_usd_per_hour))
    }

    fn keep_types(&mut self, kept: &[usize]) {
        let node = &mut self.0;
        node.instance_types =
            kept.iter().filter_map(|&index| node.instance_types.get(index).cloned()).collect();
        node.worst_micro_usd_per_hour =
            kept.iter().filter_map(|&index| node.worst_micro_usd_per_hour.get(index).copied()).collect();
        node.min_values.clear();
    }
}

/// One pass. Runs beside the actor, on a picture of the cluster that does not change.
pub(crate) async fn search(situation: &Situation, to: &impl Simulate) -> Result<Found<Planned>, Status> {
    let mut search = Search::new(situation, AT_ONCE);
    loop {
        let questions = search.questions();
        if questions.is_empty() {
            return Ok(search.finish());
        }
        let answers = to.simulate(&questions).await?;
        search.answer(answers.into_iter().map(|answer| answer.map(read)).collect());
    }
}

/// What replaces the nodes of a proposal: in a static NodePool another node of it.
pub(crate) fn planned_nodes(proposal: &Proposal<Planned>, pool: &Arc<str>) -> Vec<types::PlannedNode> {
    if proposal.method == policy::Method::StaticDrift {
        let name = consolidation::name_of(0);
        return vec![types::PlannedNode {
            name,
            node_pool: pool.to_string(),
            ..types::PlannedNode::default()
        }];
    }
    proposal.planned.iter().map(|planned| planned.0.clone()).collect()
}

/// `claims_version`: of the newest NodeClaim that the answer must know.
pub(crate) fn request(question: &Question, claims_version: u64) -> SimulateRequest {
    let purpose = match question.purpose {
        Purpose::Consolidation => SimulationPurpose::Consolidation,
        Purpose::Drift => SimulationPurpose::Drift,
    };
    SimulateRequest {
        remove_nodes: question.remove.iter().map(|node| node.to_string()).collect(),
        purpose: purpose.into(),
        replacement_below_micro_usd: question.below.get().max(0),
        min_claim_version: claims_version,
        ..SimulateRequest::default()
    }
}

fn read(answer: SimulateResponse) -> Answer<Planned> {
    Answer { outcome: outcome(&answer), nodes: answer.new_nodes.into_iter().map(Planned).collect() }
}

/// What a simulation came to, as `policy` judges it.
pub(crate) fn outcome(answer: &SimulateResponse) -> Outcome {
    let name = |pod: Option<&types::PodRef>| {
        pod.map_or_else(String::new, |pod| format!("{}/{}", pod.namespace, pod.name))
    };
    let left = answer.unschedulable.iter().map(|left| name(left.pod.as_ref()));
    Outcome {
        left_over: left.chain(answer.not_reached.iter().map(|pod| name(Some(pod)))).collect(),
        displaced: answer.displaced.iter().map(|pod| name(Some(pod))).collect(),
        new_nodes: answer.new_nodes.iter().map(replacement).collect(),
    }
}

fn replacement(node: &types::PlannedNode) -> Replacement {
    let capacity = node.requirements.iter().find(|requirement| requirement.key == labels::CAPACITY_TYPE);
    let allows = |value: &str| {
        capacity.is_none_or(|requirement| {
            let listed = requirement.values.iter().any(|listed| listed == value);
            match requirement.operator() {
                types::Operator::In => listed,
                types::Operator::NotIn => !listed,
                types::Operator::DoesNotExist => false,
                _ => true,
            }
        })
    };
    let (spot, on_demand) = (allows(labels::SPOT), allows(labels::ON_DEMAND));
    let priced = node.instance_types.iter().zip(&node.worst_micro_usd_per_hour);
    let option = |(name, worst): (&String, &i64)| TypeOption {
        name: name.as_str().into(),
        worst_price: MicroDollars::new(*worst),
        worst_spot_price: spot.then(|| MicroDollars::new(*worst)),
    };
    let demand = |demand: &types::MinValues| MinValues {
        key: demand.key.clone(),
        wanted: usize::try_from(demand.wanted).unwrap_or(usize::MAX),
        values: demand.by_type.iter().map(|of| of.values.iter().cloned().collect()).collect(),
    };
    Replacement {
        types: priced.map(option).collect(),
        allows_spot: spot,
        allows_on_demand: on_demand,
        min_values: node.min_values.iter().map(demand).collect(),
    }
}

/// The question, not the provisioner, was at fault.
pub(crate) fn is_about_a_node(status: &Status) -> bool {
    matches!(
        status.code(),
        tonic::Code::FailedPrecondition | tonic::Code::NotFound | tonic::Code::InvalidArgument
    )
}
