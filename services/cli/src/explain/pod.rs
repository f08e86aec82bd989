//! What the provisioner says about a pod.

use std::io::{self, Write};

use proto::provisioner::v1 as pb;
use proto::types::v1::{PlannedNode, PodRef};
use serde::Serialize;

use crate::columns::{self, Align};
use crate::offering::Offering;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    pod: String,
    summary: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    node: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    planned: Option<Planned>,
    /// Per NodePool that cannot host it, the first rule that failed.
    rejections: Vec<Rejection>,
    /// Per node that cannot, nearest misses first.
    node_rejections: Vec<Rejection>,
    /// Preferences that were dropped, in order.
    relaxed: Vec<String>,
}

/// The node that would be made for it alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Planned {
    node_pool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    launch: Option<Offering>,
    /// How many types it might become.
    types: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Rejection {
    name: String,
    rule: String,
    detail: String,
}

impl Answer {
    pub(super) fn new(pod: &PodRef, answer: pb::ExplainPodResponse) -> Self {
        let planned = |node: PlannedNode| Planned {
            node_pool: node.node_pool,
            launch: node.launch.map(Offering::from),
            types: node.instance_types.len(),
        };
        let of_pools = answer.rejections.into_iter();
        let of_nodes = answer.node_rejections.into_iter();
        Self {
            pod: format!("{}/{}", pod.namespace, pod.name),
            summary: answer.summary,
            node: answer.node,
            planned: answer.planned.map(planned),
            rejections: of_pools
                .map(|r| Rejection { name: r.node_pool, rule: r.rule, detail: r.detail })
                .collect(),
            node_rejections: of_nodes
                .map(|r| Rejection { name: r.node, rule: r.rule, detail: r.detail })
                .collect(),
            relaxed: answer.relaxed,
        }
    }
}

pub(super) fn print(out: &mut dyn Write, answer: &Answer) -> io::Result<()> {
    writeln!(out, "pod {}\n{}", answer.pod, answer.summary)?;
    if !answer.node.is_empty() && !answer.summary.contains(&answer.node) {
        writeln!(out, "node: {}", answer.node)?;
    }
    if let Some(planned) = &answer.planned {
        let launch = planned.launch.as_ref().map_or_else(|| "a node".to_owned(), ToString::to_string);
        writeln!(
            out,
            "would be launched for it: {launch} (NodePool {}, {} types possible)",
            planned.node_pool, planned.types
        )?;
    }
    for (n, preference) in answer.relaxed.iter().enumerate() {
        writeln!(
            out,
            "{}{preference}",
            if n == 0 { "dropped preferences: " } else { "                     " }
        )?;
    }
    table(out, "NODEPOOL", &answer.rejections)?;
    table(out, "NODE", &answer.node_rejections)
}

fn table(out: &mut dyn Write, first: &str, rejections: &[Rejection]) -> io::Result<()> {
    if rejections.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let row = |r: &Rejection| [r.name.clone(), r.rule.clone(), r.detail.clone()];
    let rows: Vec<[String; 3]> = rejections.iter().map(row).collect();
    columns::print(out, [(first, Align::Left), ("RULE", Align::Left), ("WHY NOT", Align::Left)], &rows)
}

#[cfg(test)]
mod tests {
    use proto::types::v1 as types;

    use super::*;

    fn web() -> PodRef {
        PodRef { namespace: "shop".into(), name: "web".into(), uid: String::new() }
    }

    fn printed(answer: pb::ExplainPodResponse) -> String {
        let mut out = Vec::new();
        print(&mut out, &Answer::new(&web(), answer)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_pod_without_a_place_is_told_what_each_pool_and_node_lacks() {
        let text = printed(pb::ExplainPodResponse {
            summary: "no NodePool can host it".into(),
            rejections: vec![types::PoolRejection {
                node_pool: "default".into(),
                rule: "resources".into(),
                detail: "asks for 200 cpu, the largest type has 192".into(),
            }],
            node_rejections: vec![pb::NodeRejection {
                node: "ip-10-0-0-1".into(),
                rule: "taints".into(),
                detail: "gpu=true:NoSchedule is not tolerated".into(),
            }],
            relaxed: vec!["zone us-east-1a".into(), "spread by host".into()],
            ..pb::ExplainPodResponse::default()
        });
        let expected = "\
pod shop/web
no NodePool can host it
dropped preferences: zone us-east-1a
                     spread by host

NODEPOOL  RULE       WHY NOT
default   resources  asks for 200 cpu, the largest type has 192

NODE         RULE    WHY NOT
ip-10-0-0-1  taints  gpu=true:NoSchedule is not tolerated
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_node_that_would_be_made_is_shown_with_its_price() {
        let answer = pb::ExplainPodResponse {
            summary: "a node will be made".into(),
            planned: Some(types::PlannedNode {
                node_pool: "default".into(),
                instance_types: vec!["m5.large".into(), "m6i.large".into()],
                launch: Some(types::Offering {
                    instance_type: "m5.large".into(),
                    zone: "us-east-1a".into(),
                    capacity_type: types::CapacityType::OnDemand.into(),
                    micro_usd_per_hour: 96_000,
                    ..types::Offering::default()
                }),
                ..types::PlannedNode::default()
            }),
            ..pb::ExplainPodResponse::default()
        };
        let text = printed(answer.clone());
        assert!(text.contains("m5.large on-demand in us-east-1a, $0.0960 an hour"), "{text}");
        assert!(text.contains("(NodePool default, 2 types possible)"), "{text}");
        let json = serde_json::to_value(Answer::new(&web(), answer)).unwrap();
        assert_eq!((&json["pod"], &json["planned"]["types"]), (&"shop/web".into(), &2.into()));
    }
}
