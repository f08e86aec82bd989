//! What every service can be told from outside, and how it is read: flags with environment twins, checked before
//! anything is opened. Nothing else in the workspace reads the environment.
//!
//! A wrong flag or value gives one line on stderr that names it, and exit status 64 (`EX_USAGE`). An environment variable
//! that is set but empty counts as not set, because charts write such for values nobody gave.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::{ArgAction, Args, Parser, error::ErrorKind};

pub use crate::config_values::{boolean, go_duration, log_filter, non_negative};

/// `EX_USAGE` of sysexits: the caller must change the command line, a restart will not help.
pub const EXIT_USAGE: u8 = 64;

/// A service's own `clap` struct, with [`ProcessConfig`] flattened into it.
pub trait ServiceConfig: Parser + Send + 'static {
    fn process(&self) -> &ProcessConfig;
}

#[derive(Args, Clone, Debug)]
pub struct ProcessConfig {
    /// What to log: debug, info, warn, error, or a filter such as `info,provisioner::batch=debug`.
    #[arg(long, env = "LOG_LEVEL", default_value = "info", value_parser = log_filter)]
    pub log_level: String,

    /// Where to send traces, as OTLP over gRPC, e.g. http://jaeger:4317. Without it no traces are sent.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    pub otlp_endpoint: Option<http::Uri>,

    /// Address of the admin HTTP server: /metrics, /healthz, /readyz. `[::]` is every address, IPv4 included.
    #[arg(long, env = "ADMIN_ADDR", default_value = "[::]:8080")]
    pub admin_addr: SocketAddr,

    /// Port of the admin HTTP server, in place of the one in the admin address (Karpenter's name for it).
    #[arg(long, env = "METRICS_PORT")]
    pub metrics_port: Option<u16>,

    /// A second port for the admin HTTP server, for probes that expect Karpenter's own health port.
    #[arg(long, env = "HEALTH_PROBE_PORT")]
    pub health_probe_port: Option<u16>,

    /// Address the gRPC server listens on. `[::]` is every address, IPv4 included.
    #[arg(long, env = "GRPC_ADDR", default_value = "[::]:9090")]
    pub grpc_addr: SocketAddr,

    /// host:port under which other services reach this replica [default: pod IP and gRPC port, else the gRPC address].
    #[arg(long, env = "ADVERTISE_ADDR")]
    pub advertise_addr: Option<SocketAddr>,

    /// IP of this pod (from the downward API), for the advertised address.
    #[arg(long, env = "POD_IP", hide = true)]
    pub pod_ip: Option<std::net::IpAddr>,

    /// Name of this replica, unique in its service [default: hostname and process id].
    #[arg(long, env = "POD_NAME")]
    pub replica_name: Option<String>,

    /// Namespace of the services: their leases, trust ConfigMaps and ServiceAccounts.
    #[arg(long, env = "SYSTEM_NAMESPACE", default_value = "kube-system")]
    pub namespace: String,

    /// ServiceAccount that all five services run as, where they share one in place of karpenter-<service> each.
    #[arg(long, env = "SHARED_SERVICE_ACCOUNT")]
    pub shared_service_account: Option<String>,

    /// Directory with a ServiceAccount token for each service to call, in a file of its name; read again as they change.
    #[arg(long, env = "RPC_TOKEN_DIR", default_value = "/var/run/secrets/rpc.karpenter.sh")]
    pub rpc_token_dir: PathBuf,

    /// How long to finish or hand over work after SIGTERM; keep it below the pod's termination grace period.
    #[arg(long, env = "SHUTDOWN_GRACE", default_value = "20s", value_parser = go_duration)]
    pub shutdown_grace: Duration,

    /// Serve CPU and heap profiles (/debug/pprof/) and other /debug/ pages on the admin address, which is not authenticated.
    #[arg(long, env = "ENABLE_PROFILING", default_value = "false", value_parser = boolean,
          action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_profiling: bool,

    /// Act as leader without a Lease. Only for a single replica.
    #[arg(long, env = "DISABLE_LEADER_ELECTION", default_value = "false", value_parser = boolean,
          action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub disable_leader_election: bool,

    /// First part of the Lease's name, `<this>-<service>`; equal for all services of one installation.
    #[arg(long, env = "LEADER_ELECTION_NAME", default_value = "karpenter")]
    pub leader_election_name: String,

    /// Requests a second to the Kubernetes API, on average.
    #[arg(long, env = "KUBE_CLIENT_QPS", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub kube_client_qps: u32,

    /// Requests to the Kubernetes API that may go out at once after a quiet time.
    #[arg(long, env = "KUBE_CLIENT_BURST", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    pub kube_client_burst: u32,

