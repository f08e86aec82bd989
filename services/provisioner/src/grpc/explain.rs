//! Why a pod is where it is, or nowhere.

use std::time::{Duration, Instant};

use model::pod::Pod;
use proto::provisioner::v1 as pb;
use runtime::Settings;
use solver::{Effort, Options, PodRef};
use tokio_util::sync::CancellationToken;

use super::{misses, wire};
use crate::cluster::{ClusterView, PodFacts};
use crate::schedule::{self, Verdict, Verdicts};

/// A person waits for the answer.
const LIMIT: Duration = Duration::from_secs(5);

/// kube-scheduler says nothing of a pod whose resource claims do not exist: it does not look at it.
fn not_waiting(pod: &Pod) -> &'static str {
    if pod.spec.uses_resource_claims {
        return "is not waiting for a node: kube-scheduler looks at it once the resource claims that it names \
                exist; no node will be made for it then, for it uses resource claims (dynamic resource \
                allocation), which are not supported yet";
    }
    "is not waiting for a node: kube-scheduler has not found it unschedulable, or it is held by \
     scheduling gates, about to take a preempted pod's place, or bound to one node"
}

pub(super) fn answer(
    view: &ClusterView,
    facts: &PodFacts,
    verdicts: &Verdicts,
    settings: &Settings,
    replica: &str,
    gone: &CancellationToken,
) -> pb::ExplainPodResponse {
    let mut answer = pb::ExplainPodResponse {
        snapshot: Some(wire::version(view, replica)),
        node: facts.on.as_deref().unwrap_or_default().to_owned(),
        ..pb::ExplainPodResponse::default()
    };
    let pod = &facts.pod;
    if let Some(node) = &pod.node {
        answer.summary = match &facts.on {
            Some(on) if view.nodes.get(on).is_some_and(|n| n.object.as_ref() != Some(node)) => {
                format!("runs on node {node}, which goes; {on} was made for it")
            }
            _ => format!("runs on node {node}"),
        };
        return answer;
    }
    if !facts.waiting {
        answer.summary = not_waiting(pod).to_owned();
        return answer;
    }
    if let Some(on) = &facts.on {
        let state = view.nodes.get(on).map_or("on its way", |n| match n {
            _ if n.node.initialized => "ready",
            _ if n.node.registered => "starting",
            _ if n.launched => "launched",
            _ => "being launched",
        });
        answer.summary = format!("waits for {on}, which was made for it and is {state}");
        if let Some(refused) = &facts.refused {
            answer.summary = format!("{}; {refused}", answer.summary);
        }
        return answer;
    }
    // What keeps a planned node from being made is known to the last decision alone.
    if let Some(Verdict::Held(why)) = verdicts.get(&pod.uid) {
        answer.summary = why.to_string();
        return answer;
    }
    let options = Options { effort: Effort::Quick, ..schedule::options(settings) };
    let deadline = Instant::now() + LIMIT;
    let keep_going = || Instant::now() < deadline && !gone.is_cancelled();
    let plan = solver::solve(&view.snapshot, &options, &keep_going);
    let key = PodRef { namespace: pod.namespace.clone(), name: pod.name.clone() };
    let Some(why) = solver::explain(&view.snapshot, &pod.namespace, &pod.name, Some(&plan), &options) else {
        answer.summary = "arrived just now; ask again in a moment".to_owned();
        return answer;
    };
    answer.rejections = wire::rejections(&why);
    answer.relaxed = solver::relaxed(&view.snapshot, &pod.namespace, &pod.name, &options);
    let uids = wire::Uids::of(view, []);
    if let Some((index, node)) = plan.new_nodes.iter().enumerate().find(|(_, n)| n.pods.contains(&key)) {
        answer.planned = Some(wire::planned(node, index, &uids));
    } else if let Some(node) = plan.existing.iter().find(|n| n.pods.contains(&key)) {
        answer.node = node.node.to_string();
    }
    if answer.node.is_empty() {
        answer.node_rejections = misses::of(view, pod, &options, &keep_going);
    }
    answer.summary =
        if answer.planned.is_none() && answer.node.is_empty() { why.to_string() } else { why.verdict };
    if let Some(refused) = facts.refused.as_ref().filter(|refused| !answer.summary.contains(&***refused)) {
        answer.summary = format!("{}; {refused}", answer.summary);
    }
    answer
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        settings: Settings,
    }

    fn settings() -> Settings {
        Flags::parse_from(["provisioner", "--cluster-name=demo"]).settings
    }

    fn explained(verdicts: &Verdicts) -> pb::ExplainPodResponse {
        let facts = PodFacts {
            pod: Pod::pending("default", "web-0", Arc::default()),
            waiting: true,
            on: None,
            refused: None,
        };
        let gone = CancellationToken::new();
        answer(&ClusterView::empty(), &facts, verdicts, &settings(), "replica", &gone)
    }

    #[test]
    fn a_pod_whose_planned_node_is_held_back_is_explained_by_the_rule_that_it_breaks() {
        let why = "the solver's plan for it breaks a rule and is not carried out: pool other has a fixed number of nodes";
        let held = Verdicts::from([(Arc::from("web-0"), Verdict::Held(Arc::from(why)))]);
        assert_eq!(explained(&held).summary, why);
        // Of another pod.
        let other = Verdicts::from([(Arc::from("web-1"), Verdict::Held(Arc::from(why)))]);
        assert_eq!(explained(&other).summary, "arrived just now; ask again in a moment");
    }
}
