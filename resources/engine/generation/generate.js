/** The token loop of a decoder with a KV cache: prefill, then one run of the decode plan a token. */
import { EngineError } from "../errors.js";
import { Ahead } from "./ahead.js";
import { sampler } from "./sampler.js";
import { ARRAYS, EXTEND, MAIN, outputOf, PREFILL } from "../plan.js";

/**
 * @typedef {object} Options
 * @property {number} [maxTokens] new tokens at most; until the cache is full when absent
 * @property {number} [topK] how many of the likeliest to draw from; 1 (the default) is greedy
 * @property {number} [topP] of those the fewest that have this share of the weight; 1 when absent
 * @property {number} [repetitionPenalty] makes tokens of the text less likely where above 1; 1 when absent
 * @property {number} [temperature] divides the logits before the draw; 1 when absent
 * @property {number} [seed] of the draws: equal seeds give equal texts
 * @property {readonly number[]} [stopTokens] end the text; they are yielded too
 * @property {AbortSignal} [signal] ends the generation after the present token, or part of the prompt
 */
/** @typedef {"length" | "stop" | "full" | "cancelled"} Reason */
/** @typedef {import("./ahead.js").Token} Token */
/** @import { Generation, Plan, Tensor } from "../../types/engine.js" */
/** @import { Follower } from "../gpu/engine.js" */
/**
 * What is needed of an engine; one on a GPU answers later, its outputs are copies, it chooses greedy
 * tokens itself, and is caught up with when all that was queued has run.
 * @typedef {object} Engine
 * @property {boolean} [copies]
 * @property {Record<string, Plan>} plans
 * @property {() => void} reset
 * @property {(inputs: Tensor[], plan?: string) => () => void | Promise<void>} stepper
 * @property {(name: string, plan?: string) => Tensor | Promise<Tensor>} output
 * @property {(inputs: Tensor[], names: {ids: string, logits: string}) => Promise<Follower>} [follower]
 * @property {() => Promise<void>} [caughtUp]
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
  const pick = sampler(options, prompt);
  checkPrompt(prompt, facts, text.vocabulary);
  if (!(maxTokens >= 1)) throw new EngineError(`maxTokens is ${maxTokens}.`, "Ask for at least 1 token.");
  const start = performance.now();
  const follow = await following(text, pick, options, Math.min(maxTokens - 1, facts.capacity - prompt.length));
  try {
    const logits = await text.read(prompt, signal);
    if (!logits) return "cancelled";
    let token = { ...pick(logits), ms: 0 };
    token.ms = performance.now() - start;
    for (let made = 1; ; made++) {
      yield token;
      if (stopTokens.includes(token.id)) return "stop";
      if (made >= maxTokens) return "length";
      if (prompt.length + made > facts.capacity) return "full";
      await tick(); // a message that cancels has its turn here
      if (signal?.aborted) return "cancelled";
      token = await follow.next(token.id);
    }
  } finally {
    follow.close();
  }
}

/**
 * What makes the tokens behind the first.
 * @param {Text} text @param {(logits: Float32Array) => {id: number, margin: number}} pick
 * @param {Options} options @param {number} steps at most
 * @returns {Promise<{next: (id: number) => Promise<Token>, close: () => void}>}
 */
async function following(text, pick, { topK = 1, repetitionPenalty = 1 }, steps) {
  const follower = topK === 1 && repetitionPenalty === 1 && steps > 0 ? await text.follower() : null;
  if (follower) return new Ahead(follower, (id) => text.place(id), steps);
  const next = async (/** @type {number} */ id) => {
    const start = performance.now();
    const choice = pick(await text.add(id));
    return { ...choice, ms: performance.now() - start };
  };
  return { next, close: () => {} };
}

/** A run of several rows takes about as long as its rows over this many steps of one token. */
const ROWS_PER_STEP = 8;
/** Runs of several rows, or eights of steps, of a prompt that a GPU has not ended, at most: one runs, one follows. */
const MOST_QUEUED = 2;
const STEPS_TOGETHER = 8;