    /// Decide, and do not act: writes to the cluster are dry runs that are told in the log, AWS is only read.
    #[arg(long, env = "SHADOW_MODE", default_value = "false", value_parser = boolean,
          action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub shadow_mode: bool,

    /// What was not stored in shadow mode, by all clients of this process.
    #[arg(skip)]
    pub shadow_record: crate::shadow::Record,

    /// Switch TLS and caller authentication OFF. For a run on one machine only.
    #[arg(long, env = "INSECURE_LOCAL", default_value = "false", value_parser = boolean,
          action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub insecure_local: bool,
}

impl ProcessConfig {
    /// One or two addresses, all of which serve the same pages.
    pub fn admin_addrs(&self) -> Vec<SocketAddr> {
        let with_port = |port| SocketAddr::new(self.admin_addr.ip(), port);
        let first = self.metrics_port.map_or(self.admin_addr, with_port);
        let second = self.health_probe_port.map(with_port);
        std::iter::once(first).chain(second.filter(|second| *second != first)).collect()
    }

    /// Where others reach a server bound to `bound`. An unspecified address (`[::]`, 0.0.0.0) is of no use to a caller, so
    /// without a pod IP it becomes IPv4's loopback, on which both listen: right for a run on one machine, and in a pod
    /// POD_IP is set.
    pub fn advertised(&self, bound: SocketAddr) -> SocketAddr {
        if let Some(given) = self.advertise_addr {
            let port = if given.port() == 0 { bound.port() } else { given.port() };
            return SocketAddr::new(given.ip(), port);
        }
        let ip = match bound.ip() {
            ip if ip.is_unspecified() => self.pod_ip.unwrap_or_else(|| Ipv4Addr::LOCALHOST.into()),
            ip => ip,
        };
        SocketAddr::new(ip, bound.port())
    }

    pub fn replica(&self) -> String {
        self.replica_name.clone().unwrap_or_else(|| {
            let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            let host = host.trim();
            format!("{}-{}", if host.is_empty() { "local" } else { host }, std::process::id())
        })
    }
}

/// Reads flags and environment. `Err` is the status to exit with; what was wrong (or the help text) is already printed.
pub fn parse<C: Parser>() -> Result<C, ExitCode> {
    parse_from(std::env::args_os()).map_err(|refusal| match refusal {
        Refusal::Shown(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Refusal::Wrong(line) => {
            eprintln!("{line}");
            ExitCode::from(EXIT_USAGE)
        }
    })
}

/// Why there is no configuration.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Help or version was asked for.
    Shown(String),
    /// One line that names what is wrong.
    Wrong(String),
}

pub fn parse_from<C: Parser>(args: impl IntoIterator<Item = std::ffi::OsString>) -> Result<C, Refusal> {
    parse_with(args, |name| std::env::var_os(name).is_some_and(|value| value.is_empty()))
}

