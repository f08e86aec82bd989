// What the cluster costs: now, over the time that was watched, by pool and capacity type, and what decisions saved.

import { clock, money, month, percent, whole } from "./format.js";
import { Colours, theme } from "./colours.js";
import { waste } from "./model.js";
import { card, el, fitted, table } from "./dom.js";

export class CostView {
  /** @param {import("./model.js").Model} model @param {(() => Promise<any>)|null} askBound */
  constructor(model, askBound) {
    this.model = model;
    this.by = 0;
    this.colours = new Colours();
    this.bound = null;
    this.cards = el("div", { class: "cards" });
    this.canvas = el("canvas", { role: "img", "aria-label": "Cost over time" });
    this.key = el("div", { class: "legend" });
    this.tables = el("div", { class: "two" });
    const choose = el("select", { "aria-label": "Split by", onchange: (event) => ((this.by = Number(event.target.value)), this.update()) }, el("option", { value: 0 }, "By NodePool"), el("option", { value: 1 }, "By capacity type"));
    const ask = askBound && el("button", { type: "button", onclick: () => this.ask(askBound) }, "Compute the lower bound");
    this.said = el("span", { class: "dim" });
    this.root = el(
      "section",
      { id: "view-cost", role: "tabpanel", "aria-label": "Cost" },
      this.cards,
      el("div", { class: "card wide" }, el("div", { class: "bar" }, choose, ask, this.said, this.key), this.canvas),
      el("br"),
      this.tables,
    );
    new ResizeObserver(() => this.update()).observe(this.root);
  }

  async ask(askBound) {
    this.said.textContent = "asking the provisioner…";
    try {
      const reply = await askBound();
      this.bound = reply.bound ?? null;
      this.said.textContent = this.bound === null ? "no bound was found in time" : "no set of nodes for the pods of today costs less than " + money(this.bound) + "/h";
    } catch (error) {
      this.said.textContent = String(error.message || error);
    }
    this.update();
  }

  update() {
    if (this.root.hidden) return;
    const sum = this.model.sums();
    const done = [...this.model.decisions.values()].filter((each) => each.kind === "disruption" && each.phase === "done");
    const saved = done.reduce((total, each) => total + (each.saving || 0), 0);
    const possible = [...this.model.candidates.values()].map((each) => each.saving || 0);
    const best = possible.length ? Math.max(0, ...possible) : 0;
    this.cards.replaceChildren(
      card("Cost now", money(sum.price) + "/h", month(sum.price) + " a month" + (sum.unpriced ? ", " + sum.unpriced + " nodes without a price" : "")),
      card("Waste", money(sum.waste) + "/h", percent(sum.waste, sum.price) + " of the cost is for what no pod requests"),
      card("Saved by decisions", money(saved) + "/h", whole(done.length) + " commands, the last hour and since the page opened"),
      card("Could be saved", money(best) + "/h", "by the best single node, as disruption last saw it"),
      ...(this.bound === null ? [] : [card("Lower bound", money(this.bound) + "/h", "no set of nodes for these pods can cost less")]),
    );
    this.chart();
    this.lists(done);
  }

