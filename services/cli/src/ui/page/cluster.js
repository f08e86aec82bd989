// The view of all nodes: a canvas that draws what is in sight, in as much detail as there is room for.

import { cores, duration, memory, money, percent, price } from "./format.js";
import { Colours, ranks } from "./colours.js";
import { DAEMON, DO_NOT_DISRUPT, TERMINATING } from "./model.js";
import { el, facts, fitted, table } from "./dom.js";
import { MOST, boxAt, fit, grouped, groupOf, layout, podAt, rowAt } from "./layout.js";
import { Painter, STATES } from "./paint.js";

const GROUPS = [["pool", "NodePool"], ["zone", "Zone"], ["capacity", "Capacity type"], ["type", "Instance type"]];
const SHADES = [["namespace", "Namespace"], ["priority", "Priority"]];
/** Rectangles that one frame may draw for pods; beyond it boxes are filled as a whole. */
const MOST_PARTS = 24000;
/** Milliseconds between two counts of the pods' namespaces for the legend. */
const LEGEND_EVERY = 500;

/** @param {import("./model.js").Pod} pod */
function flags(pod) {
  return [pod[5] & DAEMON && "DaemonSet", pod[5] & DO_NOT_DISRUPT && "do-not-disrupt", pod[5] & TERMINATING && "terminating"].filter(Boolean);
}

export class ClusterView {
  /** @param {import("./model.js").Model} model @param {{tip: HTMLElement, said: HTMLElement}} around */
  constructor(model, around) {
    this.model = model;
    this.around = around;
    this.group = "pool";
    this.shade = "namespace";
    this.find = "";
    this.level = -1;
    this.selected = "";
    this.pointed = "";
    /** @type {import("./model.js").Pod|null} */
    this.pointedPod = null;
    this.colours = new Colours();
    this.drawn = { key: "" };
    this.layer = { key: "", canvas: document.createElement("canvas") };
    this.explained = { shade: "", at: -Infinity };
    this.build();
  }

