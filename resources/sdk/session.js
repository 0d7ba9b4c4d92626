/** A session of ONNX Runtime Web, as far as it goes, on a bundle. */
import { EngineError, script } from "../engine/errors.js";
import { canShare, MAX_THREADS } from "../engine/features.js";
import { ARRAYS, onGpu } from "../engine/plan.js";
import { fetchBundle } from "./bundle_fetch.js";
import { openFirst, PROVIDERS } from "./providers.js";
import { disposals, DTYPES, env, MANIFEST_VERSION, NAMES, Tensor } from "./tensor.js";

export { EngineError, env, MANIFEST_VERSION, Tensor };

/** @import { Options, Reason, Token } from "../engine/generation/generate.js" */
/** @import { Bundle, Generation, Plan, Tensor as Bytes, TensorSpec } from "../types/engine.js" */
/** @import { MixedEngine } from "../engine/gpu/mixed/engine.js" */
/** @import { Choice, Opened } from "./providers.js" */
/** @import { TuneOptions } from "./tuning/moments.js" */
/** @import { Tuning, TuningReport } from "./tuning/tuning.js" */
/** @typedef {{executionProviders?: (string | {name: string})[], numThreads?: number}} SessionOptions */

/** What `numThreads: 0` takes at most: more rarely pays on the cores of a visitor's machine. */
const AUTO_THREADS = 4;

export class InferenceSession {
  #bundle;
  /** @type {Opened} */ #opened;
  /** @type {string[]} */ #providers;
  #threads;
  #generating = false;
  /** @type {Promise<Choice> | null} */ #next = null;
  #tunes = false;
  /** @type {Tuning | null} */ #tuning = null;

  /**
   * @param {Bundle} bundle
   * @param {Choice} choice what opened, and what may still
   * @param {number} threads of Wasm
   */
  constructor(bundle, choice, threads) {
    const { inputs, outputs } = choice.opened.sizes ?? specs(/** @type {Plan} */ (bundle.plan));
    this.#bundle = bundle;
    this.#threads = threads;
    this.#opened = choice.opened;
    this.#providers = choice.left;
    /** What runs the model: `webgpu` or `wasm`. */
    this.executionProvider = choice.provider;
    /** Why a provider that was asked for first does not; empty where it does. */
    this.fallbackReason = choice.reason;
    /** The hashes of all files were checked: no session opens without. */
    this.verified = true;
    this.manifest = bundle.manifest;
    this.inputNames = inputs.map((p) => p.name);
    this.outputNames = outputs.map((p) => p.name);
    this.inputMetadata = inputs.map(metadata);
    this.outputMetadata = outputs.map(metadata);
  }

  /** Best instruction tier in use. */
  get tier() {
    return this.#opened.tier;
  }

  get memoryBytes() {
    return this.#opened.sizes?.memoryBytes || this.#opened.memory_bytes;
  }

  /** Of a bundle for any size: its `dims` with their ranges, and `memoryAt({name: size})`; else null. */
  get sizes() {
    return this.#opened.sizes ?? null;
  }

  /** How many run a kernel; 1 on a GPU and in a page that is not cross-origin isolated. */
  get threads() {
    return this.#opened.threads;
  }

  /**
   * Fetches a bundle; the weights stream straight into the engine's memory. The first of the
   * execution providers that works here runs it; `fallbackReason` says why one before did not.
   * @param {string | URL} source address of the bundle's manifest.json
   * @param {SessionOptions} [options]
   */
  static async create(source, options = {}) {
    const { threads, providers } = checkOptions(options);
    const bundle = await fetchBundle(new URL(source, globalThis.location?.href ?? new URL("..", import.meta.url)));
    return new InferenceSession(bundle, await openFirst(providers, bundle, threads), threads);
  }

  /**
   * Where the GPU is lost, the next provider runs the model.
   * @template T
   * @param {(engine: Opened["engine"]) => T | Promise<T>} call
   */
  async #steady(call) {
    const opened = this.#opened;
    this.#tuning?.standAside();
    opened.ahead?.behindRun();
    try {
      return await call(opened.engine);
    } catch (e) {
      await this.#replace(opened, e);
      return await call(this.#opened.engine);
    }
  }