  chart() {
    const width = this.canvas.parentElement.clientWidth - 34;
    const height = 280;
    if (width < 100) return;
    const context = fitted(this.canvas, width, height);
    const colours = theme();
    context.clearRect(0, 0, width, height);
    const samples = this.model.history;
    if (!samples.length) return;
    const names = [...new Set(samples.flatMap((sample) => sample.by.map((each) => each[this.by] || "other")))].sort();
    const amount = (sample, name) => sample.by.reduce((total, each) => total + ((each[this.by] || "other") === name ? each[2] : 0), 0);
    const [from, to] = [samples[0].at, Math.max(samples[samples.length - 1].at, this.frozen ? 0 : Date.now() / 1000, samples[0].at + 60)];
    const most = Math.max(1, this.bound || 0, ...samples.map((sample) => sample.by.reduce((total, each) => total + each[2], 0))) * 1.12;
    const [left, right, top, bottom] = [64, width - 8, 10, height - 24];
    const x = (at) => left + ((at - from) / (to - from)) * (right - left);
    const y = (value) => bottom - (value / most) * (bottom - top);
    context.font = "11.5px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (let line = 0; line <= 4; line++) {
      const value = (most * line) / 4;
      context.strokeStyle = colours.line;
      context.beginPath();
      context.moveTo(left, y(value));
      context.lineTo(right, y(value));
      context.stroke();
      context.fillStyle = colours.dim;
      context.textAlign = "right";
      context.fillText(money(value), left - 8, y(value));
    }
    for (let mark = 0; mark <= 4; mark++) {
      const at = from + ((to - from) * mark) / 4;
      context.textAlign = mark === 0 ? "left" : mark === 4 ? "right" : "center";
      context.fillText(clock(at), x(at), height - 9);
    }
    context.textAlign = "left";
    const floor = samples.map(() => 0);
    for (const name of names) {
      const roof = samples.map((sample, i) => floor[i] + amount(sample, name));
      const outline = (values, backwards) => {
        const order = samples.map((_, i) => i);
        if (!backwards) for (const i of order) {
          context.lineTo(x(samples[i].at), y(values[i]));
          context.lineTo(x(samples[i + 1]?.at ?? to), y(values[i]));
        }
        else for (const i of order.reverse()) {
          context.lineTo(x(samples[i + 1]?.at ?? to), y(values[i]));
          context.lineTo(x(samples[i].at), y(values[i]));
        }
      };
      context.fillStyle = this.colours.of(name);
      context.globalAlpha = 0.8;
      context.beginPath();
      outline(roof, false);
      outline(floor, true);
      context.fill();
      context.globalAlpha = 1;
      roof.forEach((value, i) => (floor[i] = value));
    }
    if (this.bound !== null) {
      context.strokeStyle = colours.good;
      context.setLineDash([6, 4]);
      context.beginPath();
      context.moveTo(left, y(this.bound));
      context.lineTo(right, y(this.bound));
      context.stroke();
      context.setLineDash([]);
    }
    this.key.replaceChildren(...names.map((name) => {
      const dot = el("canvas", { width: 14, height: 12 });
      const on = dot.getContext("2d");
      on.fillStyle = this.colours.of(name);
      on.fillRect(0, 0, 14, 12);
      return el("span", {}, dot, name);
    }));
  }

  lists(done) {
    const split = (key) => {
      const all = new Map();
      for (const node of this.model.nodes.values()) {
        if (!node.claim) continue;
        const name = key(node) || "not known yet";
        const own = all.get(name) || { nodes: 0, price: 0, waste: 0 };
        own.nodes++;
        own.price += node.price;
        own.waste += waste(node);
        all.set(name, own);
      }
      return [...all].sort((a, b) => b[1].price - a[1].price).map(([name, own]) => [name, whole(own.nodes), money(own.price), month(own.price), money(own.waste), percent(own.waste, own.price)]);
    };
    const columns = (first) => [[first, "name"], ["Nodes", "number"], ["$/h", "number"], ["A month", "number"], ["Waste $/h", "number"], ["", "number"]];
    const saved = new Map();
    for (const each of done) {
      const own = saved.get(each.reason) || [0, 0];
      saved.set(each.reason, [own[0] + 1, own[1] + (each.saving || 0)]);
    }
    this.tables.replaceChildren(
      el("div", { class: "card" }, table(columns("NodePool"), split((node) => node.pool))),
      el("div", { class: "card" }, table(columns("Capacity type"), split((node) => node.cap))),
      el("div", { class: "card" }, table(columns("Instance type"), split((node) => node.type))),
      el("div", { class: "card" }, saved.size ? table([["Decision", "name"], ["Commands", "number"], ["Saved $/h", "number"]], [...saved].map(([reason, [count, sum]]) => [reason, whole(count), money(sum)])) : el("p", { class: "empty" }, "No command has ended yet")),
    );
  }
}
