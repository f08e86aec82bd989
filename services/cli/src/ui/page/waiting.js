// Who waits, and for what: pods without a node, nodes being launched and removed, nodes kept, what EC2 has run out of.

import { capital, duration, money } from "./format.js";
import { el, refill, table } from "./dom.js";

/** Rows that are shown of one list. */
const MOST_LISTED = 300;

export class WaitingView {
  /** @param {import("./model.js").Model} model @param {((pod: any) => Promise<any>)|null} explain */
  constructor(model, explain) {
    this.model = model;
    this.explain = explain;
    /** UIDs of pods whose blocking rules are shown. @type {Set<string>} */
    this.open = new Set();
    /** Answers by the pod as it is now: a pod that changes is asked about again. @type {WeakMap<any, {reply?: any, error?: string}>} */
    this.answers = new WeakMap();
    this.root = el("section", { id: "view-waiting", role: "tabpanel", "aria-label": "Waiting" });
  }

  toggle(uid) {
    if (!this.open.delete(uid)) this.open.add(uid);
    this.update();
  }

  async ask(uid, pod) {
    this.answers.set(pod, {});
    try {
      this.answers.set(pod, { reply: await this.explain({ namespace: pod.namespace, name: pod.name, uid }) });
    } catch (error) {
      this.answers.set(pod, { error: String(error.message || error) });
    }
    this.update();
  }

  /** The rule that blocks a pod, per NodePool. */
  rules(uid, pod) {
    if (!this.open.has(uid)) return null;
    if (!this.answers.has(pod)) this.ask(uid, pod);
    const { reply, error } = this.answers.get(pod) || {};
    if (error) return el("p", { class: "problem", role: "alert" }, capital(error));
    if (!reply) return el("p", { class: "dim" }, "computing…");
    const part = (title, columns, rows) => (rows?.length ? [el("h4", {}, title), table(columns, rows)] : []);
    return el(
      "div",
      { class: "rules" },
      el("p", {}, capital(reply.summary)),
      ...part("NodePools", [["NodePool", "name"], ["Rule"], ["What is missing", "why"]], reply.pools),
      ...part("Nearest existing nodes", [["Node", "name"], ["Rule"], ["What is missing", "why"]], reply.nodes),
      ...part("Preferences that were dropped", [["Preference", "why"]], (reply.relaxed || []).map((each) => [each])),
    );
  }

  pods() {
    const since = (at) => (at ? duration(this.model.now() - at) : "");
    const all = [...this.model.pending].sort(([, a], [, b]) => Number(Boolean(a.nominated)) - Number(Boolean(b.nominated)) || (a.since || 0) - (b.since || 0));
    for (const uid of this.open) if (!this.model.pending.has(uid)) this.open.delete(uid);
    return all.slice(0, MOST_LISTED).map(([uid, pod]) => {
      const why = pod.reason || (pod.nominated ? el("span", {}, el("span", { class: "pill new" }, "nominated"), " " + pod.nominated) : "computing…");
      const shown = this.open.has(uid);
      const button = this.explain && !pod.nominated && el("button", { type: "button", class: "small", "data-key": "rules-" + uid, "aria-expanded": String(shown), onclick: () => this.toggle(uid) }, shown ? "Hide rules" : "Rule per NodePool");
      return [pod.namespace + "/" + pod.name, since(pod.since), el("div", {}, why, " ", button, this.rules(uid, pod))];
    });
  }

  update() {
    if (this.root.hidden) return;
    const now = this.model.now();
    const waits = (drain) => el("span", {}, ...drain.waiting.slice(0, 5).flatMap((each) => [el("span", { class: "pill warn" }, each[0]), " " + (each[1] ? each[1] + ": " : "") + each[2], el("br")]));
    const drains = [...this.model.drains.values()].map((drain) => [drain.node || "(never joined)", drain.reason, drain.phase, drain.gone + " of " + drain.total, waits(drain)]);
    const starting = [...this.model.nodes.values()].filter((node) => node.waits).map((node) => [node.name, node.type, node.waits]);
    const candidates = [...this.model.candidates.values()];
    const kept = candidates.filter((each) => !each.disruptable);
    const keptRows = kept.slice(0, MOST_LISTED).map((each) => [each.name, el("span", { class: "pill" }, each.blockers[0]?.[0] || "kept"), each.blockers.map((blocker) => blocker[1]).join("; "), each.blockers.map((blocker) => blocker[2]).filter(Boolean).join("; ")]);
    const free = candidates.filter((each) => each.disruptable);
    const freeRows = free.slice(0, MOST_LISTED).map((each) => [each.name, each.saving ? money(each.saving) + "/h" : "no saving found"]);
    const budgets = this.model.budgets.map((each) => [each.pool, each.reason, String(each.allowed), String(each.used), each.problem]);
    const unavailable = this.model.unavailable.map((each) => [each.type || "any type", each.cap || "any", each.zone || "any zone", each.reason, each.until ? "for " + duration(each.until - now) : ""]);
    const count = this.model.pending.size;
    const part = (title, columns, rows, none, more) => [el("h3", {}, title), rows.length ? table(columns, rows, more) : el("p", { class: "empty" }, none)];
    refill(
      this.root,
      ...part("Pods waiting for a node (" + count + ")", [["Pod", "name"], ["For"], ["Why", "why"]], this.pods(), "No pod waits for a node", count),
      ...part("Nodes being launched (" + starting.length + ")", [["Node", "name"], ["Type"], ["Waits for", "why"]], starting, "No node is being launched"),
      ...part("Nodes being removed (" + drains.length + ")", [["Node", "name"], ["Reason"], ["Phase"], ["Pods gone", "number"], ["Waits for", "why"]], drains, "No node is being removed"),
      ...part("Nodes kept (" + kept.length + ")", [["Node", "name"], ["Rule"], ["What keeps it", "why"], ["What would change it", "why"]], keptRows, "No node is kept by a rule", kept.length),
      ...part("Nodes that may be removed (" + free.length + ")", [["Node", "name"], ["Saving", "number"]], freeRows, "None", free.length),
      ...part("Disruption budgets now", [["NodePool", "name"], ["Reason"], ["Allowed", "number"], ["In use", "number"], ["", "why"]], budgets, "Not known"),
      ...part("Unavailable offerings (" + unavailable.length + ")", [["Type", "name"], ["Capacity type"], ["Zone"], ["Error"], ["Not tried"]], unavailable, this.model.shifted.length ? "Zones shifted away from: " + this.model.shifted.join(", ") : "EC2 has refused nothing recently"),
    );
  }
}
