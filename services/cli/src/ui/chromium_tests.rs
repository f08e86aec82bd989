//! The page in a real browser, fed with recorded events. Skipped with a printed reason where there is no Chromium.

mod cost;
mod decisions;
mod question;
mod states;

use serde_json::{Value, json};

use super::frames::{self, node, picture};
use super::hub::Hub;
use super::picture::{ClusterStep, Event};
use super::shown::Node;

/// `None` where there is no Chromium.
fn title_after(data: &Value, script: &str) -> Option<String> {
    match frames::chromium() {
        Ok(program) => Some(frames::title_after(&program, data, script).expect("Chromium shows the page")),
        Err(missing) => {
            eprintln!("skipped: {missing:#}");
            None
        }
    }
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
    let Some(title) = title_after(&data, script) else { return };
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
    let Some(title) = title_after(&picture(1, 3), &script) else { return };
    assert_eq!(title, "true 1 2 true true");
}

/// Printed and only compared with a rate at which no page is usable: machines differ, and `make bench` judges.
#[test]
fn five_thousand_nodes_are_drawn_smoothly() {
    if let Err(missing) = frames::chromium() {
        return eprintln!("skipped: {missing:#}");
    }
    let measured = frames::measure().expect("measured");
    eprintln!("{measured}");
    assert_eq!((&measured["nodes"], &measured["pods"]), (&json!(5000), &json!(150_000)));
    assert!(measured["fps"].as_f64() > Some(2.0), "{measured}");
}

#[test]
fn a_pod_that_is_pointed_at_says_its_name_namespace_requests_and_priority() {
    let mut data = picture(3, 6);
    data["nodes"]["node-00001"]["conditions"] =
        json!([["Ready", "True", ""], ["DiskPressure", "True", "node.kubernetes.io/disk-pressure"]]);
    data["candidates"]["node-00001"] =
        json!({"disruptable": true, "blockers": [], "conditions": [["Drifted", "True", "NodePoolDrifted"]]});
    let script = "
        const view = window.karpenter.cluster;
        const tip = document.getElementById('tip');
        view.set('level', 11);
        view.draw(0);
        const row = view.boxes.rows.find((each) => each.items.some((item) => item.node.name === 'node-00001'));
        view.scroller.scrollTop = row.y;
        view.draw(0);
        const item = row.items.find((each) => each.node.name === 'node-00001');
        const area = view.canvas.getBoundingClientRect();
        const at = { clientX: area.left + item.x + 12, clientY: area.top + row.y - view.scroller.scrollTop + 30 };
        view.canvas.dispatchEvent(new MouseEvent('mousemove', at));
        const text = tip.textContent;
        const inSight = area.top < window.innerHeight && area.height > 100;
        const wanted = ['web-1-0', 'team-0', 'priority 0', 'CPU 0.10', '256 MiB', 'DiskPressure', 'Drifted (NodePoolDrifted)', 'Ready'];
        document.title = [tip.hidden, inSight, ...wanted.filter((each) => !text.includes(each))].join(' ');";
    let Some(title) = title_after(&data, script) else { return };
    assert_eq!(title, "false true");
}

#[test]
fn the_blocking_rule_of_each_pool_is_asked_once_until_the_pod_changes() {
    let script = r##"
        const { karpenter } = window;
        const asked = [];
        window.fetch = async (where, what) => {
          asked.push(where + " " + JSON.parse(what.body).name);
          return { json: async () => ({ summary: "fits nowhere", pools: [["general", "taints", "does not tolerate team=a"]], nodes: [], relaxed: [] }) };
        };
        const pod = { namespace: "shop", name: "web", nominated: "", reason: "fits nowhere" };
        karpenter.apply({ full: true, pending: { u1: pod } });
        karpenter.show("waiting");
        const button = () => document.querySelector("[data-key=rules-u1]");
        const turn = async () => { for (let i = 0; i < 50; i++) await null; };
        button().focus();
        button().click();
        await turn();
        const shown = document.querySelector("main").textContent.includes("does not tolerate team=a");
        const focused = document.activeElement === button() && button().getAttribute("aria-expanded") === "true";
        karpenter.refresh();
        await turn();
        const once = asked.length;
        karpenter.apply({ pending: { u1: { ...pod, reason: "another reason" } } });
        karpenter.refresh();
        await turn();
        document.title = [shown, focused, once, asked.length, asked[1]].join(" ");
    "##;
    let Some(title) = title_after(&json!({"events": "about:blank", "readOnly": false}), script) else {
        return;
    };
    assert_eq!(title, "true true 1 2 /explain web");
}

