/** Elements of the page. */

/** @typedef {string | Node | false | null | undefined} Child */

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, any>} [settings] properties, and with `aria-` attributes
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function make(tag, settings = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(settings))
    if (/^(aria-|role$)/.test(name)) made.setAttribute(name, value);
    else Object.assign(made, { [name]: value });
  made.append(...children.filter((child) => child !== false && child !== null && child !== undefined));
  return made;
}

/** @param {string} id */
export const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** A control with a name that everybody sees. @param {string} text @param {HTMLElement} control */
export const field = (text, control) => make("label", { className: "field" }, make("span", {}, text), control);

/** @param {string} text @param {[string, string][]} choices value and words @param {string} value */
export function choice(text, choices, value) {
  const control = make("select", {}, ...choices.map(([each, words]) => make("option", { value: each }, words)));
  control.value = value;
  return { control, element: field(text, control) };
}

/** @param {string} text @param {() => unknown} act */
export const button = (text, act) => make("button", { type: "button", onclick: act }, text);

/** A path through samples, at most one point for each of 400 columns and side. @param {ArrayLike<number>} samples @param {string} text */
export function wave(samples, text) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const columns = Math.min(400, samples.length);
  let most = 1e-9;
  for (let i = 0; i < samples.length; i++) most = Math.max(most, Math.abs(samples[i]));
  let d = "";
  for (let x = 0; x < columns; x++) {
    let [low, high] = [Infinity, -Infinity];
    for (let i = Math.floor((x * samples.length) / columns); i < ((x + 1) * samples.length) / columns; i++) {
      low = Math.min(low, samples[i]);
      high = Math.max(high, samples[i]);
    }
    d += `${x ? "L" : "M"}${x} ${(50 - (48 * high) / most).toFixed(1)}L${x} ${(50 - (48 * low) / most).toFixed(1)}`;
  }
  svg.setAttribute("viewBox", `0 0 ${Math.max(1, columns - 1)} 100`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("class", "wave");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", text);
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", d);
  svg.append(path);
  return svg;
}

/** Rows of words, a bar from 0 to 1 and a figure. @param {{words: string, share: number, figure: string}[]} rows */
export const bars = (rows) =>
  make(
    "ol",
    { className: "bars" },
    ...rows.map(({ words, share, figure }) =>
      make("li", {}, make("span", {}, words), make("span", {}, figure), make("meter", { min: 0, max: 1, value: Math.max(0, share), "aria-label": words })),
    ),
  );
