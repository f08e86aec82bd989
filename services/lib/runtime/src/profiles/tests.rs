use std::{
    collections::HashMap,
    hint::black_box,
    io::Read as _,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{body::Body, http::Request};
use flate2::read::GzDecoder;
use prost::Message;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::*;
use crate::{Metrics, Readiness, Service};

/// As in a service: without it there are no samples of the heap.
#[global_allocator]
static ALLOCATOR: crate::Allocator = crate::Allocator;

/// What a reader needs of `profile.proto`; apart from what is written, so that a wrong tag is noticed.
mod read {
    use prost::Message;

    #[derive(Message)]
    pub(super) struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub(super) sample_types: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub(super) samples: Vec<Sample>,
        #[prost(message, repeated, tag = "4")]
        pub(super) locations: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub(super) functions: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub(super) strings: Vec<String>,
    }

    #[derive(Message)]
    pub(super) struct ValueType {
        #[prost(int64, tag = "1")]
        pub(super) kind: i64,
        #[prost(int64, tag = "2")]
        pub(super) unit: i64,
    }

    #[derive(Message)]
    pub(super) struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub(super) locations: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub(super) values: Vec<i64>,
    }

    #[derive(Message)]
    pub(super) struct Location {
        #[prost(uint64, tag = "1")]
        pub(super) id: u64,
        #[prost(message, repeated, tag = "4")]
        pub(super) lines: Vec<Line>,
    }

    #[derive(Message)]
    pub(super) struct Line {
        #[prost(uint64, tag = "1")]
        pub(super) function: u64,
    }

    #[derive(Message)]
    pub(super) struct Function {
        #[prost(uint64, tag = "1")]
        pub(super) id: u64,
        #[prost(int64, tag = "2")]
        pub(super) name: i64,
    }
}

impl read::Profile {
    fn unpack(zipped: &[u8]) -> Self {
        let mut bytes = Vec::new();
        GzDecoder::new(zipped).read_to_end(&mut bytes).unwrap();
        Self::decode(bytes.as_slice()).unwrap()
    }

    fn sample_types(&self) -> Vec<(&str, &str)> {
        let text = |index: i64| self.strings[index as usize].as_str();
        self.sample_types.iter().map(|each| (text(each.kind), text(each.unit))).collect()
    }

    /// Stacks with a function of this name whose innermost function has none.
    fn nameless_below(&self, function: &str) -> usize {
        let functions: HashMap<_, _> = self.functions.iter().map(|each| (each.id, each.name)).collect();
        let locations: HashMap<_, _> = self.locations.iter().map(|each| (each.id, &each.lines)).collect();
        let is_named = |id: &u64| {
            let mut names =
                locations[id].iter().map(|line| &self.strings[functions[&line.function] as usize]);
            names.any(|name| name.contains(function))
        };
        let below = self.samples.iter().filter(|each| each.locations.iter().any(is_named));
        below.filter(|each| locations[&each.locations[0]].is_empty()).count()
    }

    fn samples(&self) -> i64 {
        self.samples.iter().filter_map(|each| each.values.first()).sum()
    }

    /// The sum of the last value over all samples whose stack has a function of this name.
    fn total(&self, function: &str) -> i64 {
        let functions: HashMap<_, _> = self.functions.iter().map(|each| (each.id, each.name)).collect();
        let is_named = |location: &read::Location| {
            location
                .lines
                .iter()
                .any(|line| self.strings[functions[&line.function] as usize].contains(function))
        };
        let named: Vec<_> = self.locations.iter().filter(|each| is_named(each)).map(|each| each.id).collect();
        let matching = self.samples.iter().filter(|each| each.locations.iter().any(|id| named.contains(id)));
        matching.filter_map(|each| each.values.last()).sum()
    }
}

fn admin(profiling: bool) -> Admin {
    Admin::new(Metrics::new(Service::Termination), Readiness::default(), profiling)
}

