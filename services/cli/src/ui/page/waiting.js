// Who waits, and for what: pods without a node, nodes that go, nodes that stay, what EC2 has run out of.

import { duration, money } from "./format.js";
import { el, table } from "./dom.js";

export class WaitingView {
  /** @param {import("./model.js").Model} model */
  constructor(model) {
    this.model = model;
    this.root = el("section", { id: "view-waiting", role: "tabpanel", "aria-label": "Waiting" });
  }

  update() {
    if (this.root.hidden) return;
    const now = Date.now() / 1000;
    const since = (at) => (at ? duration(now - at) : "");
    const pending = [...this.model.pending.values()].sort((a, b) => Boolean(a.nominated) - Boolean(b.nominated) || (a.since || 0) - (b.since || 0));
    const pods = pending.slice(0, 300).map((pod) => [pod.namespace + "/" + pod.name, since(pod.since), pod.reason ? pod.reason : pod.nominated ? el("span", {}, el("span", { class: "pill new" }, "node on its way"), " " + pod.nominated) : "not looked at yet"]);
    const drains = [...this.model.drains.values()].map((drain) => [drain.node || "(never joined)", drain.reason, drain.phase, drain.gone + " of " + drain.total, drain.waiting.length ? el("span", {}, ...drain.waiting.slice(0, 5).flatMap((each) => [el("span", { class: "pill warn" }, each[0]), " " + (each[1] ? each[1] + ": " : "") + each[2], el("br")])) : ""]);
    const starting = [...this.model.nodes.values()].filter((node) => node.waits).map((node) => [node.name, node.type, node.waits]);
    const staying = [...this.model.candidates.values()].filter((each) => !each.disruptable);
    const stays = staying.slice(0, 300).map((each) => [each.name, el("span", { class: "pill" }, each.blockers[0]?.[0] || "held"), each.blockers.map((blocker) => blocker[1]).join("; "), each.blockers.map((blocker) => blocker[2]).filter(Boolean).join("; ")]);
    const free = [...this.model.candidates.values()].filter((each) => each.disruptable);
    const mayGo = free.slice(0, 300).map((each) => [each.name, each.saving ? money(each.saving) + "/h" : "no saving found"]);
    const budgets = this.model.budgets.map((each) => [each.pool, each.reason, String(each.allowed), String(each.used), each.problem]);
    const marks = this.model.unavailable.map((each) => [each.type || "any type", each.cap || "any", each.zone || "any zone", each.reason, each.until ? "for " + duration(each.until - now) : ""]);
    const part = (title, columns, rows, none, more) => [el("h3", {}, title), rows.length ? table(columns, rows, more) : el("p", { class: "empty" }, none)];
    this.root.replaceChildren(
      ...part("Pods that wait (" + pending.length + ")", [["Pod", "name"], ["For"], ["Why", "why"]], pods, "No pod waits for a node", pending.length),
      ...part("Nodes on their way (" + starting.length + ")", [["Node", "name"], ["Type"], ["Waits for", "why"]], starting, "No node is being launched"),
      ...part("Nodes that go (" + drains.length + ")", [["Node", "name"], ["Reason"], ["Phase"], ["Pods gone", "number"], ["Waits for", "why"]], drains, "No node is being removed"),
      ...part("Nodes that stay (" + staying.length + ")", [["Node", "name"], ["Rule"], ["What keeps it", "why"], ["What would change it", "why"]], stays, "No node is held", staying.length),
      ...part("Nodes that may go (" + free.length + ")", [["Node", "name"], ["Saving", "number"]], mayGo, "None", free.length),
      ...part("Budgets now", [["NodePool", "name"], ["Reason"], ["Allowed", "number"], ["In use", "number"], ["", "why"]], budgets, "Not known"),
      ...part("What EC2 has run out of (" + marks.length + ")", [["Type", "name"], ["Capacity type"], ["Zone"], ["Error"], ["Held"]], marks, this.model.shifted.length ? "Zones shifted away from: " + this.model.shifted.join(", ") : "Nothing is marked unavailable"),
    );
  }
}
