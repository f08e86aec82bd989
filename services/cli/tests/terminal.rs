//! `top --watch` as a person runs it: the program on a terminal of its own, fed by a provisioner that is played here. Keys go in,
//! and what the terminal would show is read.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::stream::{BoxStream, StreamExt as _};
use proto::provisioner::v1 as pb;
use proto::provisioner::v1::provisioner_server::{Provisioner, ProvisionerServer};
use proto::types::v1 as types;
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

const ROWS: usize = 40;
const COLUMNS: usize = 150;
/// Only for a program that shows nothing any more.
const LONGEST: Duration = Duration::from_secs(300);

/// A provisioner of a cluster with three nodes in which nothing changes.
struct Played;

fn node(name: &str, micro_usd: i64, cpu: &str) -> pb::WatchedNode {
    let amounts = |cpu: &str| {
        let quantities = [("cpu", cpu), ("memory", "1Gi")].map(|(name, n)| (name.to_owned(), n.to_owned()));
        Some(types::Resources { quantities: quantities.into() })
    };
    let offering = types::Offering {
        instance_type: "m7g.large".to_owned(),
        zone: "us-east-1a".to_owned(),
        capacity_type: types::CapacityType::OnDemand.into(),
        micro_usd_per_hour: micro_usd,
        ..types::Offering::default()
    };
    pb::WatchedNode {
        summary: Some(pb::NodeSummary {
            name: name.to_owned(),
            node_claim: format!("{name}-claim"),
            node_pool: "general".to_owned(),
            offering: Some(offering),
            allocatable: amounts("4"),
            requested: amounts(cpu),
            phase: "initialised".to_owned(),
            ..pb::NodeSummary::default()
        }),
        ..pb::WatchedNode::default()
    }
}

type Answers<T> = BoxStream<'static, Result<T, Status>>;

#[tonic::async_trait]
impl Provisioner for Played {
    type SimulateManyStream = Answers<pb::SimulateManyResponse>;
    type WatchClusterStream = Answers<pb::WatchClusterResponse>;

    async fn watch_cluster(
        &self,
        _: Request<pb::WatchClusterRequest>,
    ) -> Result<Response<Self::WatchClusterStream>, Status> {
        let nodes = vec![
            node("ip-cheap", 50_000, "3"),
            node("ip-middle", 90_000, "1"),
            node("ip-dear", 200_000, "2"),
        ];
        let picture = pb::WatchClusterResponse { full: true, nodes, ..pb::WatchClusterResponse::default() };
        let first = futures::stream::once(async { Ok(picture) });
        Ok(Response::new(first.chain(futures::stream::pending()).boxed()))
    }

    async fn simulate(
        &self,
        _: Request<pb::SimulateRequest>,
    ) -> Result<Response<pb::SimulateResponse>, Status> {
        Err(not_played())
    }

    async fn simulate_many(
        &self,
        _: Request<Streaming<pb::SimulateManyRequest>>,
    ) -> Result<Response<Self::SimulateManyStream>, Status> {
        Err(not_played())
    }

    async fn create_replacements(
        &self,
        _: Request<pb::CreateReplacementsRequest>,
    ) -> Result<Response<pb::CreateReplacementsResponse>, Status> {
        Err(not_played())
    }

    async fn plan(&self, _: Request<pb::PlanRequest>) -> Result<Response<pb::PlanResponse>, Status> {
        Err(not_played())
    }

    async fn explain_pod(
        &self,
        _: Request<pb::ExplainPodRequest>,
    ) -> Result<Response<pb::ExplainPodResponse>, Status> {
        Err(not_played())
    }

    async fn get_snapshot(
        &self,
        _: Request<pb::GetSnapshotRequest>,
    ) -> Result<Response<pb::GetSnapshotResponse>, Status> {
        Err(not_played())
    }
}

fn not_played() -> Status {
    Status::unimplemented("top --watch does not ask for this")
}

/// Its address. It ends with the test.
#[allow(clippy::disallowed_methods, reason = "it ends with the test")]
async fn provisioner() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = Server::builder().add_service(ProvisionerServer::new(Played));
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    address
}

