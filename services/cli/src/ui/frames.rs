//! How fast the page draws a large cluster: the page itself, in headless Chromium, with software rendering. Used by the program
//! `page-bench` and by the page's own tests.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::document::{hash, page};
use super::shown::{Node, Pod};

const PROGRAMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
/// Nothing of the browser's own may reach the network or wait for a person.
const FLAGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1600,950",
    "--dump-dom",
];

const NODES: usize = 5000;
const PODS_PER_NODE: usize = 30;

/// Scrolls through the cluster at several zooms for a second each, while 50 nodes change every 200 ms as the provisioner streams
/// them. Every frame is read back, so that it is really drawn. The slowest zoom counts.
const MEASURE: &str = r#"
    const { karpenter } = window;
    const { cluster: view, model } = karpenter;
    const context = view.canvas.getContext("2d");
    const names = [...model.nodes.keys()];
    let changed = 0;
    const change = () => {
      const nodes = {};
      for (let i = 0; i < 50; i++) {
        const name = names[changed++ % names.length];
        nodes[name] = { ...model.nodes.get(name), price: 100000 + changed };
      }
      karpenter.apply({ nodes });
      karpenter.refresh();
    };
    const measure = (level) => {
      view.set("level", level);
      view.draw(performance.now());
      const tall = Math.max(1, view.boxes.height - view.scroller.clientHeight);
      const from = performance.now();
      let [frames, slowest, streamed] = [0, 0, from];
      while (performance.now() - from < 1000) {
        const began = performance.now();
        if (began - streamed >= 200) {
          streamed = began;
          change();
        }
        view.scroller.scrollTop = (frames * 37) % tall;
        view.draw(performance.now());
        context.getImageData(0, 0, 1, 1);
        slowest = Math.max(slowest, performance.now() - began);
        frames++;
      }
      return { level, fps: Math.round((frames * 10000) / (performance.now() - from)) / 10, slowestFrameMs: Math.round(slowest) };
    };
    const zooms = [-1, 3, 5, 7, 9, 11].map(measure);
    let pods = 0;
    for (const node of model.nodes.values()) pods += node.pods.length;
    document.title = JSON.stringify({ fps: Math.min(...zooms.map((each) => each.fps)), nodes: view.boxes.count, pods, zooms });
"#;

/// `{"fps": …, "nodes": 5000, "pods": 150000, "zooms": […]}`; an error where there is no Chromium.
pub fn measure() -> Result<Value> {
    let program = chromium()?;
    let title = title_after(&program, &picture(NODES, PODS_PER_NODE), MEASURE)?;
    serde_json::from_str(&title).with_context(|| format!("the page left {title:?}"))
}

pub(super) fn chromium() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .flat_map(|folder| PROGRAMS.map(|name| folder.join(name)))
        .find(|program| program.is_file())
        .with_context(|| format!("none of {} is on the PATH: install Chromium", PROGRAMS.join(", ")))
}

/// Opens the page with these data, runs `script` in it, and returns what the script left in the title.
pub(super) fn title_after(program: &PathBuf, data: &Value, script: &str) -> Result<String> {
    static OPENED: AtomicU32 = AtomicU32::new(0);
    let number = OPENED.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("karpenter-page-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    // The policy knows the page's script by its hash; the one that is added must be named too.
    let allowed = format!("script-src '{}' ", hash(script));
    let added = format!("<script type=\"module\">{script}</script></body>");
    let page = page(&data.to_string()).replacen("script-src ", &allowed, 1).replacen("</body>", &added, 1);
    let file = folder.join("page.html");
    std::fs::write(&file, page).with_context(|| format!("write {}", file.display()))?;
    let output = Command::new(program)
        .args(FLAGS)
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .stderr(Stdio::null())
        .output();
    let removed = std::fs::remove_dir_all(&folder);
    let output = output.with_context(|| format!("run {}", program.display()))?;
    removed.with_context(|| format!("remove {}", folder.display()))?;
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    match dom.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>")) {
        Some((title, _)) => Ok(title.replace("&quot;", "\"")),
        None => bail!("{} showed no page with a title: {dom}", program.display()),
    }
}

pub(super) fn node(number: usize, pods: usize) -> Node {
    let amount = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let pod = |n: usize| {
        let priority = i32::try_from(n % 3).unwrap_or_default();
        Pod(format!("team-{}", n % 9), format!("web-{number}-{n}"), 100, 256, priority, 0)
    };
    let size = 1 << (number % 5);
    Node {
        claim: format!("claim-{number}"),
        pool: format!("pool-{}", number % 4),
        kind: format!("m7g.{size}xlarge"),
        zone: "us-east-1a".to_owned(),
        cap: "spot".to_owned(),
        price: 163_200 * i64::from(size),
        cpu: [amount(pods) * 100, 3920 * i64::from(size)],
        mem: [amount(pods) * 256, 15_000 * i64::from(size)],
        phase: "initialised".to_owned(),
        created: Some(1_800_000_000),
        conditions: vec![("Ready".to_owned(), "True".to_owned(), String::new())],
        pods: (0..pods).map(pod).collect(),
        ..Node::default()
    }
}

pub(super) fn picture(nodes: usize, pods: usize) -> Value {
    let nodes: serde_json::Map<String, Value> =
        (0..nodes).map(|n| (format!("node-{n:05}"), json!(node(n, pods)))).collect();
    json!({"full": true, "nodes": nodes})
}
