//! The view of what-if questions.

use serde_json::{Value, json};

use super::super::frames::picture;
use super::title_after;

/// Ends with what a person reads of an answer: rows of the figures by title, and rows of the table under a heading.
const READ: &str = r##"
    const turn = async () => { for (let i = 0; i < 50; i++) await null; };
    const named = (label) => document.querySelector('#view-question [aria-label="' + label + '"]');
    const press = (text) => [...document.querySelectorAll("#view-question button")].find((each) => each.textContent === text).click();
    const figures = () => Object.fromEntries([...document.querySelectorAll(".compare tbody tr")].map((row) => [row.cells[0].textContent, row.cells[1].textContent + "|" + row.cells[2].textContent]));
    const under = (heading) => {
      const title = [...document.querySelectorAll("#view-question h3")].find((each) => each.textContent === heading);
      return title ? [...title.nextElementSibling.querySelectorAll("tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent).join(" ")).join(", ") : "none";
    };
"##;

fn live() -> Value {
    json!({"events": "about:blank", "readOnly": false})
}

/// A page with three nodes whose command answers every plan with `reply`. `asked` has the questions.
fn answered(reply: &Value) -> String {
    format!(
        r##"
        const {{ karpenter }} = window;
        const asked = [];
        window.fetch = async (where, what) => {{
          asked.push(where + " " + what.body);
          const body = JSON.parse(what.body);
          const loaded = body.name ? {{ yaml: "kind: " + body.kind }} : {{ names: ["general"] }};
          return {{ json: async () => (where === "/objects" ? loaded : {reply}) }};
        }};
        karpenter.apply({});
        karpenter.show("question");
        {READ}"##,
        picture(3, 1)
    )
}

#[test]
fn a_plan_is_shown_beside_today_with_the_nodes_kept_removed_and_new() {
    let reply = json!({
        "today": {"nodes": 4, "hourly": 1_242_400, "unschedulable": 2, "bound": null, "consolidated": 1_100_000},
        "awaited": 1,
        "changed": {"nodes": 5, "hourly": 1_442_400, "unschedulable": 1, "bound": 250_000, "consolidated": 400_000},
        "newNodes": [{"name": "new-0", "pool": "general", "type": "c7g.large", "zone": "z", "cap": "spot",
            "price": 300_000, "pods": ["shop/a"]}],
        "placements": [["shop/b", "node-00002"]],
        "unschedulable": [["ml/huge", "no instance type has 900 CPUs"]],
        "consolidation": {"timedOut": false, "staying": [["node-00002", "its pods fit nowhere else"]], "commands": [
            {"reason": "Underutilized", "method": "single", "remove": ["node-00001"], "newNodes": [],
             "moved": [["shop/c", "node-00001", "node-00000"]], "saving": 1}]},
    });
    let script = answered(&reply)
        + r##"
        named("Name of the object to load").value = "general";
        press("Load");
        await turn();
        const loaded = named("Objects in YAML or JSON").value;
        document.getElementById("consolidate").checked = true;
        press("With these objects");
        await turn();
        const rows = figures();
        const pills = [...document.querySelectorAll("#view-question .sides .pill")].map((each) => each.textContent).sort().join(",");
        const awaits = document.querySelector("#view-question").textContent.includes("Today includes 1 new node for");
        document.title = [loaded, rows["Nodes"], rows["$/h"], rows["$/h after consolidation"], rows["Difference"], rows["Pods without a place"], rows["Nodes kept, removed, new"], pills, awaits, under("Pods without a place"), under("Nodes kept, and why"), asked[1]].join(" / ");
    "##;
    let Some(title) = title_after(&live(), &script) else { return };
    assert_eq!(
        title,
        "kind: NodePool / 4|5 / $1.24|$1.44 / $1.10|$0.4000 / |−$0.7000/h / 2|1 / |2, 1, 1 / \
         kept,kept,kept,kept,new,removed / true / ml/huge no instance type has 900 CPUs / \
         node-00002 its pods fit nowhere else / /plan {\"objects\":\"kind: NodePool\",\"consolidate\":true}"
    );
}

#[test]
fn nodes_that_would_go_are_asked_of_the_same_plan_and_their_pods_are_shown_to_move() {
    let side = |nodes: u32, hourly: i64| json!({"nodes": nodes, "hourly": hourly, "unschedulable": 0, "bound": null, "consolidated": null});
    let reply = json!({
        "today": side(3, 1_142_400), "awaited": 0, "changed": side(3, 1_042_400),
        "newNodes": [{"name": "new-0", "pool": "pool-1", "type": "c7g.large", "zone": "z", "cap": "spot",
            "price": 226_400, "pods": ["team-0/web-1-0"]}],
        "placements": [], "unschedulable": [], "consolidation": null,
    });
    let script = answered(&reply)
        + r##"
        press("Without these nodes");
        await turn();
        const refused = document.querySelector("#view-question .problem").textContent;
        [...document.querySelectorAll("#view-question .list label")].find((each) => each.textContent.includes("node-00001")).querySelector("input").click();
        press("Without these nodes");
        await turn();
        const rows = figures();
        document.title = [refused, rows["Nodes"], rows["$/h"], rows["$/h after consolidation"], rows["Difference"], rows["Nodes kept, removed, new"], under("Moves"), under("Pods without a place"), asked.join(", ")].join(" / ");
    "##;
    let Some(title) = title_after(&live(), &script) else { return };
    assert_eq!(
        title,
        "Choose the nodes that would go / 3|3 / $1.14|$1.04 /  / |−$0.1000/h / |2, 1, 1 / \
         team-0/web-1-0 node-00001 new-0 / none / /plan {\"remove\":[\"node-00001\"],\"consolidate\":false}"
    );
}

#[test]
fn what_the_provisioner_refuses_and_a_command_that_is_gone_are_said_as_text() {
    let script = answered(&json!({"error": "invalid argument: <img src=x> is no NodePool"}))
        + r##"
        const said = () => document.querySelector("#view-question .problem[role=alert]").textContent;
        press("With these objects");
        await turn();
        const refused = said();
        window.fetch = async () => { throw new TypeError("Failed to fetch"); };
        press("With these objects");
        await turn();
        const open = [...document.querySelectorAll("#view-question button.main")].every((each) => !each.disabled);
        document.title = [refused, said(), open, document.images.length].join(" / ");
    "##;
    let Some(title) = title_after(&live(), &script) else { return };
    let title = title.replace("&lt;", "<").replace("&gt;", ">");
    assert_eq!(
        title,
        "Invalid argument: <img src=x> is no NodePool / \
         The command that serves this page does not answer: is it still running? / true / 0"
    );
}
