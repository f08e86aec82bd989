// What if: nodes gone, or objects changed. The provisioner answers; nothing in the cluster changes.

import { capital, money, month, price, whole } from "./format.js";
import { waste } from "./model.js";
import { el, table } from "./dom.js";

const EXAMPLE = `apiVersion: apps/v1
kind: Deployment
metadata: {name: what-if, namespace: default}
spec:
  replicas: 20
  selector: {matchLabels: {app: what-if}}
  template:
    metadata: {labels: {app: what-if}}
    spec:
      containers:
      - name: app
        image: registry.k8s.io/pause:3.10
        resources: {requests: {cpu: 500m, memory: 1Gi}}
`;

/** @param {string} where @param {any} what */
export async function ask(where, what) {
  const answer = await fetch(where, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(what) });
  const reply = await answer.json().catch(() => ({ error: "the command gave no answer: " + answer.status }));
  if (reply.error) throw new Error(reply.error);
  return reply;
}

export class QuestionView {
  /** @param {import("./model.js").Model} model @param {boolean} mayAsk */
  constructor(model, mayAsk) {
    this.model = model;
    this.mayAsk = mayAsk;
    /** @type {Set<string>} */
    this.chosen = new Set();
    this.list = el("div", { class: "list", role: "group", "aria-label": "Nodes to remove" });
    this.find = el("input", { type: "search", placeholder: "Find a node", "aria-label": "Find a node", oninput: () => this.fill() });
    this.text = el("textarea", { spellcheck: "false", "aria-label": "Objects in YAML or JSON" });
    this.text.value = EXAMPLE;
    this.consolidate = el("input", { type: "checkbox", id: "consolidate" });
    this.answer = el("div", { "aria-live": "polite" });
    this.remove = el("button", { type: "button", class: "main", onclick: () => this.simulate() }, "Without these nodes");
    this.plan = el("button", { type: "button", class: "main", onclick: () => this.asPlan() }, "With these objects");
    const asking = el(
      "div",
      {},
      el("h3", {}, "Take nodes away"),
      el("div", { class: "go" }, this.find),
      this.list,
      el("div", { class: "go" }, this.remove, el("button", { type: "button", onclick: () => (this.chosen.clear(), this.fill()) }, "None")),
      el("h3", {}, "Or change a NodePool or a workload"),
      this.text,
      el("div", { class: "go" }, this.plan, el("label", {}, this.consolidate, " and consolidate afterwards")),
    );
    this.root = el("section", { id: "view-question", role: "tabpanel", "aria-label": "What if" }, el("div", { class: "ask" }, asking, el("div", {}, el("h3", {}, "Answer"), this.answer)));
    this.answer.append(el("p", { class: "empty" }, mayAsk ? "Ask: nothing in the cluster is changed." : "This page only shows: it was opened read-only, or is a file."));
    this.remove.disabled = this.plan.disabled = !mayAsk;
  }

  update() {
    if (!this.root.hidden) this.fill();
  }

  fill() {
    const find = this.find.value.trim().toLowerCase();
    const nodes = [...this.model.nodes.values()].filter((node) => node.claim && (!find || (node.name + " " + node.type + " " + node.pool).toLowerCase().includes(find)));
    nodes.sort((a, b) => waste(b) - waste(a) || (a.name < b.name ? -1 : 1));
    const shown = nodes.slice(0, 200);
    const key = shown.map((node) => node.name + node.price).join() + [...this.chosen].join();
    if (key === this.filled) return;
    this.filled = key;
    this.list.replaceChildren(
      ...shown.map((node) => el("label", {}, el("input", { type: "checkbox", checked: this.chosen.has(node.name), onchange: (event) => (event.target.checked ? this.chosen.add(node.name) : this.chosen.delete(node.name)) }), node.name, el("span", {}, node.type + " · " + price(node.price) + "/h"))),
      nodes.length > shown.length ? el("p", { class: "empty" }, "… and " + (nodes.length - shown.length) + " more: find them by name") : "",
    );
  }

  async run(button, work) {
    button.disabled = true;
    this.answer.replaceChildren(el("p", { class: "empty" }, "The provisioner is thinking…"));
    try {
      this.answer.replaceChildren(...(await work()));
    } catch (error) {
      this.answer.replaceChildren(el("p", { class: "problem", role: "alert" }, capital(String(error.message || error))));
    }
    button.disabled = false;
  }

  simulate() {
    return this.run(this.remove, async () => {
      const remove = [...this.chosen].filter((name) => this.model.nodes.has(name));
      const reply = await ask("/simulate", { remove });
      return this.compare(reply, remove.length, reply.removed ?? remove.reduce((sum, name) => sum + this.model.nodes.get(name).price, 0));
    });
  }

  asPlan() {
    return this.run(this.plan, async () => this.compare(await ask("/plan", { objects: this.text.value, consolidate: this.consolidate.checked }), 0, 0));
  }

  /** Today beside the answer. */
  compare(reply, removed, removedPrice) {
    const sum = this.model.sums();
    const later = reply.consolidation ? reply.consolidation.after : sum.price - removedPrice + reply.added;
    const gone = reply.consolidation ? reply.consolidation.commands.reduce((n, each) => n + each.remove.length - each.newNodes.length, 0) : 0;
    const nodes = sum.ours - removed + reply.newNodes.length - gone;
    const difference = later - sum.price;
    const rows = [
      ["Nodes of ours", whole(sum.ours), whole(nodes)],
      ["$/h", money(sum.price), money(later)],
      ["A month", month(sum.price), month(later)],
      ["Difference", "", (difference > 0 ? "+" : "−") + money(Math.abs(difference)) + "/h"],
      ["New nodes", "", whole(reply.newNodes.length)],
      ["Pods that move or find a place", "", whole(reply.placements.length + reply.newNodes.reduce((n, node) => n + node.pods.length, 0))],
      ["Pods without a place", whole([...this.model.pending.values()].filter((pod) => pod.reason).length), whole(reply.unschedulable.length)],
    ];
    const side = table([["", "name"], ["Today"], ["Then"]], rows);
    side.className = "compare";
    const planned = (all) => table([["New node", "name"], ["Type"], ["Capacity"], ["Zone"], ["NodePool"], ["Pods", "number"], ["$/h", "number"]], all.map((node) => [node.name, node.type, node.cap, node.zone, node.pool, String(node.pods.length), price(node.price)]));
    const parts = [side];
    if (reply.bound) parts.push(el("p", {}, "No plan for these pods can cost less than " + money(reply.bound) + " an hour."));
    if (reply.newNodes.length) parts.push(el("h3", {}, "Nodes that would be made"), planned(reply.newNodes));
    if (reply.unschedulable.length) parts.push(el("h3", {}, "Pods without a place"), table([["Pod", "name"], ["Why", "why"]], reply.unschedulable));
    if (reply.placements.length) parts.push(el("h3", {}, "Pods that go to nodes that are there"), table([["Pod", "name"], ["Node"]], reply.placements));
    if (reply.notReached?.length) parts.push(el("p", { class: "problem" }, reply.notReached.length + " pods were not looked at in time"));
    for (const command of reply.consolidation?.commands || []) {
      parts.push(el("h3", {}, command.reason + ": " + command.remove.join(", ")), el("p", {}, "saves " + money(command.saving) + "/h, " + command.moves + " pods move"));
      if (command.newNodes.length) parts.push(planned(command.newNodes));
    }
    if (reply.consolidation?.staying.length) parts.push(el("h3", {}, "Nodes that stay"), table([["Node", "name"], ["Why", "why"]], reply.consolidation.staying));
    return parts;
  }
}
