//! How nodes and pods look that are not simply there.

use serde_json::{Value, json};

use super::super::frames::{node, picture};
use super::super::shown::{Node, Pod};
use super::title_after;

/// One node in each state, of the same size and without pods.
fn one_of_each() -> Value {
    let with = |claim: &str, phase: &str, waits: &str| {
        let (claim, phase, waits) = (claim.to_owned(), phase.to_owned(), waits.to_owned());
        json!(Node { claim, phase, waits, ..node(2, 0) })
    };
    json!({
        "full": true,
        "nodes": {
            "launching": with("c1", "launched", "the node to register"),
            "registering": with("c2", "registered", "a startup taint to go"),
            "draining": with("c3", "initialised", ""),
            "replaced": with("c4", "initialised", ""),
            "ready": with("c5", "initialised", ""),
        },
        "drains": {"c3": {"node": "draining", "phase": "draining", "reason": "Drifted", "total": 4, "gone": 1,
            "waiting": [["pdb", "shop/db-0", "PDB shop/db allows 0 disruptions"]]}},
        "decisions": {"command/x": {"kind": "disruption", "at": 0, "reason": "Underutilized", "phase": "replacing",
            "ended": false, "remove": ["replaced"], "add": [], "detail": "waits for new-1", "steps": [[0, "replacing"]]}},
    })
}

#[test]
fn nodes_that_come_and_go_are_told_apart_by_colour_and_in_words_with_what_they_wait_for() {
    let script = r##"
        const { cluster: view, model } = window.karpenter;
        // Boxes of this size have no words in them.
        view.set("level", 5);
        view.draw(0);
        const style = getComputedStyle(document.documentElement);
        const edges = ["new", "join", "warn", "swap"].map((name) => [name, style.getPropertyValue("--" + name).trim()]);
        const [context, ratio] = [view.canvas.getContext("2d"), window.devicePixelRatio];
        const edgesOf = (name) => {
          const row = view.boxes.rows.find((each) => each.items.some((item) => item.node.name === name));
          const { x, width } = row.items.find((item) => item.node.name === name);
          const { data } = context.getImageData((x - 2) * ratio, (row.y - 2) * ratio, (width + 4) * ratio, (row.height + 4) * ratio);
          const seen = new Set();
          for (let i = 0; i < data.length; i += 4) seen.add("#" + [0, 1, 2].map((n) => data[i + n].toString(16).padStart(2, "0")).join(""));
          return edges.filter(([, colour]) => seen.has(colour)).map(([name]) => name).join("+") || "none";
        };
        const said = (name) => {
          view.select(name);
          return document.querySelector("aside dd").textContent;
        };
        document.title = [...model.nodes.keys()].sort().map((name) => [name, edgesOf(name), said(name)].join(" = ")).join(" | ");"##;
    let Some(title) = title_after(&one_of_each(), script) else { return };
    let expected = [
        "draining = warn = Draining: draining, 1 of 4 pods gone; PDB shop/db allows 0 disruptions",
        "launching = new = Launching: waits for the node to register",
        "ready = none = Ready",
        "registering = join = Registering: waits for a startup taint to go",
        "replaced = swap = Being replaced: Underutilized: replacing, waits for new-1",
    ];
    assert_eq!(title, expected.join(" | "));
}

#[test]
fn a_hostile_pod_name_is_text_in_the_box_the_tip_and_the_panel() {
    let hostile = "<b onmouseover=\"document.title='owned'\">x</b>&lt;i&gt;";
    let mut data = picture(1, 0);
    let pod = Pod("team-<u>0</u>".into(), hostile.into(), 2000, 8000, 0, 0);
    data["nodes"]["node-00000"]["pods"] = json!([pod]);
    let script = format!(
        r##"
        const {{ cluster: view, model }} = window.karpenter;
        const hostile = {};
        const [node] = model.nodes.values();
        view.set("level", 11);
        view.draw(0);
        view.point(node, {{ pod: node.pods[0], meant: false }});
        view.select(node.name);
        const texts = [document.getElementById("tip"), document.querySelector("aside")].map((each) => each.textContent.includes(hostile));
        const legend = document.querySelector(".legend").textContent.includes("team-<u>0</u>");
        const made = ["main b[onmouseover]", "#tip b[onmouseover]", "u"].map((each) => document.querySelectorAll(each).length);
        document.title = [...texts, legend, ...made].join(" ");"##,
        json!(hostile)
    );
    // A script of the page may not end its element early.
    let script = script.replace("</", "<\\/");
    let Some(title) = title_after(&data, &script) else { return };
    assert_eq!(title, "true true true 0 0 0");
}