fn parse_with<C: Parser>(
    args: impl IntoIterator<Item = std::ffi::OsString>,
    is_empty_variable: impl Fn(&std::ffi::OsStr) -> bool,
) -> Result<C, Refusal> {
    let mut command = C::command();
    let empty: Vec<clap::Id> = command
        .get_arguments()
        .filter(|arg| arg.get_env().is_some_and(&is_empty_variable))
        .map(|arg| arg.get_id().clone())
        .collect();
    for id in empty {
        command = command.mut_arg(id, |arg| arg.env(None::<&'static str>));
    }
    let parsed = command.try_get_matches_from_mut(args).and_then(|matches| C::from_arg_matches(&matches));
    parsed.map_err(|error| refusal(&command, &error))
}

fn refusal(command: &clap::Command, error: &clap::Error) -> Refusal {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return Refusal::Shown(error.to_string());
    }
    let text = error.to_string();
    let mut line =
        text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let variable = command.get_arguments().find_map(|arg| {
        let flag = format!("--{}", arg.get_long()?);
        let named = line.split([' ', '\'', '=']).any(|word| word == flag);
        named.then(|| arg.get_env()).flatten()
    });
    if let Some(variable) = variable {
        line.push_str(&format!(" (environment variable {})", variable.to_string_lossy()));
    }
    Refusal::Wrong(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Parser, Debug)]
    #[command(name = "tried")]
    struct Tried {
        #[command(flatten)]
        process: ProcessConfig,
        #[command(flatten)]
        settings: crate::Settings,
    }

    fn parse(args: &[&str]) -> Result<Tried, Refusal> {
        let all = ["tried", "--cluster-name=demo"].iter().chain(args);
        parse_with(all.map(Into::into), |_| false)
    }

    fn wrong(args: &[&str]) -> String {
        match parse(args).unwrap_err() {
            Refusal::Wrong(line) => line,
            Refusal::Shown(text) => panic!("expected a refusal, got {text}"),
        }
    }

    #[test]
    fn defaults_are_those_of_the_reference() {
        let Tried { process, settings } = parse(&[]).unwrap();
        assert_eq!(process.admin_addrs(), ["[::]:8080".parse().unwrap()]);
        assert_eq!((process.kube_client_qps, process.kube_client_burst), (200, 300));
        assert_eq!(process.namespace, "kube-system");
        assert!(!process.insecure_local && !process.disable_leader_election && !process.enable_profiling);
        assert_eq!(settings.batch_max_duration, Duration::from_secs(10));
        assert_eq!(settings.batch_idle_duration, Duration::from_secs(1));
        assert_eq!(settings.vm_memory_overhead_percent, 0.075);
        assert!(settings.feature_gates.reserved_capacity && !settings.feature_gates.node_repair);
    }

    #[test]
    fn a_wrong_value_is_one_line_that_names_the_flag_and_its_variable() {
        let cases: &[(&[&str], &[&str])] = &[
            (&["--grpc-addr=nowhere"], &["nowhere", "--grpc-addr", "GRPC_ADDR"]),
            (&["--log-level=loud"], &["loud", "--log-level", "LOG_LEVEL"]),
            (&["--shutdown-grace=20"], &["20", "--shutdown-grace", "SHUTDOWN_GRACE"]),
            (&["--kube-client-qps=0"], &["0", "--kube-client-qps", "KUBE_CLIENT_QPS"]),
            (&["--enable-profiling=maybe"], &["maybe", "--enable-profiling", "ENABLE_PROFILING"]),
            (&["--feature-gates=NodeRepair"], &["NodeRepair", "--feature-gates", "FEATURE_GATES"]),
            (&["--batch-idle-duration=-1s"], &["-1s", "--batch-idle-duration", "BATCH_IDLE_DURATION"]),
            (&["--vm-memory-overhead-percent=-0.1"], &["-0.1", "VM_MEMORY_OVERHEAD_PERCENT"]),
            (&["--cluster-endpoint=no-scheme"], &["no-scheme", "CLUSTER_ENDPOINT"]),
            (&["--ami-refresh-interval=30s"], &["30s", "AMI_REFRESH_INTERVAL"]),
            (&["--preference-policy=Maybe"], &["Maybe", "PREFERENCE_POLICY"]),
            (&["--no-such-flag"], &["--no-such-flag"]),
        ];
        for (args, expected) in cases {
            let line = wrong(args);
            assert!(!line.contains('\n'), "{line}");
            for part in *expected {
                assert!(line.contains(part), "{line:?} does not name {part}");
            }
        }
    }

    #[test]
    fn a_missing_cluster_name_is_named() {
        let refused = parse_with::<Tried>(["tried".into()], |_| false).unwrap_err();
        let Refusal::Wrong(line) = refused else { panic!("{refused:?}") };
        assert!(line.contains("--cluster-name") && line.contains("CLUSTER_NAME"), "{line}");
    }

    #[test]
    fn switches_work_bare_and_with_a_value() {
        assert!(parse(&["--enable-profiling"]).unwrap().process.enable_profiling);
        assert!(!parse(&["--enable-profiling=false"]).unwrap().process.enable_profiling);
        assert!(parse(&["--isolated-vpc=1"]).unwrap().settings.isolated_vpc);
    }

    #[test]
    fn reference_port_names_move_and_add_admin_ports() {
        let process = parse(&["--metrics-port=9000", "--health-probe-port=9001"]).unwrap().process;
        assert_eq!(process.admin_addrs(), ["[::]:9000".parse().unwrap(), "[::]:9001".parse().unwrap()]);
    }

    #[test]
    fn a_replica_advertises_an_address_that_others_can_reach() {
        let bound = "[::]:9090".parse().unwrap();
        let advertised = |args: &[&str]| parse(args).unwrap().process.advertised(bound).to_string();
        assert_eq!(advertised(&[]), "127.0.0.1:9090");
        assert_eq!(advertised(&["--pod-ip=2001:db8::7"]), "[2001:db8::7]:9090");
        assert_eq!(advertised(&["--pod-ip=10.1.2.3"]), "10.1.2.3:9090");
        assert_eq!(advertised(&["--pod-ip=10.1.2.3", "--advertise-addr=192.0.2.1:444"]), "192.0.2.1:444");
    }

    #[test]
    fn help_is_shown_and_is_not_an_error() {
        assert!(matches!(parse(&["--help"]), Err(Refusal::Shown(text)) if text.contains("--grpc-addr")));
    }
}
