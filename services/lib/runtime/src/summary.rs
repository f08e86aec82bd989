//! A summary with quantiles, as the reference publishes for some durations; the metrics library has none. Quantiles are over
//! the last observations of each series, count and sum over all.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

const KEPT: usize = 512;
const QUANTILES: [(f64, &str); 5] = [(0.0, "0"), (0.5, "0.5"), (0.9, "0.9"), (0.99, "0.99"), (1.0, "1")];

/// Cheap to clone; to be registered with [`crate::Metrics::register_collector`].
#[derive(Clone, Debug)]
pub struct Summary {
    name: &'static str,
    help: &'static str,
    /// What tells series apart; `None`: there is one.
    label: Option<&'static str>,
    series: Arc<Mutex<BTreeMap<String, Observed>>>,
}

#[derive(Debug, Default)]
struct Observed {
    last: VecDeque<f64>,
    sum: f64,
    count: u64,
}

impl Summary {
    pub fn new(name: &'static str, help: &'static str, label: Option<&'static str>) -> Self {
        Self { name, help, label, series: Arc::default() }
    }

    /// `of` is the value of the label, if there is one.
    pub fn observe(&self, of: &str, seconds: f64) {
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let observed = series.entry(of.to_owned()).or_default();
        if observed.last.len() == KEPT {
            observed.last.pop_front();
        }
        observed.last.push_back(seconds);
        observed.sum += seconds;
        observed.count += 1;
    }
}

impl Collector for Summary {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        if series.is_empty() {
            return Ok(());
        }
        // The text format's summary type is unknown to the library; scrapers go by the sample names.
        let labels = |of: &'_ str| -> Vec<(&'static str, String)> {
            self.label.iter().map(|label| (*label, of.to_owned())).collect()
        };
        {
            let mut family = encoder.encode_descriptor(self.name, self.help, None, MetricType::Unknown)?;
            for (of, observed) in series.iter() {
                let mut sorted: Vec<f64> = observed.last.iter().copied().collect();
                sorted.sort_by(f64::total_cmp);
                for (quantile, word) in QUANTILES {
                    let mut all = labels(of);
                    all.push(("quantile", word.to_owned()));
                    ConstGauge::new(at(&sorted, quantile)).encode(family.encode_family(&all)?)?;
                }
            }
        }
        for (suffix, value) in [("sum", Observed::sum as fn(&Observed) -> f64), ("count", Observed::count)] {
            let name = format!("{}_{suffix}", self.name);
            let mut family = encoder.encode_descriptor(&name, self.help, None, MetricType::Unknown)?;
            if self.label.is_none() {
                let only = series.values().next().map_or(0.0, value);
                ConstGauge::new(only).encode(family)?;
                continue;
            }
            for (of, observed) in series.iter() {
                ConstGauge::new(value(observed)).encode(family.encode_family(&labels(of))?)?;
            }
        }
        Ok(())
    }
}

impl Observed {
    fn sum(&self) -> f64 {
        self.sum
    }

    fn count(&self) -> f64 {
        self.count as f64
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
        let registry = crate::Metrics::new(crate::Service::Termination);
        let summary = Summary::new("karpenter_nodes_termination_duration_seconds", "help", Some("nodepool"));
        registry.register_collector(summary.clone());
        for seconds in 1..=100 {
            summary.observe("default", f64::from(seconds));
        }
        let plain = Summary::new("karpenter_pods_startup_duration_seconds", "help", None);
        registry.register_collector(plain.clone());
        plain.observe("", 2.0);
        let text = registry.prometheus_text();
        for line in [
            "karpenter_pods_startup_duration_seconds{quantile=\"0.5\"} 2.0",
            "karpenter_pods_startup_duration_seconds_count 1.0",
            "karpenter_nodes_termination_duration_seconds{nodepool=\"default\",quantile=\"0\"} 1.0",
            "karpenter_nodes_termination_duration_seconds{nodepool=\"default\",quantile=\"0.9\"} 90.0",
            "karpenter_nodes_termination_duration_seconds{nodepool=\"default\",quantile=\"1\"} 100.0",
            "karpenter_nodes_termination_duration_seconds_sum{nodepool=\"default\"} 5050.0",
            "karpenter_nodes_termination_duration_seconds_count{nodepool=\"default\"} 100.0",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
