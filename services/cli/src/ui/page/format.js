// Numbers and times, for people.

/** @param {number} micro micro-dollars an hour */
export function money(micro) {
  const dollars = micro / 1e6;
  if (dollars === 0) return "$0";
  const digits = Math.abs(dollars) >= 100 ? 0 : Math.abs(dollars) >= 10 ? 1 : Math.abs(dollars) >= 1 ? 2 : 4;
  return "$" + dollars.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** Exact to a hundredth of a cent, for tables. @param {number} micro */
export function price(micro) {
  return micro > 0 ? "$" + (micro / 1e6).toFixed(4) : "?";
}

/** A month has 730 hours. @param {number} micro */
export function month(micro) {
  return "$" + Math.round((micro * 730) / 1e6).toLocaleString("en-US");
}

/** @param {number} count */
export function whole(count) {
  return count.toLocaleString("en-US");
}

/** @param {number} part @param {number} all */
export function percent(part, all) {
  return all > 0 ? Math.round((part * 100) / all) + "%" : "";
}

/** @param {number} milli */
export function cores(milli) {
  return milli % 1000 === 0 ? String(milli / 1000) : (milli / 1000).toFixed(milli < 10000 ? 2 : 1);
}

/** @param {number} mib */
export function memory(mib) {
  return mib >= 1024 ? (mib / 1024).toFixed(mib >= 10240 ? 0 : 1) + " GiB" : mib + " MiB";
}

/** @param {number} seconds */
export function duration(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min";
  if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min";
  return Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
}

/** @param {number} at seconds since the epoch */
export function clock(at) {
  return new Date(at * 1000).toLocaleTimeString("en-GB");
}

/** A word for a phase in the picture's own spelling. @param {string} phase */
export function capital(phase) {
  return phase ? phase[0].toUpperCase() + phase.slice(1) : "";
}
