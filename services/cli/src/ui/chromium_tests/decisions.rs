//! The view of decisions: how they end, and where their traces are.

use serde_json::{Value, json};

use super::title_after;

const NOW: i64 = 1_800_000_000;

fn decision(kind: &str, at: i64, phase: &str, detail: &str, trace: &Value) -> Value {
    json!({"kind": kind, "at": at, "reason": "Underutilized", "phase": phase, "ended": phase != "replacing",
        "remove": ["ip-1"], "add": if kind == "launch" { json!(["ip-1"]) } else { json!([]) },
        "saving": 500_000, "moved": 2, "detail": detail, "trace": trace, "steps": [[at, phase]]})
}

fn decisions() -> Value {
    let command = |id: &str| json!(["disruption", "command", id]);
    json!({
        "full": true, "at": NOW, "jaeger": "https://traces.example/jaeger/",
        "decisions": {
            "command/c5": decision("disruption", NOW - 1, "replacing", "waits for new-1", &command("c5")),
            "command/c4": decision("disruption", NOW - 2, "done", "", &command("c4")),
            "command/c3": decision("disruption", NOW - 3, "rolled back", "a replacement did not start", &command("c3")),
            "command/c2": decision("disruption", NOW - 4, "nodes gone", "disruption did not say how", &command("c2")),
            "launch/n1": decision("launch", NOW - 5, "gone", "", &json!(["provisioner", "nodeclaim", "a \"b\"&c"])),
        },
    })
}

#[test]
fn how_a_command_ended_shows_with_its_reason_and_what_failed_saves_nothing() {
    let script = r##"
        window.karpenter.show("decisions");
        const read = (entry) => {
          const pill = entry.querySelector(".pill");
          return [pill.textContent, pill.className.replace("pill ", ""), entry.querySelector(".money")?.textContent || "no saving", entry.querySelectorAll(".event > p")[1]?.textContent].join(" = ");
        };
        const open = document.querySelectorAll("ol.timeline > li.under-way").length;
        document.title = [open, document.querySelector("#tab-decisions .count").textContent, ...[...document.querySelectorAll("ol.timeline > li")].map(read)].join(" | ");"##;
    let Some(title) = title_after(&decisions(), script) else { return };
    let expected = [
        "1",
        "1",
        "Replacing = swap = −$0.5000/h = waits for new-1",
        "Done = good = −$0.5000/h = Trace in Jaeger",
        "Rolled back = bad = no saving = a replacement did not start",
        "Nodes gone = warn = no saving = disruption did not say how",
        "Gone = bad = no saving = Trace in Jaeger",
    ];
    assert_eq!(title, expected.join(" | "));
}

#[test]
fn the_link_to_a_trace_asks_jaeger_for_the_command_or_the_claim_and_nothing_else() {
    let script = r##"
        window.karpenter.show("decisions");
        const links = [...document.querySelectorAll("ol.timeline a")].map((each) => new URL(each.href));
        const read = (url) => [url.origin + url.pathname, url.searchParams.get("service"), url.searchParams.get("tags"), [...url.searchParams.keys()].join("+"), url.hash].join(" ");
        document.title = [links.length, read(links[1]), read(links[4]), document.querySelector("ol.timeline a").rel].join(" | ");"##;
    let Some(title) = title_after(&decisions(), script) else { return };
    let title = title.replace("&amp;", "&");
    let expected = [
        "5",
        r#"https://traces.example/jaeger/search karpenter-disruption {"command":"c4"} service+lookback+tags "#,
        r#"https://traces.example/jaeger/search karpenter-provisioner {"nodeclaim":"a \"b\"&c"} service+lookback+tags "#,
        "noreferrer",
    ];
    assert_eq!(title, expected.join(" | "));
}
