/** The token loop of a decoder with a KV cache: prefill, then one run of the decode plan a token. */
import { EngineError } from "../errors.js";
import { ARRAYS, MAIN, outputOf, PREFILL } from "../plan.js";

/**
 * @typedef {object} Options
 * @property {number} [maxTokens] new tokens at most; until the cache is full when absent
 * @property {number} [topK] how many of the likeliest to draw from; 1 (the default) is greedy
 * @property {number} [temperature] divides the logits before the draw; 1 when absent
 * @property {number} [seed] of the draws: equal seeds give equal texts
 * @property {readonly number[]} [stopTokens] end the text; they are yielded too
 * @property {AbortSignal} [signal] ends the generation after the present token
 */
/** @typedef {"length" | "stop" | "full" | "cancelled"} Reason */
/** @typedef {{id: number, ms: number, margin: number}} Token with the logit's lead over the second best */
/** @import { Generation, Plan, Tensor } from "../../types/engine.js" */
/**
 * What is needed of an engine; one on a GPU answers later, and its outputs are copies.
 * @typedef {object} Engine
 * @property {boolean} [copies]
 * @property {Record<string, Plan>} plans
 * @property {() => void} reset
 * @property {(inputs: Tensor[], plan?: string) => () => void | Promise<void>} stepper
 * @property {(name: string, plan?: string) => Tensor | Promise<Tensor>} output
 */

/**
 * New tokens, each as soon as it is known. The cache starts empty.
 *
 * @param {Engine} engine whose main plan is the decode plan
 * @param {Generation} facts
 * @param {readonly number[]} prompt
 * @param {Options} [options]
 * @returns {AsyncGenerator<Token, Reason>}
 */
export async function* generate(engine, facts, prompt, options = {}) {
  const { maxTokens = Infinity, stopTokens = [], signal } = options;
  const text = new Text(engine, facts);
  const pick = sampler(options);
  checkPrompt(prompt, facts, text.vocabulary);
  if (!(maxTokens >= 1)) throw new EngineError(`maxTokens is ${maxTokens}.`, "Ask for at least 1 token.");
  let start = performance.now();
  let logits = await text.read(prompt);
  for (let made = 1; ; made++) {
    const token = pick(logits);
    const now = performance.now();
    yield { ...token, ms: now - start };
    if (stopTokens.includes(token.id)) return "stop";
    if (made >= maxTokens) return "length";
    if (text.length >= facts.capacity) return "full";
    await tick(); // a message that cancels has its turn here
    if (signal?.aborted) return "cancelled";
    start = performance.now();
    logits = await text.add(token.id);
  }
}

/** What is in the cache, and the inputs that follow from it. */
class Text {
  #engine;
  #facts;
  #decode;
  #step;
  /** @type {Float32Array} */ #logits = new Float32Array(0);
  length = 0;

  /** @param {Engine} engine @param {Generation} facts */
  constructor(engine, facts) {
    this.#engine = engine;
    this.#facts = facts;
    this.#decode = new Feeds(engine.plans[MAIN]);
    this.#step = engine.stepper(this.#decode.tensors);
    const { shape, dtype } = outputOf(engine.plans[MAIN], facts.logits).spec;
    if (dtype !== "f32") throw new EngineError(`The logits are ${dtype}, text generation reads f32.`);
    this.vocabulary = shape[shape.length - 1];
    engine.reset();
  }

  /**
   * @param {readonly number[]} prompt
   * @returns {Promise<Float32Array>} logits of what follows it
   */
  async read(prompt) {
    const { rows } = this.#facts;
    let logits = rows ? await this.#prefill(prompt.slice(0, rows)) : null;
    for (const id of prompt.slice(this.length)) logits = await this.add(id);
    return /** @type {Float32Array} */ (logits);
  }

  /** @param {readonly number[]} ids at most `rows`; what stands behind them is masked until it is overwritten */
  async #prefill(ids) {
    const { ids: name, mask, positions, last, logits } = this.#facts;
    const feeds = new Feeds(this.#engine.plans[PREFILL]);
    ids.forEach((id, i) => {
      feeds.set(name, i, id);
      feeds.set(mask, i, 1);
    });
    if (positions) for (let i = 0; i < this.#facts.rows; i++) feeds.set(positions, i, i);
    if (last) feeds.set(last, 0, ids.length - 1);
    await this.#engine.stepper(feeds.tensors, PREFILL)();
    for (let i = 0; i < ids.length; i++) this.#decode.set(mask, i, 1);
    this.length = ids.length;
    return this.#row(await this.#engine.output(logits, PREFILL), last ? 0 : ids.length - 1);
  }

  /**
   * One run of the decode plan.
   * @param {number} id
   */
  async add(id) {
    const { ids, mask, positions, slot, logits } = this.#facts;
    const feeds = this.#decode;
    const position = this.length++;
    feeds.set(ids, 0, id);
    feeds.set(mask, position, 1);
    feeds.set(slot, 0, position);
    if (positions) feeds.set(positions, 0, position);
    await this.#step();
    if (!this.#logits.length || this.#engine.copies) this.#logits = this.#row(await this.#engine.output(logits), 0);
    return this.#logits;
  }

  /** @param {Tensor} output @param {number} row */
  #row({ data }, row) {
    return new Float32Array(data.buffer, data.byteOffset + row * this.vocabulary * 4, this.vocabulary);
  }
}

/** The inputs of a plan, made once and changed in place; they start as zeros. */
class Feeds {
  /** @type {Map<string, any>} */ #values = new Map();
  /** @type {Tensor[]} */ tensors = [];

