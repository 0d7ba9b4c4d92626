/** The page of `nnjit bench llama FILE`: texts of one decoder in our engine and in ONNX Runtime Web, in turns. */
import { sampler } from "../engine/generation/sampler.js";
import { memoryBytes, watchMemories } from "./memories.js";
import { conduct, fetchJob, file, report, turns } from "./page.js";
import { openOnnxRuntime, openOurs } from "./sessions.js";

/** @import { Opened } from "./sessions.js" */
/** @typedef {{id: number, margin: number, ms: number}} Token milliseconds since the one before it */
/** @typedef {{ids: number[], margins: number[], prompt_ms: number, decode_ms: number}} Text */
/** @typedef {{input: string, output: string, dims: number[]}} Past without tokens yet */
/**
 * @typedef {object} Facts of a decoder as it was exported
 * @property {string} ids
 * @property {string} mask
 * @property {string} positions the input's name; empty when the model counts the mask
 * @property {string} branch of a merged file: whether there is a past; empty for none
 * @property {string} logits
 * @property {Past[]} pasts
 * @property {Record<string, string>} types of the inputs
 */
/**
 * @typedef {object} Job
 * @property {number} threads
 * @property {number[]} prompt
 * @property {number} tokens
 * @property {number} rounds
 * @property {Facts} facts
 * @property {import("./models.js").Entry[]} contenders
 */

/** @type {Record<string, any>} */
const ARRAYS = {
  int64: BigInt64Array,
  int32: Int32Array,
  bool: Uint8Array,
  float32: Float32Array,
  float16: /** @type {any} */ (globalThis).Float16Array ?? Uint16Array,
};

/**
 * Greedy tokens of ONNX Runtime Web, its past handed back as it came: what a page would write.
 * @param {Opened} opened
 * @param {Facts} facts
 * @param {number[]} prompt
 * @param {number} tokens
 * @returns {AsyncGenerator<Token>}
 */
export async function* follow({ session, feeds }, facts, prompt, tokens) {
  const pick = sampler({});
  const input = (/** @type {string} */ name, /** @type {number[]} */ dims, /** @type {number[]} */ values) => {
    const type = facts.types[name];
    return { name, type, dims, data: ARRAYS[type].from(values, type === "int64" ? BigInt : Number) };
  };
  let pasts = feeds(facts.pasts.map((past) => input(past.input, past.dims, [])));
  let length = 0;
  for (let made = 0, waiting = prompt; made < tokens; made++) {
    const start = performance.now();
    const before = length;
    const given = [
      input(facts.ids, [1, waiting.length], waiting),
      input(facts.mask, [1, before + waiting.length], Array(before + waiting.length).fill(1)),
      ...(facts.positions ? [input(facts.positions, [1, waiting.length], waiting.map((_, i) => before + i))] : []),
      ...(facts.branch ? [input(facts.branch, [1], [Number(before > 0)])] : []),
    ];
    const outputs = await session.run({ ...feeds(given), ...pasts });
    for (const past of Object.values(pasts)) if (past.location === "gpu-buffer") past.dispose();
    length += waiting.length;
    pasts = Object.fromEntries(facts.pasts.map((past) => [past.input, outputs[past.output]]));
    const logits = outputs[facts.logits];
    const row = logits.data.slice(-(/** @type {number} */ (logits.dims.at(-1))));
    const token = pick(row instanceof Float32Array ? row : Float32Array.from(row));
    yield { ...token, ms: performance.now() - start };
    waiting = [token.id];
  }
}

/** A whole text with its times. @param {AsyncIterable<Token>} stream @returns {Promise<Text>} */
export async function collect(stream) {
  /** @type {Text} */
  const text = { ids: [], margins: [], prompt_ms: NaN, decode_ms: 0 };
  for await (const { id, margin, ms } of stream) {
    if (text.ids.length) text.decode_ms += ms;
    else text.prompt_ms = ms;
    text.ids.push(id);
    text.margins.push(margin);
  }
  return text;
}

/**
 * What our token consists of: ms of each step of the decode plan by itself, with no gap between two.
 * @param {Opened} opened
 */
async function stepsOf({ session, feeds }) {
  const inputs = session.inputNames.map((/** @type {string} */ name, /** @type {number} */ i) => {
    const { type, shape } = session.inputMetadata[i];
    const count = shape.reduce((/** @type {number} */ n, /** @type {number} */ d) => n * d, 1);
    const one = type === "int64" ? 1n : 1;
    return { name, type, dims: shape, data: count > 1 ? new ARRAYS[type](count).fill(one) : new ARRAYS[type](count) };
  });
  const { steps } = await session.profile(feeds(inputs), 5);
  return steps.map((/** @type {any} */ { workload, ms }) => ({ workload, ms }));
}

/** @param {Job} job */
async function main(job) {
  const { threads, prompt, tokens, facts } = job;
  /** @type {Record<string, () => Promise<Text>>} */
  const writers = {};
  /** @type {Record<string, Text[]>} */
  const texts = {};
  /** @type {Record<string, Record<string, unknown>>} */
  const about = {};
  /** @type {() => Promise<{workload: string, ms: number}[]>} */
  let profiled = async () => [];
  for (const { name, engine, source, external, provider, build } of job.contenders) {
    const [before, start] = [memoryBytes(), performance.now()];
    const externalData = external.map((path) => ({ path, data: file(`model/${path}`) }));
    const kept = provider === "webgpu" ? facts.pasts.map((past) => past.output) : [];
    const opened = engine === "nnjit" ? await openOurs(file(source), threads, provider) : await openOnnxRuntime(file(source), threads, { externalData, provider, build, kept });
    const create_ms = performance.now() - start;
    writers[name] = () => collect(engine === "nnjit" ? opened.session.generate(prompt, { maxTokens: tokens }) : follow(opened, facts, prompt, tokens));
    texts[name] = [];
    const first = await writers[name]();
    await report({ type: "text", name, count: 0, ms: first.prompt_ms + first.decode_ms });
    if (engine === "nnjit") profiled = () => stepsOf(opened);
    about[name] = { create_ms, first_ms: first.prompt_ms, memory_bytes: memoryBytes() - before, threads: opened.threads, tier: opened.tier };
  }
  for (const name of turns(Object.keys(writers), job.rounds)) {
    const text = await writers[name]();
    texts[name].push(text);
    await report({ type: "text", name, count: texts[name].length, ms: text.prompt_ms + text.decode_ms });
  }
  await report({ type: "row", texts, facts: about, steps: await profiled(), user_agent: navigator.userAgent });
}

// Tests take the functions above without a page.
if (globalThis.document)
  await conduct(async () => {
    watchMemories();
    await main(await fetchJob());
  });
