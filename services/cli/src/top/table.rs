//! The figures for people.

use std::io::{self, Write};

use model::price::MicroDollars;

use super::figures::{Node, Pool, Top, Used};
use crate::columns::{self, Align};
use crate::offering::{HOURS_PER_MONTH, Spent};

pub(super) fn print(out: &mut dyn Write, top: &Top, limit: usize) -> io::Result<()> {
    let several = top.pools.len() > 1;
    let total = several.then_some(&top.total);
    let rows: Vec<[String; 9]> = top.pools.iter().chain(total).map(pool).collect();
    let (left, right) = (Align::Left, Align::Right);
    let headings = [
        ("NODEPOOL", left),
        ("NODES", right),
        ("PODS", right),
        ("CPU", right),
        ("MEMORY", right),
        ("$/HOUR", right),
        ("$/MONTH", right),
        ("WASTE $/H", right),
        ("SAVING $/H", right),
    ];
    columns::print(out, headings, &rows)?;
    summary(out, top)?;
    nodes(out, top, limit)
}

fn summary(out: &mut dyn Write, top: &Top) -> io::Result<()> {
    let total = &top.total;
    if total.unpriced > 0 {
        writeln!(out, "\nnodes without a price, left out of the sums: {}", total.unpriced)?;
    }
    match &top.savings_unknown {
        Some(why) => writeln!(out, "\nwhat could be saved is not known: {why}"),
        None if total.savings.is_zero() => {
            writeln!(out, "\ndisruption found no savings in its last evaluation")
        }
        None => writeln!(
            out,
            "\npotential saving: {} for the best single node; at most {} for all that were found, each by itself",
            Spent(total.best_saving),
            Spent(total.savings)
        ),
    }
}

fn nodes(out: &mut dyn Write, top: &Top, limit: usize) -> io::Result<()> {
    let shown = if limit == 0 { top.nodes.len() } else { limit.min(top.nodes.len()) };
    if shown == 0 {
        return Ok(());
    }
    writeln!(out)?;
    let rows: Vec<[String; 10]> = top.nodes[..shown].iter().map(node).collect();
    let (left, right) = (Align::Left, Align::Right);
    let headings = [
        ("NODE", left),
        ("NODEPOOL", left),
        ("TYPE", left),
        ("CAPACITY", left),
        ("PODS", right),
        ("CPU", right),
        ("MEMORY", right),
        ("$/HOUR", right),
        ("WASTE $/H", right),
        ("DISRUPTION", left),
    ];
    columns::print(out, headings, &rows)?;
    let more = top.nodes.len() - shown;
    if more > 0 {
        writeln!(out, "… and {more} more (--limit 0 lists all)")?;
    }
    Ok(())
}

fn pool(pool: &Pool) -> [String; 9] {
    let Used { cpu_percent, memory_percent } = pool.used;
    let month = pool.price.saturating_mul(HOURS_PER_MONTH);
    [
        pool.node_pool.clone(),
        pool.nodes.to_string(),
        pool.pods.to_string(),
        percent(cpu_percent),
        percent(memory_percent),
        hour(pool.price),
        format!("{:.2}", month.to_f64()),
        hour(pool.waste),
        if pool.savings.is_zero() { String::new() } else { hour(pool.savings) },
    ]
}

fn node(node: &Node) -> [String; 10] {
    let offering = node.offering.as_ref();
    let disruption = match (node.saving, node.disruptable, &node.held_by) {
        (Some(saving), _, _) => format!("could save {}", hour(saving)),
        (None, Some(true), _) => "disruptable".to_owned(),
        (None, Some(false), Some(held)) => held.clone(),
        (None, Some(false), None) => "held".to_owned(),
        (None, None, _) => String::new(),
    };
    [
        node.node.clone(),
        node.node_pool.clone(),
        offering.map(|o| o.instance_type.clone()).unwrap_or_default(),
        offering.map_or("", |o| o.capacity_type).to_owned(),
        node.pods.to_string(),
        percent(node.used.cpu_percent),
        percent(node.used.memory_percent),
        offering.map_or_else(|| "?".to_owned(), |o| hour(o.price_per_hour)),
        hour(node.waste),
        disruption,
    ]
}

fn percent(share: Option<u32>) -> String {
    share.map(|share| format!("{share}%")).unwrap_or_default()
}

fn hour(price: MicroDollars) -> String {
    format!("{:.4}", price.to_f64())
}

#[cfg(test)]
mod tests {
    use proto::disruption::v1::{Blocker, Candidate};
    use proto::provisioner::v1::{GetSnapshotResponse, NodeSummary};
    use proto::types::v1 as types;

    use super::super::By;
    use super::*;

