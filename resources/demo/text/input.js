/** Text for the model, by its tokenizer. */
import { Tensor } from "../../sdk/session.js";
import { field, make } from "../dom.js";

/** @import { Port, Source, Tokenizer as Codes } from "../types.js" */
/** @typedef {{port: Port, sample: Tensor | null}} Given */

const library = new URL("./tokenizers.js", import.meta.url).href; // not for the type checker
const { Tokenizer } = await import(library);

const FIRST = "A small model answers inside the browser.";
const OTHERS = ["The ocean tastes of salt.", "The network runs on the visitor's own computer.", "Bread is baked in an oven."];

/** A tokenizer of a tokenizer.json. @param {any} description @returns {Codes} */
export function tokenizerOf(description) {
  try {
    return new Tokenizer(description, {});
  } catch (e) {
    throw new Error(`The tokenizer cannot be read: ${/** @type {Error} */ (e).message}.`, { cause: e });
  }
}

/** At most `size` ids; where some are cut, those at the end that belong to no word stay. @param {Codes} tokenizer @param {string} text @param {number} size */
export function idsOf(tokenizer, text, size) {
  const { ids } = tokenizer.encode(text);
  if (ids.length <= size) return ids;
  const plain = tokenizer.encode(text, { add_special_tokens: false }).ids;
  let before = 0;
  while (before + plain.length < ids.length && ids[before] !== plain[0]) before++;
  const after = ids.slice(before + plain.length);
  return [...ids.slice(0, size - after.length), ...after];
}

/**
 * @param {any} description the tokenizer.json
 * @param {Record<string, Given[]>} inputs by kind: text, mask, types, positions
 * @param {boolean} compared whether other texts are compared with this one
 * @returns {Source}
 */
export function textSource(description, inputs, compared) {
  const tokenizer = tokenizerOf(description);
  const [{ port, sample }] = inputs.text;
  const size = port.shape[port.shape.length - 1];
  const pad = description.padding?.pad_id ?? tokenizer.token_to_id("[PAD]") ?? tokenizer.token_to_id("<pad>") ?? 0;
  const row = sample ? Array.from(sample.data, Number).slice(0, size) : [];
  const known = row.length > 0 && tokenizer.decode(row, { skip_special_tokens: true }).trim();
  const written = make("textarea", { value: known || FIRST, rows: 3 });
  const others = make("textarea", { value: OTHERS.join("\n"), rows: 4 });
  const count = make("p", { className: "quiet", role: "status" });
  const tokens = () => idsOf(tokenizer, written.value, size);
  const tell = () => (count.textContent = `${tokens().length} of ${size} tokens`);
  written.addEventListener("input", tell);
  tell();

  /** @param {string} text */
  const feedsOf = async (text) => {
    const ids = idsOf(tokenizer, text, size);
    /** @type {Record<string, (i: number) => number>} */
    const values = { text: (i) => ids[i] ?? pad, mask: (i) => Number(i < ids.length), types: () => 0, positions: (i) => i };
    const all = Object.entries(inputs).flatMap(([kind, given]) => given.map((each) => ({ kind, ...each.port })));
    return Object.fromEntries(
      all.map(({ kind, name, type, shape }) => {
        const length = shape.reduce((n, d) => n * d, 1);
        return [name, new Tensor(type, Array.from({ length }, (_, i) => values[kind](i % size)), shape)];
      }),
    );
  };
  const place = () => {
    const ids = tokens();
    const mask = tokenizer.token_to_id("[MASK]") ?? tokenizer.token_to_id("<mask>");
    const at = mask === undefined ? -1 : ids.indexOf(mask);
    return at < 0 ? ids.length - 1 : at;
  };
  return {
    element: make("div", { className: "part" }, field("Text", written), count, compared && field("Compare with, one a line", others)),
    label: () => "this text",
    feeds: () => feedsOf(written.value),
    words: { tokenizer, text: () => written.value, place, others: () => (compared ? others.value.split("\n").filter((line) => line.trim()) : []), feedsOf },
  };
}
