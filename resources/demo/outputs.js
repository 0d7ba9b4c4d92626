/** What the model gives, drawn by the kinds that the manifest says. */
import { boxesOf, drawBoxes } from "./boxes.js";
import { bars, button, make, wave } from "./dom.js";
import { kindOf } from "./inputs.js";
import { canvasOf, formOf, scaleOf } from "./picture.js";

/** @import { InferenceSession, Tensor } from "../sdk/session.js" */
/** @import { Source } from "./types.js" */
/**
 * @typedef {object} Shown
 * @property {InferenceSession} session
 * @property {Source[]} sources
 * @property {string[]} labels names of classes
 * @property {Record<string, Tensor>} outputs
 */

const TOP = 5;
const PREVIEW = 6;

/** Shares of 1; as they are where they are such already. @param {ArrayLike<number>} values */
export function shares(values) {
  const numbers = Array.from(values, Number);
  const sum = numbers.reduce((a, b) => a + b, 0);
  if (numbers.every((v) => v >= 0 && v <= 1) && Math.abs(sum - 1) < 0.02) return numbers;
  const most = Math.max(...numbers);
  const raised = numbers.map((v) => Math.exp(v - most));
  const all = raised.reduce((a, b) => a + b, 0);
  return raised.map((v) => v / all);
}

/** Of the greatest values: their places, the best first. @param {readonly number[]} values */
export const top = (values, count = TOP) =>
  values
    .map((value, i) => ({ value, i }))
    .sort((a, b) => b.value - a.value)
    .slice(0, count);

/** @param {ArrayLike<number>} a @param {ArrayLike<number>} b */
export function cosine(a, b) {
  let [dot, aa, bb] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    dot += Number(a[i]) * Number(b[i]);
    aa += Number(a[i]) ** 2;
    bb += Number(b[i]) ** 2;
  }
  return dot / (Math.sqrt(aa * bb) || 1);
}

/** @param {readonly number[]} values @param {(i: number) => string} nameOf */
const ranking = (values, nameOf) => bars(top(values).map(({ value, i }) => ({ words: nameOf(i), share: value, figure: `${(100 * value).toFixed(1)} %` })));

/** @param {Tensor} tensor */
function numbers({ data }) {
  const figure = (/** @type {any} */ v) => (typeof v === "bigint" ? `${v}` : `${+Number(v).toPrecision(5)}`);
  const text = Array.from(data.slice(0, PREVIEW), figure).join(", ") + (data.length > PREVIEW ? ", …" : "");
  if (data.length <= PREVIEW) return [make("p", { className: "values" }, text)];
  let [low, high, sum] = [Infinity, -Infinity, 0];
  for (const each of data) {
    const v = Number(each);
    [low, high, sum] = [Math.min(low, v), Math.max(high, v), sum + v];
  }
  const facts = `least ${figure(low)}, mean ${figure(sum / data.length)}, greatest ${figure(high)}`;
  return [make("p", { className: "values" }, text), make("p", { className: "quiet" }, facts)];
}

/** Vectors of what ran before, for inputs that are no text. @type {{words: string, data: ArrayLike<number>}[]} */
const before = [];

/** @param {Shown} shown @param {string} name */
async function similarity({ session, sources, outputs }, name) {
  const { data } = outputs[name];
  const words = sources.find((source) => source.words)?.words;
  const rows = [];
  if (words)
    for (const text of words.others()) {
      const other = await session.run(await words.feedsOf(text), [name]);
      rows.push({ words: text, value: cosine(data, other[name].data) });
    }
  else {
    rows.push(...before.map((other) => ({ words: other.words, value: cosine(data, other.data) })));
    if (!before.some((other) => cosine(data, other.data) > 0.999999)) before.push({ words: `Run ${before.length + 1}: ${sources[0]?.label()}`, data: data.slice() });
    if (before.length > TOP) before.shift();
  }
  if (!rows.length) return [make("p", { className: "quiet" }, "Run it on something else: the likeness of both is shown then."), ...numbers(outputs[name])];
  rows.sort((a, b) => b.value - a.value);
  return [
    make("p", { className: "quiet" }, words ? "Likeness of meaning: cosine, from −1 to 1" : "Likeness to what ran before: cosine, from −1 to 1"),
    bars(rows.map(({ words: text, value }) => ({ words: text, share: value, figure: value.toFixed(2) }))),
  ];
}

/** The likeliest tokens at the mask, or behind the text. @param {Shown} shown @param {string} name */
function tokens({ sources, outputs }, name) {
  const words = sources.find((source) => source.words)?.words;
  if (!words) return numbers(outputs[name]);
  const { data, dims } = outputs[name];
  const vocabulary = dims[dims.length - 1];
  const place = Math.min(words.place(), data.length / vocabulary - 1);
  const found = shares(data.slice(place * vocabulary, (place + 1) * vocabulary));
  return [make("p", { className: "quiet" }, `The likeliest tokens at place ${place + 1} of the text`), ranking(found, (i) => words.tokenizer.id_to_token(i) ?? String(i))];
}

/** @param {Shown} shown @param {string} name */
function boxes({ session, sources, labels, outputs }, name) {
  const picture = sources.find((source) => source.canvas)?.canvas;
  const others = session.outputNames.filter((other) => other !== name);
  const find = (/** @type {RegExp} */ words) => outputs[others.find((other) => words.test(other)) ?? ""] ?? null;
  const found = boxesOf(outputs[name], find(/score|logit|prob|conf/i), find(/label|class(es)?$/i), picture?.width ?? 1, picture?.height ?? 1);
  return drawBoxes(found, picture, (kind) => labels[kind] ?? `class ${kind}`);
}

/** @param {Tensor} tensor @param {string} name */
function sound({ data }, name) {
  const samples = Float32Array.from(data, Number);
  const play = () => {
    const context = new AudioContext();
    const buffer = context.createBuffer(1, samples.length, 16000);
    buffer.copyToChannel(samples, 0);
    const source = context.createBufferSource();
    source.buffer = buffer;
    source.connect(context.destination);
    source.onended = () => context.close();
    source.start();
  };
  return [wave(samples, `Wave of ${name}, ${samples.length} samples`), make("div", { className: "row" }, button("Play at 16 kHz", play))];
}

/** @param {Shown} shown @param {string} name @returns {Promise<Node[]>} */
async function draw(shown, name) {
  const tensor = shown.outputs[name];
  const kind = kindOf(shown.session.manifest, "outputs", name);
  if (kind === "labels") return [ranking(shares(tensor.data), (i) => shown.labels[i] ?? `class ${i}`)];
  if (kind === "boxes") return boxes(shown, name);
  if (kind === "similarity") return similarity(shown, name);
  if (kind === "waveform") return sound(tensor, name);
  if (kind === "text") return tokens(shown, name);
  if (kind === "picture") {
    const canvas = canvasOf(tensor.data, formOf(tensor.dims), scaleOf(tensor.data, tensor.type));
    canvas.className = "drawn";
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `Picture ${name}`);
    return [canvas];
  }
  return numbers(tensor);
}

/** Each output under its name, plain numbers last. @param {Shown} shown */
export async function drawOutputs(shown) {
  const parts = [];
  const plain = (/** @type {string} */ name) => Number(kindOf(shown.session.manifest, "outputs", name) === "numbers");
  for (const [name, { type, dims }] of Object.entries(shown.outputs).sort(([a], [b]) => plain(a) - plain(b)))
    parts.push(make("div", { className: "part" }, make("h2", {}, name), make("p", { className: "quiet" }, `${type}, ${dims.join(" × ")}`), ...(await draw(shown, name))));
  return parts;
}
