// Colours that stay apart for colour-blind people (after Okabe and Ito), and the theme's own.

const APART = ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#0072b2", "#d55e00", "#9aa5b1"];
const PRIORITIES = [
  [1000000000, "#d55e00", "system"],
  [1000, "#e69f00", "high"],
  [1, "#f0e442", "raised"],
  [0, "#56b4e9", "normal"],
  [-Infinity, "#9aa5b1", "low"],
];

/** The first names get colours of their own, the others share by their letters. */
export class Colours {
  constructor() {
    /** @type {Map<string, string>} */
    this.known = new Map();
  }

  /** @param {string} name */
  of(name) {
    let colour = this.known.get(name);
    if (!colour) {
      let sum = 7;
      for (let i = 0; i < name.length; i++) sum = (sum * 31 + name.charCodeAt(i)) >>> 0;
      colour = APART[this.known.size < APART.length ? this.known.size : sum % APART.length];
      this.known.set(name, colour);
    }
    return colour;
  }
}

/** @param {number} priority @returns {[number, string, string]} */
export function rank(priority) {
  return PRIORITIES.find((each) => priority >= each[0]) || PRIORITIES[3];
}

export const RANKS = PRIORITIES;

/** The theme's colours as the style sheet has them now. */
export function theme() {
  const style = getComputedStyle(document.documentElement);
  const names = ["bg", "panel", "raised", "line", "text", "dim", "faint", "free", "cpu", "mem", "accent", "good", "warn", "bad", "new", "join", "swap"];
  /** @type {Record<string, string>} */
  const all = {};
  for (const name of names) all[name] = style.getPropertyValue("--" + name).trim();
  return all;
}

/** Slanted lines on nothing. @param {CanvasRenderingContext2D} context @param {string} colour */
export function hatch(context, colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const on = tile.getContext("2d");
  on.strokeStyle = colour;
  on.lineWidth = 2;
  on.beginPath();
  for (const shift of [-8, 0, 8]) {
    on.moveTo(shift, 8);
    on.lineTo(shift + 8, 0);
  }
  on.stroke();
  return context.createPattern(tile, "repeat");
}