/// Status line and body of one request over a real connection.
async fn get(admin: Admin, path: &str) -> (String, Vec<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (addr, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    let asking = async {
        let mut stream = TcpStream::connect(addr).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        stop.cancel();
        answer
    };
    let (served, answer) = tokio::join!(admin.serve(listener, stop.clone()), asking);
    served.unwrap();
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    (head.lines().next().unwrap().to_owned(), answer[end + 4..].to_vec())
}

#[inline(never)]
fn keep_the_cpu_busy(stop: &AtomicBool) {
    let mut count = 0u64;
    while !stop.load(Ordering::Relaxed) {
        count = black_box(count.wrapping_mul(31).wrapping_add(7));
    }
}

/// All that samples CPU is in this one test: a process can take only one CPU profile at a time.
#[tokio::test]
async fn a_cpu_profile_names_the_busy_function_and_there_is_one_at_a_time() {
    let other = cpu::Sampling::start().unwrap();
    let (status, body) = get(admin(true), "/debug/pprof/profile?seconds=1").await;
    assert_eq!(status, "HTTP/1.1 409 Conflict");
    assert!(String::from_utf8(body).unwrap().contains("only one at a time"));
    drop(other);

    let stopping = admin(true);
    stopping.stop.cancel();
    let request = Request::get("/debug/pprof/profile?seconds=120").body(Body::empty()).unwrap();
    let answer = stopping.routes().oneshot(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);

    let stop = Arc::new(AtomicBool::new(false));
    let busy = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || keep_the_cpu_busy(&stop)
    });
    // On a machine that does much else, the busy thread may get no CPU for a while.
    let mut sampled = 0;
    for _ in 0..20 {
        let (status, body) = get(admin(true), "/debug/pprof/profile?seconds=1").await;
        assert_eq!(status, "HTTP/1.1 200 OK");
        let profile = read::Profile::unpack(&body);
        assert_eq!(profile.sample_types(), [("samples", "count"), ("cpu", "nanoseconds")]);
        sampled = profile.total("keep_the_cpu_busy");
        if sampled > 0 {
            break;
        }
    }
    stop.store(true, Ordering::Relaxed);
    busy.join().unwrap();
    assert!(sampled > 0);
}

#[inline(never)]
fn keep_megabytes() -> Vec<Vec<u8>> {
    (0..64).map(|_| vec![1; 256 << 10]).collect()
}

#[tokio::test]
async fn a_heap_profile_names_the_function_whose_memory_is_in_use() {
    start().await;
    let kept = keep_megabytes();
    let (status, body) = get(admin(true), "/debug/pprof/heap").await;
    assert_eq!(status, "HTTP/1.1 200 OK");
    let profile = read::Profile::unpack(&body);
    assert_eq!(profile.sample_types(), [("inuse_space", "bytes")]);
    // 16 MiB, as far as samples show it.
    let bytes = profile.total("keep_megabytes");
    assert!((4 << 20..64 << 20).contains(&bytes), "{bytes}");

    drop(black_box(kept));
    let (_, body) = get(admin(true), "/debug/pprof/heap").await;
    assert_eq!(read::Profile::unpack(&body).total("keep_megabytes"), 0);
}

#[tokio::test]
async fn a_wrong_duration_is_refused_with_the_allowed_range() {
    for given in ["0", "121", "-1", "1.5", "soon", ""] {
        let (status, body) = get(admin(true), &format!("/debug/pprof/profile?seconds={given}")).await;
        assert_eq!(status, "HTTP/1.1 400 Bad Request", "{given}");
        let text = String::from_utf8(body).unwrap();
        assert_eq!(text, format!("seconds={given:?} is not a whole number from 1 to 120\n"));
    }
    let (status, _) = get(admin(true), "/debug/pprof/heap?seconds=5").await;
    assert_eq!(status, "HTTP/1.1 400 Bad Request");
}

#[tokio::test]
async fn profiles_are_there_only_when_switched_on() {
    for path in ["/debug/pprof/", "/debug/pprof/profile?seconds=1", "/debug/pprof/heap"] {
        assert_eq!(get(admin(false), path).await.0, "HTTP/1.1 404 Not Found", "{path}");
    }
    let (status, body) = get(admin(true), "/debug/pprof/").await;
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(String::from_utf8(body).unwrap().contains("/debug/pprof/heap"));
}

