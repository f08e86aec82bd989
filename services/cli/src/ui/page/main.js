// Puts the page together: reads its settings, follows the changes, and shows the view that was chosen.

import { clock, money, percent, whole } from "./format.js";
import { useTheme } from "./colours.js";
import { Model } from "./model.js";
import { el, table } from "./dom.js";
import { ClusterView } from "./cluster.js";
import { CostView } from "./cost.js";
import { DecisionsView } from "./decisions.js";
import { WaitingView } from "./waiting.js";
import { QuestionView, ask } from "./question.js";

const settings = JSON.parse(document.getElementById("data").textContent);
const live = Boolean(settings.events);
const model = new Model();
const find = (id) => document.getElementById(id);

/** A plan that was made without a cluster. */
class PlanView {
  constructor() {
    this.root = el("section", { id: "view-plan", role: "tabpanel", "aria-label": "Plan" });
  }

  update() {
    const plan = model.plan;
    if (this.root.hidden || !plan) return;
    const part = (title, columns, rows) => (rows?.length ? [el("h3", {}, title), table(columns, rows)] : []);
    this.root.replaceChildren(
      ...plan.lines.map((line) => el("p", {}, line)),
      ...part("Pods without a place", [["Pod", "name"], ["Why", "why"]], plan.unschedulable),
      ...part("New nodes", [["Node", "name"], ["NodePool"], ["Type"], ["Capacity"], ["Zone"], ["$/h", "number"], ["Pods", "why"]], plan.nodes),
      ...part("Onto existing nodes", [["Node", "name"], ["Pods", "why"]], plan.existing),
      ...part("Consolidation, step by step", [["Reason", "name"], ["Nodes removed", "why"], ["New nodes", "why"], ["Saves $/h", "number"]], plan.commands),
      ...part("Nodes kept", [["Node", "name"], ["Why", "why"]], plan.blocked),
    );
  }
}

const mayAsk = live && !settings.readOnly;
const cluster = new ClusterView(model, { tip: find("tip"), said: find("said") });
const views = settings.plan
  ? [["plan", "Plan", new PlanView()], ["cluster", "Nodes", cluster]]
  : [
      ["cluster", "Cluster", cluster],
      ["cost", "Cost", new CostView(model)],
      ["decisions", "Decisions", new DecisionsView(model, settings.jaeger)],
      ["waiting", "Waiting", new WaitingView(model, mayAsk ? (pod) => ask("/explain", pod) : null)],
      ["question", "What if", new QuestionView(model, mayAsk)],
    ];

function show(name) {
  const chosen = views.find((view) => view[0] === name) || views[0];
  for (const [key, , view] of views) {
    view.root.hidden = key !== chosen[0];
    find("tab-" + key).setAttribute("aria-selected", String(key === chosen[0]));
    find("tab-" + key).tabIndex = key === chosen[0] ? 0 : -1;
  }
  find("tip").hidden = true;
  if (location.hash !== "#" + chosen[0]) history.replaceState(null, "", "#" + chosen[0]);
  chosen[2].update();
}

for (const [key, title, view] of views) {
  find("tabs").append(el("button", { id: "tab-" + key, type: "button", role: "tab", "aria-controls": "view-" + key, onclick: () => show(key) }, title, el("span", { class: "count", hidden: true })));
  find("views").append(view.root);
}

function figures() {
  const sum = model.sums();
  const waits = [...model.pending.values()].filter((pod) => !pod.nominated).length;
  const figure = (title, value, more, warn) => el("div", { class: warn ? "warn" : "" }, el("dt", {}, title), el("dd", {}, value, more ? el("small", {}, more) : null));
  find("figures").replaceChildren(
    figure("Cost", money(sum.price), "an hour"),
    figure("Nodes", whole(sum.nodes), sum.nodes !== sum.ours ? whole(sum.ours) + " managed" : ""),
    figure("Pods", whole(sum.pods)),
    figure("Waiting", whole(model.pending.size), waits && waits !== model.pending.size ? waits + " without a node" : "", waits > 0),
    figure("CPU requested", percent(...sum.cpu) || "–"),
    figure("Memory requested", percent(...sum.mem) || "–"),
    figure("Waste", percent(sum.waste, sum.price) || "–", sum.waste ? money(sum.waste) + "/h" : ""),
  );
  const count = (tab, number, warn) => {
    const badge = find("tab-" + tab)?.querySelector(".count");
    if (!badge) return;
    badge.hidden = !number;
    badge.textContent = whole(number);
    badge.classList.toggle("warn", Boolean(warn));
  };
  count("decisions", [...model.decisions.values()].filter((each) => !each.ended).length);
  count("waiting", model.pending.size + model.drains.size, waits > 0);
  const named = [...model.services].map(([name, each]) => el("li", { class: each.state, title: each.state + (each.detail ? ": " + each.detail : "") }, name));
  find("services").replaceChildren(...named);
  const lost = [...model.services].filter(([, each]) => each.state === "lost");
  find("lost").textContent = lost.map(([name, each]) => name + " cannot be asked: " + (each.detail || "no connection")).join(" · ");
}

let due = false;
/** Shows what came in since the last frame. */
function refresh() {
  due = false;
  figures();
  for (const [, , view] of views) if (!view.root.hidden) view.update();
}

/** @param {any} patch */
function apply(patch) {
  model.apply(patch, performance.now());
  if (due) return;
  due = true;
  requestAnimationFrame(refresh);
}

function setTheme(name) {
  useTheme(name);
  find("theme").textContent = name === "dark" ? "Light" : "Dark";
  try {
    localStorage.setItem("karpenter-theme", name);
  } catch {
    // A file may have no storage; the theme is then the system's each time.
  }
  refresh();
}

function follow() {
  const source = new EventSource(settings.events);
  source.onmessage = (event) => apply(JSON.parse(event.data));
  source.onopen = () => (find("when").textContent = "");
  // The browser asks again by itself.
  source.onerror = () => (find("when").textContent = "the command is not running; waiting for it");
}

find("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
find("tabs").addEventListener("keydown", (event) => {
  const at = views.findIndex((view) => find("tab-" + view[0]) === document.activeElement);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: views.length - 1 }[event.key];
  if (at < 0 || to === undefined) return;
  event.preventDefault();
  const next = views[(to + views.length) % views.length][0];
  show(next);
  find("tab-" + next).focus();
});
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  const number = Number(event.key);
  if (number >= 1 && number <= views.length) show(views[number - 1][0]);
  else if (event.key === "t") find("theme").click();
  else if (event.key === "+" || event.key === "=") cluster.zoomBy(1);
  else if (event.key === "-") cluster.zoomBy(-1);
  else if (event.key === "0") cluster.zoomBy(0);
  else if (event.key === "/") {
    event.preventDefault();
    show("cluster");
    cluster.search.focus();
  } else if (event.key === "Escape") cluster.select("");
});
window.addEventListener("hashchange", () => show(location.hash.slice(1)));

let stored = null;
try {
  stored = localStorage.getItem("karpenter-theme");
} catch {
  stored = null;
}
useTheme(stored || (matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark"));
find("theme").textContent = document.documentElement.dataset.theme === "dark" ? "Light" : "Dark";
show(location.hash.slice(1));
if (live) follow();
else {
  model.apply(settings, performance.now());
  const last = model.history[model.history.length - 1];
  model.frozenAt = settings.at || last?.at || 0;
  if (model.frozenAt) find("when").textContent = "as of " + new Date(model.frozenAt * 1000).toLocaleString();
  refresh();
}
/** For tests and for the curious: the picture, and a way to feed it. */
window.karpenter = { model, apply, refresh, show, cluster, clock };
