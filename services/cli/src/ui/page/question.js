// What if: nodes removed, or objects changed. The provisioner answers; nothing in the cluster changes.

import { capital, price } from "./format.js";
import { waste } from "./model.js";
import { el } from "./dom.js";
import { compare } from "./compare.js";

/** What can be loaded into the editor. */
const LOADABLE = ["NodePool", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "NodeOverlay"];

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
  const answer = await fetch(where, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(what) }).catch(() => {
    throw new Error("the command that serves this page does not answer: is it still running?");
  });
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
    this.kind = el("select", { "aria-label": "Kind to load", onchange: () => this.names() }, ...LOADABLE.map((kind) => el("option", { value: kind }, kind)));
    this.known = el("datalist", { id: "known-names" });
    this.wanted = el("input", { type: "text", list: "known-names", placeholder: "name, or namespace/name", "aria-label": "Name of the object to load", onfocus: () => this.names(), onkeydown: (event) => event.key === "Enter" && this.load() });
    this.loader = el("button", { type: "button", onclick: () => this.load() }, "Load");
    this.loaded = el("span", { class: "dim", role: "status" });
    this.consolidate = el("input", { type: "checkbox", id: "consolidate" });
    this.answer = el("div", { "aria-live": "polite" });
    this.remove = el("button", { type: "button", class: "main", onclick: () => this.without() }, "Without these nodes");
    this.plan = el("button", { type: "button", class: "main", onclick: () => this.changed() }, "With these objects");
    const asking = el(
      "div",
      {},
      el("h3", {}, "Remove nodes"),
      el("div", { class: "go" }, this.find),
      this.list,
      el("div", { class: "go" }, this.remove, el("button", { type: "button", onclick: () => (this.chosen.clear(), this.fill()) }, "None")),
      el("h3", {}, "Or change a NodePool or a workload"),
      el("div", { class: "go" }, this.kind, this.wanted, this.known, this.loader, this.loaded),
      this.text,
      el("div", { class: "go" }, this.plan),
      el("p", {}, el("label", {}, this.consolidate, " Consolidate after either change")),
    );
    this.root = el("section", { id: "view-question", role: "tabpanel", "aria-label": "What if" }, el("div", { class: "ask" }, asking, el("div", {}, el("h3", {}, "Answer"), this.answer)));
    this.answer.append(el("p", { class: "empty" }, mayAsk ? "Ask: nothing in the cluster is changed." : "This page only shows: it was opened read-only, or is a file."));
    this.remove.disabled = this.plan.disabled = this.loader.disabled = !mayAsk;
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

  /** Offers the names of the chosen kind; a person who may not list them can still type one. */
  async names() {
    const kind = this.kind.value;
    if (!this.mayAsk || this.listed === kind) return;
    this.listed = kind;
    this.known.replaceChildren();
    try {
      const { names } = await ask("/objects", { kind });
      if (this.listed === kind) this.known.replaceChildren(...names.map((name) => el("option", { value: name })));
    } catch (error) {
      this.loaded.textContent = String(error.message || error);
    }
  }

  /** Puts an object of the cluster into the editor. */
  async load() {
    const [kind, name] = [this.kind.value, this.wanted.value.trim()];
    if (!name) return;
    this.loaded.textContent = "loading…";
    try {
      this.text.value = (await ask("/objects", { kind, name })).yaml;
      this.loaded.textContent = kind + " " + name + " is loaded: edit it below; nothing is applied";
    } catch (error) {
      this.loaded.textContent = String(error.message || error);
    }
  }

  async run(work) {
    // One question at a time: the answer on the page is the last one's.
    this.remove.disabled = this.plan.disabled = true;
    this.answer.replaceChildren(el("p", { class: "empty" }, "computing…"));
    try {
      this.answer.replaceChildren(...(await work()));
    } catch (error) {
      this.answer.replaceChildren(el("p", { class: "problem", role: "alert" }, capital(String(error.message || error))));
    }
    this.remove.disabled = this.plan.disabled = false;
  }

  without() {
    return this.run(async () => {
      const remove = [...this.chosen].filter((name) => this.model.nodes.has(name));
      if (!remove.length) throw new Error("choose the nodes that would go");
      const reply = await ask("/plan", { remove, consolidate: this.consolidate.checked });
      return compare(this.model, reply, remove);
    });
  }

  changed() {
    return this.run(async () => compare(this.model, await ask("/plan", { objects: this.text.value, consolidate: this.consolidate.checked }), []));
  }
}
