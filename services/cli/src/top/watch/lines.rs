//! Where no screen can be drawn: one line per node that changed, for people or as JSON. Pure but for the output.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::tables::price;
use super::view::{NodeRow, View, percent};

/// What was printed about each node.
#[derive(Default)]
pub(super) struct Lines(BTreeMap<String, NodeRow>);

impl Lines {
    /// Prints what differs from the last time; nodes that are gone come first.
    pub(super) fn print(&mut self, out: &mut dyn Write, view: &View, as_json: bool) -> io::Result<()> {
        if !view.seen {
            return Ok(());
        }
        let now: BTreeMap<String, NodeRow> =
            view.nodes.iter().map(|row| (row.key.clone(), row.clone())).collect();
        for row in self.0.values().filter(|row| !now.contains_key(&row.key)) {
            write_line(out, row, true, as_json)?;
        }
        for row in now.values().filter(|row| self.0.get(&row.key) != Some(row)) {
            write_line(out, row, false, as_json)?;
        }
        self.0 = now;
        out.flush()
    }
}

fn write_line(out: &mut dyn Write, row: &NodeRow, gone: bool, as_json: bool) -> io::Result<()> {
    let state = if gone { "gone" } else { row.state.label() };
    if as_json {
        return writeln!(out, "{}", to_json(row, state));
    }
    let share = |amounts| percent(amounts).map_or_else(|| "-".to_owned(), |share| format!("{share}%"));
    let NodeRow { name, pool, instance_type, zone, capacity_type, .. } = row;
    let figures = format!("cpu {} memory {} ${}/h", share(row.cpu), share(row.memory), price(row.price));
    let waits = if gone || row.waits.is_empty() { String::new() } else { format!(": {}", row.waits) };
    writeln!(out, "{name}  {pool}  {instance_type}  {zone}  {capacity_type}  {figures}  {state}{waits}")
}

fn to_json(row: &NodeRow, state: &str) -> Value {
    let price = (row.price > 0).then(|| model::price::MicroDollars::new(row.price).to_f64());
    json!({
        "node": row.key,
        "nodePool": row.pool,
        "instanceType": row.instance_type,
        "zone": row.zone,
        "capacityType": row.capacity_type,
        "pricePerHour": price,
        "cpuPercent": percent(row.cpu),
        "memoryPercent": percent(row.memory),
        "state": state,
        "waits": row.waits,
    })
}
