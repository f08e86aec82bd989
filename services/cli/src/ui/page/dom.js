// Elements. Text is always text: nothing that comes from the cluster is ever read as markup.

/**
 * @param {string} tag
 * @param {Record<string, any>} [properties] "class", "on…" handlers, "aria-…" and others as attributes
 * @param {...(Node|string|null|undefined|false)} children
 */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "hidden") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child || child === 0) element.append(child);
  return element;
}

/** Replaces everything in an element; the keyboard's focus stays on what has the same data-key. @param {HTMLElement} root */
export function refill(root, ...children) {
  const focused = root.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  root.replaceChildren(...children);
  if (focused) root.querySelector('[data-key="' + CSS.escape(focused) + '"]')?.focus({ preventScroll: true });
}

const MOST_ROWS = 300;

/**
 * @param {[string, string?][]} columns title and class
 * @param {(Node|string)[][]} rows
 */
export function table(columns, rows, more = rows.length) {
  const head = el("tr", {}, ...columns.map(([title, kind]) => el("th", { class: kind, scope: "col" }, title)));
  const body = rows.slice(0, MOST_ROWS).map((row) => el("tr", {}, ...row.map((cell, i) => el("td", { class: columns[i][1] }, cell))));
  const hidden = Math.max(more, rows.length) - body.length;
  if (hidden > 0) body.push(el("tr", {}, el("td", { colspan: columns.length, class: "empty" }, "… and " + hidden + " more")));
  return el("table", {}, el("thead", {}, head), el("tbody", {}, ...body));
}

/** @param {string} title @param {string} value @param {string} [note] */
export function card(title, value, note) {
  return el("div", { class: "card" }, el("small", {}, title), el("strong", {}, value), el("small", {}, note || "\u00a0"));
}

/** @param {[string, any][]} pairs */
export function facts(pairs) {
  const list = el("dl", { class: "facts" });
  for (const [name, value] of pairs) if (value) list.append(el("dt", {}, name), el("dd", {}, value));
  return list;
}

/** A canvas as sharp as the screen. @param {HTMLCanvasElement} canvas @param {number} width @param {number} height */
export function fitted(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}
