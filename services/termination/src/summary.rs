//! A summary with quantiles, as the reference publishes for `nodes_termination_duration_seconds`; the metrics library has
//! none. Quantiles are over the last observations of each pool, count and sum over all.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

const KEPT: usize = 512;
const QUANTILES: [(f64, &str); 5] = [(0.0, "0"), (0.5, "0.5"), (0.9, "0.9"), (0.99, "0.99"), (1.0, "1")];

#[derive(Clone, Debug)]
pub(crate) struct Summaries {
    name: &'static str,
    help: &'static str,
    by_pool: Arc<Mutex<BTreeMap<String, Observed>>>,
}

#[derive(Debug, Default)]
struct Observed {
    last: VecDeque<f64>,
    sum: f64,
    count: u64,
}

impl Summaries {
    pub(crate) fn new(name: &'static str, help: &'static str) -> Self {
        Self { name, help, by_pool: Arc::default() }
    }

    pub(crate) fn observe(&self, nodepool: &str, seconds: f64) {
        let mut by_pool = self.by_pool.lock().unwrap_or_else(PoisonError::into_inner);
        let observed = by_pool.entry(nodepool.to_owned()).or_default();
        if observed.last.len() == KEPT {
            observed.last.pop_front();
        }
        observed.last.push_back(seconds);
        observed.sum += seconds;
        observed.count += 1;
    }
}

impl Collector for Summaries {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let by_pool = self.by_pool.lock().unwrap_or_else(PoisonError::into_inner);
        if by_pool.is_empty() {
            return Ok(());
        }
        // The text format's summary type is unknown to the library; scrapers go by the sample names.
        {
            let mut family = encoder.encode_descriptor(self.name, self.help, None, MetricType::Unknown)?;
            for (pool, observed) in by_pool.iter() {
                let mut sorted: Vec<f64> = observed.last.iter().copied().collect();
                sorted.sort_by(f64::total_cmp);
                for (quantile, label) in QUANTILES {
                    let value = ConstGauge::new(at(&sorted, quantile));
                    value
                        .encode(family.encode_family(&[("nodepool", pool.as_str()), ("quantile", label)])?)?;
                }
            }
        }
        {
            let name = format!("{}_sum", self.name);
            let mut family = encoder.encode_descriptor(&name, self.help, None, MetricType::Unknown)?;
            for (pool, observed) in by_pool.iter() {
                ConstGauge::new(observed.sum)
                    .encode(family.encode_family(&[("nodepool", pool.as_str())])?)?;
            }
        }
        let name = format!("{}_count", self.name);
        let mut family = encoder.encode_descriptor(&name, self.help, None, MetricType::Unknown)?;
        for (pool, observed) in by_pool.iter() {
            ConstGauge::new(observed.count).encode(family.encode_family(&[("nodepool", pool.as_str())])?)?;
        }
        Ok(())
    }
}

/// Nearest rank; `sorted` is not empty.
fn at(sorted: &[f64], quantile: f64) -> f64 {
    let rank = (quantile * (sorted.len() - 1) as f64).round() as usize;
    sorted[rank.min(sorted.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_sum_and_count_come_out_under_the_references_names() {
        let registry = runtime::Metrics::new(runtime::Service::Termination);
        let summary = Summaries::new("karpenter_nodes_termination_duration_seconds", "help");
        registry.register_collector(summary.clone());
        for seconds in 1..=100 {
            summary.observe("default", f64::from(seconds));
        }
        let text = registry.prometheus_text();
        for line in [
            "karpenter_nodes_termination_duration_seconds{nodepool=\"default\",quantile=\"0\"} 1.0",
            "karpenter_nodes_termination_duration_seconds{nodepool=\"default\",quantile=\"0.9\"} 90.0",
            "karpenter_nodes_termination_duration_seconds{nodepool=\"default\",quantile=\"1\"} 100.0",
            "karpenter_nodes_termination_duration_seconds_sum{nodepool=\"default\"} 5050.0",
            "karpenter_nodes_termination_duration_seconds_count{nodepool=\"default\"} 100",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
