//! Claims for nodes that a disruption command is about to remove. The same command never makes them twice: names follow from
//! its id.

use std::sync::Arc;

use proto::provisioner::v1 as pb;
use proto::types::v1 as types;
use runtime::grpc::errors;
use tonic::{Code, Status};

use super::{limits, wire};
use crate::claims::{self, Made, NewClaim, Order};
use crate::cluster::ClusterView;

/// Reasons as the reference's metric spells them.
const REASONS: [&str; 7] =
    ["underutilized", "empty", "drifted", "expired", "unhealthy", "interrupted", "overprovisioned"];

fn check(request: &pb::CreateReplacementsRequest) -> Result<(), Status> {
    if request.command_id.is_empty() {
        return Err(errors::invalid(
            "command_id",
            "must not be empty: it is what makes the call safe to repeat",
        ));
    }
    if request.command_id.len() > limits::COMMAND_ID {
        return Err(errors::invalid("command_id", format!("at most {} bytes", limits::COMMAND_ID)));
    }
    if request.nodes.is_empty() {
        return Err(errors::invalid("nodes", "name at least one node to create"));
    }
    limits::check("nodes", request.nodes.len(), limits::REPLACEMENTS)
}

pub(super) fn orders(
    request: &pb::CreateReplacementsRequest,
    view: &ClusterView,
) -> Result<Vec<Order>, Status> {
    check(request)?;
    let lower = request.reason.to_lowercase();
    let reason = REASONS.into_iter().find(|known| *known == lower).unwrap_or("other");
    request.nodes.iter().enumerate().map(|(index, node)| order(request, index, node, reason, view)).collect()
}

fn order(
    request: &pb::CreateReplacementsRequest,
    index: usize,
    node: &types::PlannedNode,
    reason: &'static str,
    view: &ClusterView,
) -> Result<Order, Status> {
    let field = format!("nodes[{index}]");
    let pool = view
        .pool_objects
        .get(&node.node_pool)
        .filter(|p| p.metadata.deletion_timestamp.is_none())
        .ok_or_else(|| errors::not_found("NodePool", &node.node_pool))?;
    if let Some(error) = claims::over_limit(pool, view.pools.get(node.node_pool.as_str())) {
        return Err(errors::status(
            Code::FailedPrecondition,
            "OVER_LIMIT",
            error.to_string(),
            [("nodepool", node.node_pool.clone())],
        ));
    }
    if node.instance_types.is_empty() && pool.spec.replicas.is_none() {
        return Err(errors::invalid(&format!("{field}.instance_types"), "list the types it may become"));
    }
    let requests = node.requests.clone().unwrap_or_default();
    let uids = node.pods.iter().map(|pod| pod.uid.as_str()).filter(|uid| !uid.is_empty());
    Ok(Order {
        pool: Arc::clone(pool),
        wanted: NewClaim {
            requirements: wire::read_requirements(&node.requirements, &format!("{field}.requirements"))?,
            instance_types: (!node.instance_types.is_empty()).then(|| node.instance_types.clone()),
            requests: wire::read_resources(&requests, &format!("{field}.requests"))?,
            min_values_relaxed: false,
            annotations: claims::nomination_annotation(uids),
        },
        command: Some((request.command_id.clone(), index)),
        reason,
    })
}

/// All or an error that names what is missing; what was made stays, and a repeated call finds it.
pub(super) fn answer(
    made: Vec<Result<Made, claims::Error>>,
) -> Result<pb::CreateReplacementsResponse, Status> {
    let total = made.len();
    let mut node_claims = Vec::with_capacity(total);
    let mut existed = 0;
    for (index, one) in made.into_iter().enumerate() {
        let one = one.map_err(|error| refusal(&error, index, total))?;
        existed += usize::from(one.existed);
        let meta = &one.claim.metadata;
        node_claims.push(types::ObjectRef {
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
        });
    }
    Ok(pb::CreateReplacementsResponse { node_claims, already_existed: existed == total })
}

/// What the API server refuses it refuses again; of everything else a repeated call may make the rest.
fn refusal(error: &claims::Error, index: usize, total: usize) -> Status {
    let at = [("index", index.to_string())];
    let words = match error {
        claims::Error::Api { source, .. } => format!("{error}: {source}"),
        _ => error.to_string(),
    };
    match error {
        claims::Error::Api { source: kube::Error::Api(status), .. } if is_final(status.code) => {
            let message = format!("nodes[{index}] of {total}: {words}");
            errors::status(Code::FailedPrecondition, "REFUSED", message, at)
        }
        claims::Error::OverLimit { .. } | claims::Error::Foreign { .. } => {
            let message = format!("nodes[{index}] of {total}: {words}");
            errors::status(Code::FailedPrecondition, "REFUSED", message, at)
        }
        _ => {
            let message =
                format!("nodes[{index}] of {total}: {words}; call again with the same command_id to go on");
            errors::status(Code::Unavailable, "NOT_CREATED", message, at)
        }
    }
}

const fn is_final(code: u16) -> bool {
    code >= 400 && code < 500 && code != 409 && code != 429
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_asks_for_no_more_than_its_limits() {
        let asked = |id: usize, nodes: usize| pb::CreateReplacementsRequest {
            command_id: "c".repeat(id),
            nodes: vec![types::PlannedNode::default(); nodes],
            ..pb::CreateReplacementsRequest::default()
        };
        assert!(check(&asked(limits::COMMAND_ID, limits::REPLACEMENTS)).is_ok());
        for (id, nodes, field) in [
            (0, 1, "command_id"),
            (limits::COMMAND_ID + 1, 1, "command_id"),
            (1, 0, "nodes"),
            (1, limits::REPLACEMENTS + 1, "nodes"),
        ] {
            let refused = check(&asked(id, nodes)).unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument);
            assert!(refused.message().starts_with(field), "{refused}");
        }
    }

    fn answered(code: u16) -> Status {
        let status = kube::core::Status { code, message: "denied by policy".into(), ..Default::default() };
        let source = kube::Error::Api(Box::new(status));
        answer(vec![Err(claims::Error::Api { name: "a".into(), source })]).unwrap_err()
    }

    #[test]
    fn what_the_api_server_refuses_is_final_and_what_it_fails_at_is_not() {
        for code in [400, 403, 422] {
            let status = answered(code);
            assert_eq!(status.code(), Code::FailedPrecondition, "{code}");
            assert!(status.message().contains("denied by policy"), "{status:?}");
        }
        for code in [409, 429, 500, 503] {
            assert_eq!(answered(code).code(), Code::Unavailable, "{code}");
        }
        let unanswered = claims::Error::Unanswered { claim: Arc::default(), why: "timed out".into() };
        assert_eq!(answer(vec![Err(unanswered)]).unwrap_err().code(), Code::Unavailable);
    }
}