/// Where [`take_both_profiles`] leaves them.
const PROFILES: &str = "KARPENTER_TEST_PROFILES";

/// A CPU profile, the directory for temporary files and the program file are all the process's own.
#[tokio::test]
#[ignore = "run by go_reads_the_profiles_of_programs_without_debug_information"]
async fn take_both_profiles() {
    let directory = std::env::var_os(PROFILES).expect("the directory to write to");
    let directory = Path::new(&directory);
    assert!(tempfile::tempfile().is_err(), "nothing can be written but shared memory");
    start().await;
    let kept = keep_megabytes();
    let (status, heap) = get(admin(true), "/debug/pprof/heap").await;
    assert_eq!(status, "HTTP/1.1 200 OK");
    std::fs::write(directory.join("heap"), heap).unwrap();
    drop(black_box(kept));

    let stop = Arc::new(AtomicBool::new(false));
    let busy = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || keep_the_cpu_busy(&stop)
    });
    // On a machine that does much else, the busy thread may get little CPU for a while.
    let cpu = loop {
        let (status, cpu) = get(admin(true), "/debug/pprof/profile?seconds=1").await;
        assert_eq!(status, "HTTP/1.1 200 OK");
        if read::Profile::unpack(&cpu).samples() >= 10 {
            break cpu;
        }
    };
    stop.store(true, Ordering::Relaxed);
    busy.join().unwrap();
    std::fs::write(directory.join("cpu"), cpu).unwrap();
}

/// This test program, stripped, takes its own profiles without a directory for temporary files.
fn profile_stripped(strip: &str, directory: &Path) -> (read::Profile, read::Profile) {
    let program = directory.join("program");
    let own = std::env::current_exe().unwrap();
    let stripped = Command::new("strip").args([strip, "-o"]).arg(&program).arg(own).status().unwrap();
    assert!(stripped.success());
    let took = Command::new(&program)
        .args(["--exact", "profiles::tests::take_both_profiles", "--ignored", "--nocapture"])
        .env("TMPDIR", directory.join("missing"))
        .env(PROFILES, directory)
        .output()
        .unwrap();
    assert!(took.status.success(), "{}", String::from_utf8_lossy(&took.stderr));
    let read = |name| read::Profile::unpack(&std::fs::read(directory.join(name)).unwrap());
    (read("cpu"), read("heap"))
}

/// What `go tool pprof -top` prints, where Go is installed.
fn top(program: Option<&Path>, profile: &Path) -> Option<String> {
    if Command::new("go").arg("version").output().is_err() {
        eprintln!("go is not on the PATH: pprof does not read the profiles in this run");
        return None;
    }
    let mut go = Command::new("go");
    go.args(["tool", "pprof", "-top", "-nodecount=1000"]).args(program).arg(profile);
    let output = go.env("GOPROXY", "off").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn go_reads_the_profiles_of_programs_without_debug_information() {
    let directory = tempfile::tempdir().unwrap();
    let own = std::env::current_exe().unwrap();
    let (cpu_file, heap_file) = (directory.path().join("cpu"), directory.path().join("heap"));

    // As the images are: names of functions, and no lines.
    let (cpu, heap) = profile_stripped("--strip-debug", directory.path());
    assert!(cpu.total("keep_the_cpu_busy") > 0 && heap.total("keep_megabytes") > 0);
    assert_eq!(cpu.nameless_below("keep_the_cpu_busy"), 0, "also where a function had only begun");
    for (file, function) in [(&cpu_file, "keep_the_cpu_busy"), (&heap_file, "keep_megabytes")] {
        let Some(top) = top(None, file) else { break };
        assert!(top.contains(function), "{top}");
        assert!(!top.contains("perf_signal_handler"), "the profiler is no part of the profile: {top}");
    }

    // Without names pprof takes those of CPU profiles from the same program built with them.
    let (cpu, _) = profile_stripped("--strip-all", directory.path());
    assert_eq!(cpu.total("keep_the_cpu_busy"), 0);
    if let Some(top) = top(Some(&own), &cpu_file) {
        assert!(top.contains("keep_the_cpu_busy"), "{top}");
    }
}