    fn amounts(cpu: &str, memory: &str) -> Option<types::Resources> {
        let pairs = [("cpu", cpu), ("memory", memory)];
        let quantities = pairs.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        Some(types::Resources { quantities })
    }

    fn summary(name: &str, pool: &str, price: i64, cpu: &str, memory: &str) -> NodeSummary {
        NodeSummary {
            name: name.into(),
            node_claim: format!("{name}-claim"),
            node_pool: pool.into(),
            offering: Some(types::Offering {
                instance_type: "m5.large".into(),
                zone: "us-east-1a".into(),
                capacity_type: types::CapacityType::OnDemand.into(),
                micro_usd_per_hour: price,
                ..types::Offering::default()
            }),
            allocatable: amounts("2", "8Gi"),
            requested: amounts(cpu, memory),
            pods: 3,
            phase: "initialized".into(),
            ..NodeSummary::default()
        }
    }

    fn snapshot() -> GetSnapshotResponse {
        let foreign = NodeSummary { node_claim: String::new(), ..summary("theirs", "", 500_000, "1", "1Gi") };
        GetSnapshotResponse {
            node_summaries: vec![
                summary("a", "default", 96_000, "500m", "2Gi"),
                summary("b", "default", 96_000, "1500m", "1Gi"),
                summary("c", "batch", 96_000, "0", "0"),
                summary("d", "batch", 0, "1", "4Gi"),
                foreign,
            ],
            ..GetSnapshotResponse::default()
        }
    }

    fn printed(top: &Top, limit: usize) -> String {
        let mut out = Vec::new();
        print(&mut out, top, limit).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn pools_and_nodes_are_told_by_cost_use_and_waste() {
        let mut top = Top::new(&snapshot(), "").unwrap();
        top.add_candidates(&[
            Candidate {
                node: "c".into(),
                disruptable: true,
                saving_micro_usd_per_hour: Some(96_000),
                ..Candidate::default()
            },
            Candidate {
                node: "a".into(),
                blockers: vec![Blocker { detail: "pod default/x holds it".into(), ..Blocker::default() }],
                ..Candidate::default()
            },
        ]);
        top.order(By::Waste);
        let expected = "\
NODEPOOL  NODES  PODS  CPU  MEMORY  $/HOUR  $/MONTH  WASTE $/H  SAVING $/H
batch         2     6  25%     25%  0.0960    70.08     0.0960      0.0960
default       2     6  50%     18%  0.1920   140.16     0.0960
all           4    12  37%     21%  0.2880   210.24     0.1920      0.0960

nodes without a price, left out of the sums: 1

potential saving: $0.0960 an hour, $70.08 a month for the best single node; at most $0.0960 an hour, $70.08 a month for all that were found, each by itself

NODE  NODEPOOL  TYPE      CAPACITY   PODS  CPU  MEMORY  $/HOUR  WASTE $/H  DISRUPTION
c     batch     m5.large  on-demand     3   0%      0%  0.0960     0.0960  could save 0.0960
a     default   m5.large  on-demand     3  25%     25%  0.0960     0.0720  pod default/x holds it
b     default   m5.large  on-demand     3  75%     12%  0.0960     0.0240
… and 1 more (--limit 0 lists all)
";
        assert_eq!(printed(&top, 3), expected);
    }

    #[test]
    fn one_pool_is_shown_alone_and_without_disruption_the_rest_still_is() {
        let mut top = Top::new(&snapshot(), "default").unwrap();
        top.without_disruption(&anyhow::anyhow!("disruption is not running"));
        let text = printed(&top, 0);
        assert!(!text.contains("batch") && !text.contains("all "), "{text}");
        assert!(text.contains("what could be saved is not known: disruption is not running"), "{text}");
    }

    #[test]
    fn orders_put_the_largest_first() {
        let mut top = Top::new(&snapshot(), "").unwrap();
        top.add_candidates(&[Candidate {
            node: "b".into(),
            saving_micro_usd_per_hour: Some(1),
            ..Candidate::default()
        }]);
        let mut first = |by| {
            top.order(by);
            top.nodes[0].node.clone()
        };
        assert_eq!([first(By::Waste), first(By::Saving), first(By::Cost)], ["c", "b", "c"]);
    }

    #[test]
    fn programs_read_plain_numbers() {
        let top = Top::new(&snapshot(), "batch").unwrap();
        let json = serde_json::to_value(&top).unwrap();
        assert_eq!(json["pools"][0]["pricePerHour"], 0.096);
        assert_eq!(json["nodes"][0]["instanceType"], "m5.large");
        assert_eq!(json["nodes"][0]["wastePerHour"], 0.096);
        assert_eq!(json["total"]["unpriced"], 1);
    }
}
