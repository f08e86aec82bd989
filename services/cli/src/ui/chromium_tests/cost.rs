//! The view of what the cluster costs.

use serde_json::json;

use super::super::frames::picture;
use super::title_after;

const NOW: i64 = 1_800_000_000;

#[test]
fn cost_now_and_over_time_is_split_and_only_what_was_done_counts_as_saved() {
    let command = |phase: &str, ended: bool, realised: Option<i64>| {
        json!({"kind": "disruption", "at": NOW - 100, "reason": "Underutilized", "phase": phase, "ended": ended,
            "remove": ["a"], "add": [], "saving": 500_000, "realised": realised, "detail": "", "steps": []})
    };
    let mut data = picture(4, 3);
    data["at"] = json!(NOW);
    data["decisions"] = json!({
        "command/1": command("done", true, Some(400_000)),
        "command/2": command("rolled back", true, None),
        "command/3": command("replacing", false, None),
    });
    data["candidates"] = json!({"node-00003": {"disruptable": true, "blockers": [], "saving": 1_000_000}});
    data["bound"] = json!({"amount": 2_000_000, "at": NOW - 5});
    data["history"] = json!([
        {"at": NOW - 600, "by": [["pool-0", "spot", 1_000_000], ["pool-1", "on-demand", 500_000]],
         "waste": 0, "nodes": 2, "pods": 6, "pending": 0},
        {"at": NOW - 300, "by": [["pool-0", "spot", 2_000_000], ["pool-1", "on-demand", 448_000]],
         "waste": 0, "nodes": 4, "pods": 12, "pending": 0},
    ]);
    let script = r##"
        window.karpenter.show("cost");
        const all = (selector) => [...document.querySelectorAll("#view-cost " + selector)].map((each) => each.textContent);
        const rows = (number) => [...document.querySelectorAll("#view-cost .two .card")[number].querySelectorAll("tbody tr")].map((row) => [...row.cells].slice(0, 3).map((cell) => cell.textContent).join(" ")).join(", ");
        const canvas = document.querySelector("#view-cost canvas[role=img]");
        const drawn = () => {
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const seen = new Set();
          for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 150) seen.add([data[i] >> 5, data[i + 1] >> 5, data[i + 2] >> 5].join());
          return seen.size > 2;
        };
        const legend = () => document.querySelector("#view-cost .legend").textContent;
        const byPool = [drawn(), legend()].join(" ");
        const split = document.querySelector("#view-cost select");
        split.value = "1";
        split.dispatchEvent(new Event("change"));
        const byCapacity = [drawn(), legend()].join(" ");
        document.title = [all(".cards strong").join(" "), byPool, byCapacity, rows(0), rows(1), rows(3)].join(" | ");"##;
    let Some(title) = title_after(&data, script) else { return };
    let expected = [
        "$2.45/h $2.40/h $0.4000/h $1.00/h $2.00/h",
        "true pool-0pool-1",
        "true on-demandspot",
        "pool-3 1 $1.31, pool-2 1 $0.6528, pool-1 1 $0.3264, pool-0 1 $0.1632",
        "spot 4 $2.45",
        "Underutilized 1 $0.4000",
    ];
    assert_eq!(title, expected.join(" | "));
}