  /**
   * Once for all calls that failed on `opened`.
   * @param {Opened} opened
   * @param {any} e
   */
  async #replace(opened, e) {
    const done = opened !== this.#opened;
    if (!/^gpu-(lost|memory)$/.test(e.code) || !(done || this.#providers.length)) throw e;
    if (done) return;
    this.#next ??= (opened.close(), openFirst(this.#providers, this.#bundle, this.#threads));
    const choice = await this.#next.finally(() => (this.#next = null));
    this.#opened = choice.opened;
    this.#providers = choice.left;
    this.executionProvider = choice.provider;
    this.fallbackReason = e.error;
  }

  /**
   * @param {Record<string, Tensor>} feeds
   * @param {readonly string[] | Record<string, unknown>} [fetches] names of the outputs wanted; all when absent
   * @returns {Promise<Record<string, Tensor>>}
   */
  async run(feeds, fetches) {
    const inputs = Object.entries(feeds).map(toBytes);
    const start = performance.now();
    const { outputs } = await this.#steady((engine) => engine.infer(inputs));
    this.#tuning?.took(inputs, performance.now() - start);
    const { engine } = this.#opened;
    const recycle = "recycle" in engine ? engine.recycle.bind(engine) : undefined;
    const all = Object.fromEntries(outputs.map((o) => [o.name, fromBytes(o, recycle)]));
    const wanted = Array.isArray(fetches) ? fetches : Object.keys(fetches ?? {}).filter((name) => name in all);
    if (!wanted.length) return all;
    const unknown = wanted.find((name) => !(name in all));
    if (unknown !== undefined)
      throw new EngineError(`The model has no output "${unknown}".`, `Its outputs are ${this.outputNames.join(", ")}.`);
    return Object.fromEntries(wanted.map((name) => [name, all[name]]));
  }

  /**
   * Of a bundle for any size: runs once, on zeros, all kernels that inputs of about these sizes may
   * need, so that the first input of a new size is as fast as the next. Without it a session on Wasm
   * does so at the smallest sizes after its first answer, while the page is idle. What a size takes of memory stays taken.
   * @param {Record<string, number>} [sizes] by the dimensions' names; best the largest that will come
   * @returns {Promise<number>} runs that it took
   */
  async warmUp(sizes = {}) {
    const given = this.#opened.sizes;
    if (!given) throw new EngineError("This bundle takes one size.", "Run it once instead.");
    this.#opened.ahead?.stop();
    let runs = 0;
    for (const inputs of given.warmInputs(sizes)) {
      if (!inputs) continue;
      await this.#steady((engine) => engine.infer(inputs));
      await new Promise((resolve) => setTimeout(resolve)); // the page lives meanwhile
      runs++;
    }
    return runs;
  }

  /**
   * Goes on with a text, for a bundle of a decoder with a cache. The tokens come as they are
   * made; leaving the loop early ends the text.
   *
   *     for await (const { id, ms } of session.generate([464, 3280], { maxTokens: 40, signal })) show(id);
   *
   * @param {readonly (number | bigint)[] | BigInt64Array | Int32Array} ids of the prompt
   * @param {Options} [options]
   * @returns {AsyncGenerator<Token, Reason>}
   */
  generate(ids, options = {}) {
    const facts = this.manifest.generation?.facts;
    if (!facts) throw new EngineError("This bundle makes no text.", "Export a decoder with past keys and values.");
    return this.#text(facts, Array.from(ids, Number), options);
  }

  /**
   * @param {Generation} facts
   * @param {number[]} ids
   * @param {Options} options
   * @returns {AsyncGenerator<Token, Reason>}
   */
  async *#text(facts, ids, options) {
    if (this.#generating) throw new EngineError("A text is being made already; there is one cache.", "Let it end first.");
    this.#generating = true;
    const opened = this.#opened;
    try {
      const { generate } = await script(import("../engine/generation/generate.js")); // only bundles that make text hold it
      return yield* generate(/** @type {Exclude<Opened["engine"], MixedEngine>} */ (opened.engine), facts, ids, options);
    } catch (e) {
      await this.#replace(opened, e);
      throw e;
    } finally {
      this.#generating = false;
    }
  }

  /**
   * Milliseconds of each run, and the median and the threads of each step of the plan.
   * @param {Record<string, Tensor>} feeds
   * @param {number} runs
   */
  async profile(feeds, runs = 10) {
    const inputs = Object.entries(feeds).map(toBytes);
    const { runs_ms, steps_ms, steps_threads } = await this.#steady((engine) => engine.infer(inputs, { runs, profile: true }));
    const plan = this.#bundle.plan;
    const steps = (this.executionProvider === "webgpu" ? onGpu(/** @type {Plan} */ (plan)) : plan).steps.filter(({ op }) => op === "call");
    return { runs_ms, steps: steps.map(({ node, workload }, i) => ({ node, workload, ms: steps_ms[i], threads: steps_threads[i] })) };
  }

  /**
   * Goes on with tuning in this page while it is idle, with the candidates of the bundle
   * (`nnjit export --candidates`). Nothing is tuned unless a page asks for it.
   * @param {TuneOptions} [options]
   * @returns {Promise<TuningReport>} when this visit's budget is used or nothing is left to try
   */
  async tune(options = {}) {
    const { engine } = this.#opened;
    if (!this.manifest.candidates || !("inside" in engine))
      throw new EngineError("This session has no kernels to try.", "Export the bundle with --candidates, and run it on wasm.");
    if (this.#tunes) throw new EngineError("This session is tuned already.", "Ask tuningReport() how far it is.");
    this.#tunes = true;
    const { Tuning } = await script(import("./tuning/tuning.js")); // only bundles with candidates hold it
    const { tier, threads } = this;
    try {
      this.#tuning = await Tuning.start({ bundle: this.#bundle, engine, tier, threads }, options);
    } catch (e) {
      this.#tunes = false; // the options were refused
      throw e;
    }
    return this.#tuning.done;
  }

  /** How far tuning is and what it gained: a plain object; null where it was not asked for. @returns {TuningReport | null} */
  tuningReport() {
    return this.#tuning?.report() ?? null;
  }

  /** Frees memory and kernels, and ends the threads. */
  async release() {
    this.#tuning?.stop();
    this.#opened.close();
  }
}

/**
 * @param {SessionOptions} options
 * @returns {{threads: number, providers: string[]}} threads to run on, and what to try in order
 */
function checkOptions({ executionProviders = ["wasm"], numThreads = env.wasm.numThreads }) {
  const names = executionProviders.map((p) => (typeof p === "string" ? p : p.name));
  const providers = names.filter((name) => name in PROVIDERS);
  if (!providers.length)
    throw new EngineError(`No execution provider of ${names.join(", ")} is in this engine.`, 'Use executionProviders: ["webgpu", "wasm"].');
  if (!(Number.isInteger(numThreads) && numThreads >= 0 && numThreads <= MAX_THREADS))
    throw new EngineError(`numThreads is ${numThreads}.`, `Use 0 to ${MAX_THREADS}; 0 chooses by the machine.`);
  if (canShare()) return { threads: numThreads || Math.min(AUTO_THREADS, navigator.hardwareConcurrency), providers };
  if (numThreads > 1)
    console.warn(`nnjit: ${numThreads} threads were asked for; this page is not cross-origin isolated, so one runs.`);
  return { threads: 1, providers };
}

/** @param {Plan} plan */
const specs = ({ inputs, outputs }) => ({ inputs: inputs.map((p) => p.spec), outputs: outputs.map((p) => p.spec) });

/** @param {TensorSpec} spec */
const metadata = ({ name, dtype, shape }) => ({ name, isTensor: true, type: NAMES[dtype], shape });

/** @param {[string, Tensor]} feed */
function toBytes([name, tensor]) {
  if (!(tensor instanceof Tensor)) throw new EngineError(`The input "${name}" is not a Tensor of nnjit.js.`);
  const { buffer, byteOffset, byteLength } = tensor.data;
  const data = new Uint8Array(buffer, byteOffset, byteLength);
  return { name, dtype: DTYPES[tensor.type], shape: [...tensor.dims], data };
}

/**
 * @param {Bytes} output
 * @param {((bytes: Uint8Array) => void) | undefined} recycle takes the bytes when the tensor is disposed of
 */
function fromBytes({ dtype, shape, data }, recycle) {
  const tensor = new Tensor(NAMES[dtype], new ARRAYS[dtype](data.buffer), shape);
  if (recycle) disposals.set(tensor, () => recycle(data));
  return tensor;
}