  /** @param {Plan} plan */
  constructor(plan) {
    for (const { spec } of plan.inputs) {
      const values = new ARRAYS[spec.dtype](spec.shape.reduce((n, d) => n * d, 1));
      this.#values.set(spec.name, values);
      this.tensors.push({ ...spec, data: new Uint8Array(values.buffer) });
    }
  }

  /** @param {string} name @param {number} index @param {number} value */
  set(name, index, value) {
    const values = this.#values.get(name);
    if (!values) return; // a prefill with a graph of its own may take the ids alone
    values[index] = values instanceof BigInt64Array ? BigInt(value) : value;
  }
}

/** @param {readonly number[]} prompt @param {Generation} facts @param {number} vocabulary */
function checkPrompt(prompt, { capacity }, vocabulary) {
  if (!prompt.length) throw new EngineError("The prompt is empty.", "Give at least one token id.");
  if (prompt.length > capacity)
    throw new EngineError(`The prompt has ${prompt.length} tokens, the model's cache holds ${capacity}.`, "Shorten it, or import with a larger --capacity.");
  const wrong = prompt.find((id) => !(Number.isInteger(id) && id >= 0 && id < vocabulary));
  if (wrong !== undefined) throw new EngineError(`${wrong} is no token of this model.`, `Its tokens are 0 to ${vocabulary - 1}.`);
}

/**
 * How the next token follows from logits.
 * @param {Options} options
 * @returns {(logits: Float32Array) => {id: number, margin: number}}
 */
export function sampler({ topK = 1, temperature = 1, seed = 0 }) {
  if (!(Number.isInteger(topK) && topK >= 1)) throw new EngineError(`topK is ${topK}.`, "Use 1 for greedy, or more to draw.");
  if (!(temperature > 0 && temperature < Infinity)) throw new EngineError(`The temperature is ${temperature}.`, "Use a number above 0.");
  if (!Number.isSafeInteger(seed)) throw new EngineError(`The seed is ${seed}.`, "Use a whole number.");
  const random = randomNumbers(seed);
  return (logits) => {
    const best = largest(logits, Math.min(Math.max(topK, 2), logits.length));
    const lead = best.length > 1 ? logits[best[0]] - logits[best[1]] : Infinity;
    if (Number.isNaN(lead)) throw new EngineError("The model's logits are not numbers.", "Compare it with its native runtime: nnjit generate --check.");
    const id = topK === 1 ? best[0] : draw(best.slice(0, topK), logits, temperature, random());
    return { id, margin: lead };
  };
}

/**
 * Indices of the k largest, the largest first; of equal ones the lower index first.
 * @param {Float32Array} values
 * @param {number} k
 */
function largest(values, k) {
  /** @type {number[]} */
  const best = [];
  let least = -Infinity;
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    // written so that what is no number comes in, and is found by the caller
    if (best.length === k && value <= least) continue;
    let at = best.length === k ? k - 1 : best.length;
    for (; at > 0 && !(values[best[at - 1]] >= value); at--) best[at] = best[at - 1];
    best[at] = i;
    least = values[best[best.length - 1]];
  }
  return best;
}

/**
 * One of the candidates, each with the weight of its softmax.
 * @param {number[]} candidates the likeliest first
 * @param {Float32Array} logits
 * @param {number} temperature
 * @param {number} at in [0, 1)
 */
function draw(candidates, logits, temperature, at) {
  const weights = candidates.map((i) => Math.exp((logits[i] - logits[candidates[0]]) / temperature));
  let left = at * weights.reduce((a, b) => a + b, 0);
  const found = candidates.find((_, i) => (left -= weights[i]) < 0);
  return found ?? candidates[0];
}

/**
 * Numbers in [0, 1): a Weyl sequence through a 32-bit mixer (splitmix32).
 * @param {number} seed
 */
function randomNumbers(seed) {
  let state = seed | 0;
  return () => {
    state = (state + 0x9e3779b9) | 0;
    let t = state ^ (state >>> 16);
    t = Math.imul(t, 0x21f0aaad);
    t ^= t >>> 15;
    t = Math.imul(t, 0x735a2d97);
    return ((t ^ (t >>> 15)) >>> 0) / 2 ** 32;
  };
}

/** @type {MessageChannel | null} one for all texts: a browser keeps the memory of each for long */
let turns = null;

/** A turn of the event loop; a timer would cost milliseconds. */
function tick() {
  turns ??= new MessageChannel();
  const { port1, port2 } = turns;
  const held = /** @type {any} */ (port1); // in Node a port keeps the process alive, but while we wait only
  return new Promise((resolve) => {
    port1.onmessage = (event) => {
      held.unref?.();
      resolve(event);
    };
    held.ref?.();
    port2.postMessage(0);
  });
}