  build() {
    const choice = (all, chosen, then) =>
      el("select", { onchange: (event) => then(event.target.value) }, ...all.map(([value, title]) => el("option", { value, selected: value === chosen }, title)));
    this.canvas = el("canvas", { tabindex: 0, role: "application", "aria-label": "Nodes of the cluster. Arrow keys go from node to node, Enter shows one." });
    // As high as all boxes together; the canvas stays in sight within it.
    this.spacer = el("div", { class: "spacer" }, this.canvas);
    this.scroller = el("div", { class: "scroller" }, this.spacer);
    this.legend = el("div", { class: "legend" });
    this.panel = el("aside", { hidden: true, "aria-label": "Selected node" });
    const zoom = (by) => () => this.zoomBy(by);
    this.search = el("input", { type: "search", placeholder: "Find node, pod, type (/)", "aria-label": "Find", oninput: (event) => this.filter(event.target.value) });
    const bar = el(
      "div",
      { class: "bar" },
      el("label", {}, "Group by", choice(GROUPS, this.group, (value) => this.set("group", value))),
      el("label", {}, "Colour by", choice(SHADES, this.shade, (value) => this.set("shade", value))),
      this.search,
      el("div", { class: "group" }, el("button", { type: "button", title: "Smaller (-)", onclick: zoom(-1) }, "−"), el("button", { type: "button", title: "Larger (+)", onclick: zoom(1) }, "+"), el("button", { type: "button", title: "Everything in sight (0)", onclick: zoom(0) }, "Fit")),
      this.legend,
    );
    this.root = el("section", { id: "view-cluster", role: "tabpanel", "aria-label": "Cluster" }, bar, this.scroller, this.panel);
    this.scroller.addEventListener("scroll", () => this.wish());
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("mouseleave", () => this.point(null));
    this.canvas.addEventListener("click", (event) => this.select(this.under(event)?.node.name || ""));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.scroller.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.zoomBy(event.deltaY < 0 ? 1 : -1);
    }, { passive: false });
    new ResizeObserver(() => this.wish()).observe(this.scroller);
  }

  set(name, value) {
    this[name] = value;
    this.wish();
  }

  filter(text) {
    this.find = text.trim().toLowerCase();
    this.set("find", this.find);
  }

  zoomBy(step) {
    const now = this.level < 0 ? this.shownLevel || 0 : this.level;
    this.set("level", step === 0 ? -1 : Math.min(MOST, Math.max(0, now + step)));
  }

  /** Asks for a frame; many wishes make one. */
  wish() {
    if (this.wished || this.root.hidden) return;
    this.wished = true;
    requestAnimationFrame(() => {
      this.wished = false;
      this.draw(performance.now());
    });
  }

  matches(node) {
    if (!this.find) return true;
    const has = (text) => text && text.toLowerCase().includes(this.find);
    return has(node.name) || has(node.type) || has(node.claim) || node.pods.some((pod) => has(pod[1]) || has(pod[0]));
  }

  /** Boxes anew, if nodes or the way of showing them changed. */
  arrange(width, height) {
    const key = [this.model.version, this.group, this.find, this.level, width, height, document.documentElement.dataset.theme].join("|");
    if (this.drawn.key === key) return;
    const nodes = [];
    for (const node of this.model.nodes.values()) if (this.matches(node)) nodes.push(node);
    const group = (node) => groupOf(this.group, node);
    const groups = grouped(nodes, group);
    this.shownLevel = this.level < 0 ? fit(groups, width, height) : this.level;
    this.boxes = layout(groups, width, this.shownLevel);
    this.boxes.count = nodes.length;
    this.spacer.style.height = Math.max(this.boxes.height, height) + "px";
    this.drawn = { key };
    const now = performance.now();
    if (this.explained.shade === this.shade && now - this.explained.at < LEGEND_EVERY) {
      // What came too soon is explained a moment later, also when nothing else changes.
      this.later ??= setTimeout(() => ((this.later = undefined), (this.drawn = {}), this.wish()), LEGEND_EVERY);
      return;
    }
    this.explained = { shade: this.shade, at: now };
    this.explainColours(nodes);
  }

  explainColours(nodes) {
    const count = new Map();
    for (const node of nodes) for (const pod of node.pods) count.set(pod[0], (count.get(pod[0]) || 0) + 1);
    const names = [...count.keys()].sort((a, b) => count.get(b) - count.get(a));
    // The most frequent are named first, so that they get colours of their own; known ones keep theirs.
    for (const name of names) this.colours.of(name);
    const mark = (colour, text) => {
      const canvas = el("canvas", { width: 14, height: 12, "aria-hidden": "true" });
      const context = canvas.getContext("2d");
      context.fillStyle = colour;
      context.fillRect(0, 0, 14, 12);
      return el("span", {}, canvas, text);
    };
    const shades = this.shade === "namespace" ? names.slice(0, 7).map((name) => [this.colours.of(name), name]) : ranks();
    const text = JSON.stringify(shades);
    if (this.legendText === text) return;
    this.legendText = text;
    this.legend.replaceChildren(...shades.map(([colour, name]) => mark(colour, name)), names.length > 7 && this.shade === "namespace" ? "+ " + (names.length - 7) : "");
  }

  /** Draws what is in sight. @param {number} now milliseconds of the page */
  draw(now) {
    const [width, height] = [this.scroller.clientWidth, this.scroller.clientHeight];
    if (width < 50 || height < 50) return;
    this.arrange(width, height);
    const context = fitted(this.canvas, width, height);
    const top = this.scroller.scrollTop;
    const { rows } = this.boxes;
    const seen = [];
    for (let i = rowAt(rows, top); i < rows.length && rows[i].y < top + height; i++) seen.push(rows[i]);
    // Pointing and flashing happen much more often than changes: everything else is kept as a picture.
    const key = [this.drawn.key, top, this.shade].join("|");
    if (this.layer.key !== key) {
      this.layer.key = key;
      this.drawLayer(fitted(this.layer.canvas, width, height), seen, top, width, height);
    }
    context.drawImage(this.layer.canvas, 0, 0, width, height);
    const paint = new Painter(context, this.model, this, now);
    for (const row of seen) for (const item of row.items) if (paint.isMarked(item.node)) paint.marks(item, row.y - top, row.height);
    if (paint.moving) this.wish();
  }

  /** Draws what changes only with the cluster, the layout or the theme. */
  drawLayer(context, seen, top, width, height) {
    const paint = new Painter(context, this.model, this, 0);
    context.fillStyle = paint.colours.bg;
    context.fillRect(0, 0, width, height);
    let parts = 0;
    for (const row of seen) for (const item of row.items) parts += item.node.pods.length * 2;
    this.withPods = paint.withPods = parts <= MOST_PARTS && this.boxes.tall >= 14;
    for (const title of this.boxes.titles) {
      if (title.y < top - 30 || title.y > top + height) continue;
      paint.title(title, title.y - top);
    }
    if (!paint.withPods && this.boxes.tall < 20) paint.plain(seen, top, this.boxes.tall);
    else for (const row of seen) for (const item of row.items) paint.node(item, row.y - top, row.height);
    if (this.boxes.count) return;
    context.fillStyle = paint.colours.dim;
    context.font = "15px system-ui, sans-serif";
    context.textAlign = "center";
    context.fillText(this.find ? "No node matches" : "No nodes yet", width / 2, height / 2);
    context.textAlign = "left";
  }

  under(event) {
    if (!this.boxes) return null;
    const area = this.canvas.getBoundingClientRect();
    return boxAt(this.boxes.rows, event.clientX - area.left, event.clientY - area.top + this.scroller.scrollTop);
  }

  hover(event) {
    const box = this.under(event);
    const area = this.canvas.getBoundingClientRect();
    const on = box && this.withPods ? podAt(box, event.clientX - area.left, event.clientY - area.top + this.scroller.scrollTop) : null;
    this.point(box?.node || null, on);
    if (!box) return;
    const { tip } = this.around;
    tip.style.left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 10) + "px";
    tip.style.top = Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 10) + "px";
  }

  /** @param {any} node @param {{pod: import("./model.js").Pod, meant: boolean}|null} on */
  point(node, on = null) {
    const name = node?.name || "";
    const { tip } = this.around;
    tip.hidden = !node;
    if (name === this.pointed && (on?.pod || null) === this.pointedPod) return;
    this.pointed = name;
    this.pointedPod = on?.pod || null;
    if (node) tip.replaceChildren(...(on ? this.briefPod(on, node) : []), ...this.brief(node));
    this.wish();
  }

  briefPod({ pod, meant }, node) {
    const more = [meant && "nominated to this node, not bound yet", ...flags(pod)].filter(Boolean);
    return [
      el("b", { class: "pod" }, pod[1]),
      el("p", {}, "Namespace " + (pod[0] || "–") + " · priority " + pod[4]),
      el("p", {}, "Requests CPU " + cores(pod[2]) + " · memory " + memory(pod[3]) + " (" + (percent(pod[2], node.cpu[1]) || "–") + " and " + (percent(pod[3], node.mem[1]) || "–") + " of the node)"),
      ...(more.length ? [el("p", { class: "state" }, more.join(", "))] : []),
      el("hr"),
    ];
  }

  brief(node) {
    const state = this.model.state(node);
    const waits = this.model.waits(node);
    const age = node.created ? duration(this.model.now() - node.created) + " old" : "";
    return [
      el("b", {}, node.name),
      el("p", {}, [node.type, node.cap, node.zone, node.price ? price(node.price) + "/h" : "", age].filter(Boolean).join(" · ")),
      el("p", {}, "CPU " + percent(...node.cpu) + " of " + cores(node.cpu[1]) + " · memory " + percent(...node.mem) + " of " + memory(node.mem[1]) + " · " + node.pods.length + " pods"),
      (state !== "ready" || waits) && el("p", { class: "state" }, [STATES[state], waits].filter(Boolean).join(": ")),
      ...this.briefConditions(node),
      node.taints?.length && el("p", {}, "Taints: " + node.taints.join(", ")),
    ].filter(Boolean);
  }

  briefConditions(node) {
    const all = this.model.conditions(node);
    const named = ({ type, status, reason }) => type + (status === "True" ? "" : " " + status) + (reason ? " (" + reason + ")" : "");
    const trouble = all.filter((each) => each.trouble).map(named);
    const holds = all.filter((each) => !each.trouble && each.status === "True").map((each) => each.type);
    return [trouble.length && el("p", { class: "state" }, trouble.join(", ")), holds.length && el("p", {}, holds.join(", "))];
  }

  select(name) {
    this.selected = name;
    this.showPanel();
    this.wish();
  }

  /** Brings the panel up to date. */
  showPanel() {
    const node = this.model.nodes.get(this.selected);
    this.panel.hidden = !node;
    if (!node) return;
    this.around.said.textContent = node.name + ", " + (STATES[this.model.state(node)] || "ready") + ", CPU " + percent(...node.cpu) + ", memory " + percent(...node.mem) + ", " + node.pods.length + " pods";
    const meter = (kind, [used, all]) => {
      const fill = el("i");
      fill.style.width = (all > 0 ? Math.min(100, (used * 100) / all) : 0) + "%";
      return el("div", { class: "meter " + kind }, fill);
    };
    const candidate = this.model.candidates.get(node.name);
    const drain = this.model.drainOf.get(node.claim);
    const held = candidate && (candidate.disruptable ? "may be disrupted" + (candidate.saving ? ", saves " + money(candidate.saving) + "/h" : "") : candidate.blockers.map((each) => each[1] + (each[2] ? " (" + each[2] + ")" : "")).join("; "));
    const pods = [...node.pods].sort((a, b) => b[2] - a[2]);
    this.panel.replaceChildren(
      el("button", { type: "button", class: "close", title: "Close (Esc)", onclick: () => this.select("") }, "✕"),
      el("h2", {}, node.name),
      facts([
        ["State", (STATES[this.model.state(node)] || "Ready") + (this.model.waits(node) ? ": " + this.model.waits(node) : "")],
        ["NodePool", node.pool],
        ["NodeClaim", node.claim],
        ["Type", [node.type, node.cap].filter(Boolean).join(", ")],
        ["Zone", node.zone],
        ["Price", node.price ? price(node.price) + " an hour" : ""],
        ["Age", node.created ? duration(this.model.now() - node.created) : ""],
        ["Taints", (node.taints || []).join(", ")],
        ["Disruption", held],
      ]),
      el("h3", {}, "CPU " + cores(node.cpu[0]) + " of " + cores(node.cpu[1])),
      meter("cpu", node.cpu),
      el("h3", {}, "Memory " + memory(node.mem[0]) + " of " + memory(node.mem[1])),
      meter("mem", node.mem),
      ...(drain?.waiting.length ? [el("h3", {}, "Waits for"), table([["Pod"], ["Why"]], drain.waiting.map((each) => [each[1] || each[0], each[2]]))] : []),
      el("h3", {}, "Conditions"),
      table([["Condition"], ["Status"], ["Reason", "why"]], this.model.conditions(node).map((each) => [each.trouble ? el("span", { class: "pill warn" }, each.type) : each.type, each.status, each.reason])),
      el("h3", {}, pods.length + " pods"),
      table([["Pod"], ["CPU", "number"], ["Memory", "number"], [""]], pods.map((pod) => [pod[0] + "/" + pod[1], cores(pod[2]), memory(pod[3]), flags(pod).join(", ")])),
    );
  }

  key(event) {
    const { rows } = this.boxes || { rows: [] };
    const all = rows.flatMap((row, index) => row.items.map((item) => ({ ...item, row: index })));
    if (!all.length) return;
    const at = all.findIndex((item) => item.node.name === this.selected);
    const here = all[at];
    let next;
    if (event.key === "ArrowRight") next = all[Math.min(all.length - 1, at + 1)];
    else if (event.key === "ArrowLeft") next = all[Math.max(0, at - 1)];
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const row = rows[(here ? here.row : -1) + (event.key === "ArrowDown" ? 1 : -1)];
      if (row) next = row.items.reduce((best, item) => (Math.abs(item.x - (here?.x || 0)) < Math.abs(best.x - (here?.x || 0)) ? item : best));
    } else if (event.key === "Escape") return this.select("");
    else return;
    event.preventDefault();
    if (!next) return;
    this.select(next.node.name);
    const row = rows.find((each) => each.items.some((item) => item.node.name === next.node.name));
    if (row.y < this.scroller.scrollTop) this.scroller.scrollTop = row.y - 30;
    else if (row.y + row.height > this.scroller.scrollTop + this.scroller.clientHeight) this.scroller.scrollTop = row.y + row.height - this.scroller.clientHeight + 10;
  }

  /** The picture changed. */
  update() {
    if (this.selected) this.showPanel();
    this.wish();
  }
}
