//! What the kernel knows of this process, read from /proc at each scrape, and what was built into it.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, family::Family, gauge::ConstGauge},
};

use crate::Service;

/// Linux shows times to user space in hundredths of a second on every architecture (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug)]
pub(crate) struct ProcessCollector {
    service: Service,
}

impl ProcessCollector {
    pub(crate) fn new(service: Service) -> Self {
        Self { service }
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let mut gauge = |name, help, value: Option<f64>| match value {
            Some(value) => {
                let gauge = ConstGauge::new(value);
                gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
            }
            None => Ok(()),
        };
        let stat = Stat::read();
        gauge("process_resident_memory_bytes", "Memory in use", resident_bytes())?;
        gauge("process_open_fds", "Open file descriptors", open_files())?;
        let started = stat.as_ref().and_then(Stat::started_at);
        gauge("process_start_time_seconds", "When the process began, seconds since 1970", started)?;
        if let Some(stat) = stat {
            let cpu = ConstCounter::new(stat.cpu_seconds);
            let into =
                encoder.encode_descriptor("process_cpu_seconds", "CPU time used", None, cpu.metric_type())?;
            cpu.encode(into)?;
        }
        let build = Family::<[(&str, &str); 4], prometheus_client::metrics::gauge::Gauge>::default();
        let labels = [
            ("version", env!("CARGO_PKG_VERSION")),
            ("service", self.service.as_str()),
            ("goversion", concat!("rust", env!("CARGO_PKG_RUST_VERSION"))),
            ("goarch", std::env::consts::ARCH),
        ];
        build.get_or_create(&labels).set(1);
        let into =
            encoder.encode_descriptor("karpenter_build_info", "What runs here", None, build.metric_type())?;
        build.encode(into)
    }
}

fn resident_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

fn open_files() -> Option<f64> {
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count() as f64)
}

struct Stat {
    cpu_seconds: f64,
    start_ticks: f64,
}

impl Stat {
    fn read() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/self/stat").ok()?)
    }

    /// Fields are counted from after the command's name, which may itself contain spaces and parentheses.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_whitespace().collect();
        let ticks = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        Some(Self { cpu_seconds: (ticks(14)? + ticks(15)?) / TICKS_PER_SECOND, start_ticks: ticks(22)? })
    }

    fn started_at(&self) -> Option<f64> {
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        let boot: f64 = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
        Some(boot + self.start_ticks / TICKS_PER_SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let text = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 3 0 9000 1 2 3";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.cpu_seconds, stat.start_ticks), (3.0, 9000.0));
    }
}