/** What is in the cache, and the inputs that follow from it. */
class Text {
  #engine;
  #facts;
  #decode;
  #step;
  /** @type {Feeds | undefined} of the extend plan */ #behind;
  /** @type {(Promise<void> | undefined)[]} */ #queued = [];
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
   * Logits are read of the last run alone, so that a GPU goes from one to the next.
   * @param {readonly number[]} prompt
   * @param {AbortSignal} [signal]
   * @returns {Promise<Float32Array | null>} logits of what follows it; null of a prompt that was cancelled
   */
  async read(prompt, signal) {
    if (signal?.aborted) return null;
    const { rows, extends: more } = this.#facts;
    let logits = rows ? await this.#prefill(prompt.slice(0, rows)) : null;
    while (this.length < prompt.length) {
      const several = more && prompt.length - this.length > rows / ROWS_PER_STEP;
      if (several || this.length % STEPS_TOGETHER === 0) await this.#paced();
      await tick(); // a message that cancels has its turn here
      if (signal?.aborted) return null;
      logits = await (several ? this.#extend(prompt) : this.#add(prompt[this.length]));
    }
    return /** @type {() => Promise<Float32Array>} */ (logits)();
  }

  /** Waits until the GPU has ended what was queued before the last few runs. */
  async #paced() {
    const ended = this.#engine.caughtUp?.();
    ended?.catch(() => {}); // the next run tells it too
    this.#queued.push(ended);
    if (this.#queued.length >= MOST_QUEUED) await this.#queued.shift();
  }

  /**
   * @param {readonly number[]} ids at most `rows`; what stands behind them is masked until it is overwritten
   * @returns {Promise<() => Promise<Float32Array>>} of the last one's logits
   */
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
    return async () => this.#row(await this.#engine.output(logits, PREFILL), last ? 0 : ids.length - 1);
  }

  /**
   * The next tokens of a prompt at once. Near the cache's end some are read again, because all rows have to fit.
   * @param {readonly number[]} prompt
   * @returns {Promise<() => Promise<Float32Array>>} of the last one's logits
   */
  async #extend(prompt) {
    const { capacity, rows, ids: name, mask, positions, slot, last, logits } = this.#facts;
    const feeds = (this.#behind ??= new Feeds(this.#engine.plans[EXTEND]));
    const start = Math.min(this.length, capacity - rows);
    const count = Math.min(prompt.length - start, rows);
    for (let i = 0; i < start; i++) feeds.set(mask, i, 1);
    for (let i = 0; i < rows; i++) {
      feeds.set(name, i, i < count ? prompt[start + i] : 0);
      feeds.set(mask, capacity - rows + i, i < count ? 1 : 0);
      if (positions) feeds.set(positions, i, start + i);
    }
    feeds.set(slot, 0, start);
    if (last) feeds.set(last, 0, count - 1);
    await this.#engine.stepper(feeds.tensors, EXTEND)();
    for (let i = this.length; i < start + count; i++) this.#decode.set(mask, i, 1);
    this.length = start + count;
    return async () => this.#row(await this.#engine.output(logits, EXTEND), last ? 0 : count - 1);
  }

  /** Of the decode plan, where the engine has it: it takes what {@link place} writes. */
  async follower() {
    return (await this.#engine.follower?.(this.#decode.tensors, this.#facts)) ?? null;
  }

  /**
   * The inputs of the next run of the decode plan.
   * @param {number} id
   */
  place(id) {
    const { ids, mask, positions, slot } = this.#facts;
    const feeds = this.#decode;
    const position = this.length++;
    feeds.set(ids, 0, id);
    feeds.set(mask, position, 1);
    feeds.set(slot, 0, position);
    if (positions) feeds.set(positions, 0, position);
  }

  /**
   * One run of the decode plan.
   * @param {number} id
   */
  async add(id) {
    return (await this.#add(id))();
  }

  /** @param {number} id @returns {Promise<() => Promise<Float32Array>>} what reads the run's logits */
  async #add(id) {
    this.place(id);
    await this.#step();
    return async () => {
      if (!this.#logits.length || this.#engine.copies) this.#logits = this.#row(await this.#engine.output(this.#facts.logits), 0);
      return this.#logits;
    };
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
