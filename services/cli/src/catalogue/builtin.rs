//! The table that is compiled in: `data/catalogue.tsv`, made by `data/compact-catalogue.py`.

use model::price::MicroDollars;
use model::resources::{AWS_NEURON, NVIDIA_GPU};

use super::figures::{Figures, Gpu, Prices, Table};

const TEXT: &str = include_str!("../../data/catalogue.tsv");

/// A row that is not understood is a mistake in the file we ship; the tests read all of them.
pub(super) fn table() -> Table {
    let mut rows =
        TEXT.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect::<Vec<_>>());
    let head = rows.next().unwrap_or_default();
    let mut table = Table {
        region: head.first().copied().unwrap_or_default().to_owned(),
        zones: head
            .iter()
            .skip(1)
            .filter_map(|z| z.split_once('='))
            .map(|(l, id)| (l.into(), id.into()))
            .collect(),
        types: Vec::new(),
    };
    table.types = rows.filter_map(|columns| figures(&columns)).collect();
    table
}

fn figures(columns: &[&str]) -> Option<Figures> {
    let [
        name,
        arch,
        hypervisor,
        maker,
        cpus,
        mib,
        pods,
        encryption,
        network,
        nvme,
        gpu,
        devices,
        on_demand,
        zones,
    ] = columns
    else {
        return None;
    };
    let gpu = match gpu.split('/').collect::<Vec<_>>()[..] {
        [name, maker, count, mib] => Some(Gpu {
            name: name.to_owned(),
            maker: maker.to_owned(),
            count: count.parse().ok()?,
            mib: mib.parse().ok()?,
        }),
        _ => None,
    };
    let devices = devices
        .split(',')
        .filter_map(|device| device.split_once('='))
        .map(|(short, count)| {
            let name = if short == "neuron" { AWS_NEURON } else { NVIDIA_GPU };
            Some((name.to_owned(), count.parse().ok()?))
        })
        .collect::<Option<Vec<_>>>()?;
    Some(Figures {
        name: (*name).to_owned(),
        arch: (*arch).to_owned(),
        hypervisor: (*hypervisor).to_owned(),
        cpu_maker: (*maker).to_owned(),
        cpus: cpus.parse().ok()?,
        mib: mib.parse().ok()?,
        pods: pods.parse().ok()?,
        encryption: *encryption == "e",
        network_mbit: network.parse().ok(),
        ebs_mbit: None,
        clock_mhz: None,
        nvme_gb: nvme.parse().ok(),
        gpu,
        devices,
        prices: Prices {
            on_demand: on_demand.parse().ok().map(MicroDollars::new),
            zones: zones.split(' ').filter_map(zone).collect(),
        },
    })
}

/// `a43000`: spot and on-demand; `a`: on-demand only; `a43000!`: spot only.
fn zone(text: &str) -> Option<(String, Option<MicroDollars>, bool)> {
    let sold = !text.ends_with('!');
    let text = text.trim_end_matches('!');
    let digits = text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len());
    let (letter, price) = text.split_at(digits);
    let spot = if price.is_empty() { None } else { Some(MicroDollars::new(price.parse().ok()?)) };
    (!letter.is_empty()).then(|| (letter.to_owned(), spot, sold))
}