#[test]
fn the_page_is_used_by_the_keyboard_alone_and_named_for_screen_readers() {
    let script = r##"
        const { karpenter } = window;
        const press = (key, on = document.activeElement) => on.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
        const chosen = () => document.querySelector("[role=tab][aria-selected=true]");
        karpenter.cluster.draw(0);
        document.getElementById("tab-cluster").focus();
        press("ArrowRight");
        const moved = chosen().id + " " + (document.activeElement === chosen());
        press("End");
        const last = chosen().id;
        press("1", document.body);
        const first = chosen().id;
        karpenter.cluster.canvas.focus();
        press("ArrowRight");
        const said = document.getElementById("said").textContent.startsWith(karpenter.cluster.selected) && !document.querySelector("aside").hidden;
        press("Escape");
        const closed = document.querySelector("aside").hidden;
        press("/", document.body);
        const finds = document.activeElement.getAttribute("aria-label");
        const unnamed = [...document.querySelectorAll("button, select, input, textarea, canvas[tabindex], [role=tabpanel], [role=tab]")]
          .filter((each) => !(each.textContent.trim() || each.getAttribute("aria-label") || each.labels?.length));
        const panels = [...document.querySelectorAll("[role=tab]")].every((tab) => document.getElementById(tab.getAttribute("aria-controls"))?.getAttribute("role") === "tabpanel");
        document.title = [moved, last, first, said, closed, finds, unnamed.length, panels].join(" | ");
    "##;
    let Some(title) = title_after(&picture(4, 3), script) else { return };
    assert_eq!(title, "tab-cost true | tab-question | tab-cluster | true | true | Find | 0 | true");
}

/// As `--snapshot FILE` writes it: the page without a server, and nothing to ask.
#[test]
fn a_snapshot_is_the_page_with_its_data_and_takes_no_question() {
    let hub = Hub::new(None, true);
    let file = std::env::temp_dir().join(format!("karpenter-snapshot-{}.html", std::process::id()));
    let refused = super::store(&hub, &file).expect_err("there is no picture yet").to_string();
    assert!(refused.starts_with("the provisioner did not answer"), "{refused}");
    let nodes = vec![("ip-1".to_owned(), node(1, 2))];
    hub.take(Event::Cluster(ClusterStep { full: true, at: 1_800_000_000, nodes, ..ClusterStep::default() }));
    super::store(&hub, &file).expect("written");
    let written = std::fs::read_to_string(&file).expect("read");
    std::fs::remove_file(&file).expect("removed");
    assert!(
        written.starts_with("<!doctype html>")
            && written.contains("\"ip-1\"")
            && !written.contains("/events")
    );
    let data: Value = serde_json::from_str(&hub.full()).expect("JSON");
    assert!(data["at"].as_i64() > Some(1_700_000_000), "{data}");
    let script = r##"
        window.karpenter.show("question");
        const buttons = ["Without these nodes", "With these objects", "Load"].map((text) => [...document.querySelectorAll("button")].find((each) => each.textContent === text).disabled);
        document.title = [...window.karpenter.model.nodes.keys(), ...buttons, document.getElementById("when").textContent.startsWith("as of ")].join(" ");
    "##;
    let Some(title) = title_after(&data, script) else { return };
    assert_eq!(title, "ip-1 true true true true");
}