/// The program in a shell on a terminal, which says before and after how the terminal is set.
struct Terminal {
    process: Child,
    keys: ChildStdin,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn open(provisioner: &str) -> Self {
        let program = env!("CARGO_BIN_EXE_kubectl-karpenter");
        let shell = format!(
            "stty rows {ROWS} cols {COLUMNS}; echo \"before $(stty -g)\"; \
             sh -c 'echo \"process $$.\"; exec \"{program}\" top --watch --insecure --address {provisioner} \
             --disruption-address 127.0.0.1:1'; \
             echo \"ended with $?\"; echo \"after $(stty -g)\""
        );
        let mut command = Command::new("script");
        command.args(["-q", "-f", "-c", &shell, "/dev/null"]);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("TERM", "xterm-256color");
        command.env("SHELL", "/bin/sh").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("util-linux has script");
        let (keys, mut printed) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let written: Arc<Mutex<Vec<u8>>> = Arc::default();
        let all = Arc::clone(&written);
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(count @ 1..) = printed.read(&mut some) {
                all.lock().unwrap().extend_from_slice(&some[..count]);
            }
        });
        Self { process, keys, written }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Everything that was written to the terminal.
    fn written(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned()
    }

    /// Waits until the screen is as wanted.
    fn shows(&self, what: &str, wanted: impl Fn(&Screen) -> bool) {
        let began = Instant::now();
        loop {
            let screen = Screen::after(&self.written());
            if wanted(&screen) {
                return;
            }
            assert!(began.elapsed() < LONGEST, "{what} does not come to the screen:\n{}", screen.text());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The rest of what the shell says after a word at the beginning of a line.
    fn said(&self, word: &str) -> Option<String> {
        let written = self.written();
        let (_, after) = written.split_once(&format!("{word} "))?;
        let (value, _) = after.split_once(['\r', '\n'])?;
        Some(value.to_owned())
    }

    /// Waits for the end of the program, and looks at the terminal that it leaves.
    fn gives_back(mut self) {
        self.process.wait().unwrap();
        let began = Instant::now();
        while self.said("after").is_none() && began.elapsed() < LONGEST {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(self.said("ended with").as_deref(), Some("0"), "{}", self.written());
        assert!(self.said("before").is_some());
        assert_eq!(self.said("before"), self.said("after"), "the terminal is set otherwise than before");
        let written = self.written();
        for (on, off) in [("\u{1b}[?1049h", "\u{1b}[?1049l"), ("\u{1b}[?25l", "\u{1b}[?25h")] {
            let last = |part: &str| written.rfind(part).unwrap_or_else(|| panic!("{part:?} was not written"));
            assert!(last(on) < last(off), "{off:?} is not the last word");
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a terminal shows: the text, without colours.
struct Screen {
    cells: Vec<Vec<char>>,
}

impl Screen {
    /// Follows texts, moves of the cursor and clearing; every other sequence changes no text.
    fn after(written: &str) -> Self {
        let mut screen = Self { cells: vec![vec![' '; COLUMNS]; ROWS] };
        let (mut row, mut column) = (0, 0);
        let mut letters = written.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\u{1b}' => {
                    if letters.next() != Some('[') {
                        continue;
                    }
                    let mut numbers = String::new();
                    let end = letters.by_ref().find(|each| {
                        let is_end = ('@'..='~').contains(each);
                        if !is_end {
                            numbers.push(*each);
                        }
                        is_end
                    });
                    let number = |n: usize| {
                        let given = numbers.split(';').nth(n).and_then(|each| each.parse::<usize>().ok());
                        given.unwrap_or(1).max(1) - 1
                    };
                    match end {
                        Some('H') => (row, column) = (number(0), number(1)),
                        // The program's own screen begins empty.
                        Some('h') if numbers != "?1049" => {}
                        Some('J' | 'h') => screen.cells.iter_mut().for_each(|cells| cells.fill(' ')),
                        _ => {}
                    }
                }
                '\r' => column = 0,
                '\n' => row += 1,
                letter => {
                    if let Some(cell) = screen.cells.get_mut(row).and_then(|cells| cells.get_mut(column)) {
                        *cell = letter;
                    }
                    column += 1;
                }
            }
        }
        screen
    }

    fn text(&self) -> String {
        self.cells.iter().map(|cells| cells.iter().collect::<String>() + "\n").collect()
    }

    fn has(&self, text: &str) -> bool {
        self.text().contains(text)
    }

    /// The nodes in the order of their rows.
    fn nodes(&self) -> Vec<String> {
        let text = self.text();
        let words = |line: &str| {
            let between = |letter: char| letter.is_whitespace() || "┃│".contains(letter);
            line.split(between).find(|word| word.starts_with("ip-")).map(str::to_owned)
        };
        text.lines().filter_map(words).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_sort_filter_and_explain_and_q_gives_the_terminal_back() {
    let mut terminal = Terminal::open(&provisioner().await);
    let order = |names: [&'static str; 3]| move |screen: &Screen| screen.nodes() == names;
    terminal.shows("the dearest node first", order(["ip-dear", "ip-middle", "ip-cheap"]));
    terminal.shows("the sum", |screen| screen.has("$0.3400/h") && screen.has("3 nodes"));
    terminal.shows("what is not connected", |screen| screen.has("! not connected:"));
    terminal.press("s");
    terminal.shows("the fullest node first", order(["ip-cheap", "ip-dear", "ip-middle"]));

    terminal.press("/dear");
    terminal.shows("the filter", |screen| screen.nodes() == ["ip-dear"] && screen.has("/dear▏"));
    terminal.press("\r");
    terminal.shows("the filter that stays", |screen| screen.has("filter “dear”"));

    terminal.press("e");
    terminal.shows("why the node cannot be explained", |screen| {
        screen.has("│connect to disruption at 127.0.0.1:1")
    });
    terminal.press("q");
    terminal.shows("the rows again", |screen| !screen.has("│connect to disruption"));
    terminal.press("\u{1b}");
    terminal.shows("all nodes", |screen| screen.nodes().len() == 3);
    terminal.press("q");
    terminal.gives_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_gives_the_terminal_back_too() {
    let terminal = Terminal::open(&provisioner().await);
    terminal.shows("the nodes", |screen| screen.nodes().len() == 3);
    let process = terminal.said("process").unwrap();
    let sent = Command::new("kill").args(["-TERM", process.trim_end_matches('.')]).status().unwrap();
    assert!(sent.success());
    terminal.gives_back();
}
