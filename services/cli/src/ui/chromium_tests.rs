//! The page in a real browser, fed with recorded events. Skipped with a printed reason where there is no Chromium.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::document::{hash, page};
use super::shown::{Node, Pod};

const PROGRAMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path)
        .flat_map(|folder| PROGRAMS.map(|name| folder.join(name)))
        .find(|program| program.is_file());
    if found.is_none() {
        eprintln!("skipped: none of {} is on the PATH", PROGRAMS.join(", "));
    }
    found
}

/// Opens the page with these data, runs `script` in it, and returns what the script left in the title.
fn title_after(name: &str, data: &Value, script: &str) -> Option<String> {
    let program = chromium()?;
    let folder = std::env::temp_dir().join(format!("karpenter-page-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a scratch folder");
    // The policy knows the page's script by its hash; the test's must be named too.
    let allowed = format!("script-src '{}' ", hash(script));
    let page = page(&data.to_string()).replacen("script-src ", &allowed, 1).replacen(
        "</body>",
        &format!("<script type=\"module\">{script}</script></body>"),
        1,
    );
    let file = folder.join("page.html");
    std::fs::write(&file, page).expect("written");
    let output = Command::new(program)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1600,950", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .stderr(Stdio::null())
        .output()
        .expect("Chromium runs");
    std::fs::remove_dir_all(&folder).expect("removed");
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let title = dom.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    Some(title.unwrap_or_else(|| panic!("no title in {dom}")).0.to_owned())
}

fn node(number: usize, pods: usize) -> Node {
    let pod = |n: usize| {
        Pod(
            format!("team-{}", n % 9),
            format!("web-{number}-{n}"),
            100,
            256,
            i32::try_from(n % 3).unwrap(),
            0,
        )
    };
    let size = 1 << (number % 5);
    Node {
        claim: format!("claim-{number}"),
        pool: format!("pool-{}", number % 4),
        kind: format!("m7g.{size}xlarge"),
        zone: "us-east-1a".to_owned(),
        cap: "spot".to_owned(),
        price: 163_200 * i64::from(size),
        cpu: [i64::try_from(pods).unwrap() * 100, 3920 * i64::from(size)],
        mem: [i64::try_from(pods).unwrap() * 256, 15_000 * i64::from(size)],
        phase: "initialised".to_owned(),
        created: Some(1_800_000_000),
        pods: (0..pods).map(pod).collect(),
        ..Node::default()
    }
}

fn picture(nodes: usize, pods: usize) -> Value {
    let nodes: serde_json::Map<String, Value> =
        (0..nodes).map(|n| (format!("node-{n:05}"), json!(node(n, pods)))).collect();
    json!({"full": true, "nodes": nodes})
}

#[test]
fn a_hostile_name_is_text_in_every_view() {
    let hostile =
        "<img src=x onerror=\"document.title='owned'\"></script><script>document.title='owned'</script>";
    let mut data = picture(1, 1);
    data["nodes"][hostile] = json!(Node { waits: hostile.into(), claim: hostile.into(), ..node(1, 1) });
    data["nodes"][hostile]["pods"][0][1] = json!(hostile);
    data["pending"]["u1"] =
        json!({"namespace": hostile, "name": hostile, "nominated": "", "reason": hostile});
    data["candidates"][hostile] = json!({"disruptable": false, "blockers": [[hostile, hostile, hostile]]});
    data["services"][hostile] = json!({"state": "lost", "detail": hostile, "since": 0});
    data["decisions"]["launch/x"] = json!({"kind": "launch", "at": 0, "reason": hostile, "phase": hostile, "ended": false,
        "remove": [], "add": [hostile], "detail": hostile, "steps": [[0, hostile]]});
    let script = "
        const name = [...window.karpenter.model.nodes.keys()].find((each) => each.includes('<img'));
        const seen = [];
        for (const tab of ['decisions', 'waiting', 'question', 'cost', 'cluster']) {
          document.getElementById('tab-' + tab).click();
          seen.push(document.querySelector('main').textContent.includes('<img src=x'));
        }
        window.karpenter.cluster.select(name);
        const panel = document.querySelector('aside').textContent.includes('<img src=x');
        const foreign = document.createElement('script');
        foreign.textContent = \"document.title = 'a script without a known hash ran'\";
        const before = document.title;
        document.body.append(foreign);
        const kept = document.title === before;
        document.title = [document.querySelectorAll('img').length, seen.slice(0, 3).join('+'), panel, kept].join(' ');";
    let Some(title) = title_after("hostile", &data, script) else { return };
    assert_eq!(title, "0 true+true+true true true");
}

#[test]
fn a_scale_up_appears_while_it_happens() {
    let script = format!(
        "
        const {{ karpenter }} = window;
        karpenter.refresh();
        const before = document.getElementById('figures').textContent;
        const blank = karpenter.cluster.boxes.count;
        karpenter.apply({{nodes: {{'new-claim': {}}}, decisions: {{'launch/new-claim': {{kind: 'launch', at: 5, reason: 'pods wait',
          phase: 'created', ended: false, remove: [], add: ['new-claim'], detail: '', steps: [[5, 'created']]}}}}}});
        karpenter.refresh();
        karpenter.cluster.draw(performance.now());
        const box = karpenter.cluster.boxes.rows.flatMap((row) => row.items.map((item) => ({{...item, y: row.y}})))
          .find((item) => item.node.name === 'new-claim');
        const context = karpenter.cluster.canvas.getContext('2d');
        const ratio = window.devicePixelRatio;
        const drawn = context.getImageData((box.x + 2) * ratio, (box.y + 8) * ratio, 12, 12).data.some((value, i) => i > 2 && value !== context.getImageData(0, 0, 1, 1).data[i % 4]);
        document.getElementById('tab-decisions').click();
        const reply = document.querySelector('ol.timeline').textContent.includes('Launch new-claim');
        document.title = [before.includes('Nodes'), blank, karpenter.cluster.boxes.count, drawn, reply].join(' ');",
        json!(Node { phase: "created".into(), waits: "EC2 to give an instance".into(), ..node(7, 0) })
    );
    // The first drawing waits for a frame, which a test does not.
    let script = format!("window.karpenter.cluster.draw(0);{script}");
    let Some(title) = title_after("scale-up", &picture(1, 3), &script) else { return };
    assert_eq!(title, "true 1 2 true true");
}

/// Full redraws with software rendering, each read back so that it is really drawn. Printed, and not judged: machines differ.
#[test]
fn five_thousand_nodes_are_drawn_smoothly() {
    let script = "
        const view = window.karpenter.cluster;
        const context = view.canvas.getContext('2d');
        const rate = (level) => {
          view.set('level', level);
          view.draw(performance.now());
          const tall = Math.max(1, view.boxes.height - view.scroller.clientHeight);
          const from = performance.now();
          let frames = 0;
          while (performance.now() - from < 1000) {
            view.scroller.scrollTop = (frames * 37) % tall;
            view.draw(performance.now());
            context.getImageData(0, 0, 1, 1);
            frames++;
          }
          return (frames * 1000 / (performance.now() - from)).toFixed(0);
        };
        const rates = [-1, 3, 5, 7, 9].map(rate);
        let pods = 0;
        for (const node of window.karpenter.model.nodes.values()) pods += node.pods.length;
        document.title = view.boxes.count + ' nodes ' + pods + ' pods, frames per second from afar to near: ' + rates.join(' ');";
    let Some(title) = title_after("large", &picture(5000, 30), script) else { return };
    eprintln!("{title}");
    assert!(title.starts_with("5000 nodes 150000 pods, frames per second"), "{title}");
}
