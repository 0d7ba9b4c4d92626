/**
 * A tuned model in a web page, with the API of ONNX Runtime Web as far as it goes:
 *
 *     import { InferenceSession, Tensor } from "./nnjit.js";
 *     const session = await InferenceSession.create("bundle/manifest.json");
 *     const out = await session.run({ input: new Tensor("float32", data, [1, 128]) });
 */
import { Engine, PREFILL } from "./engine.js";
import { EngineError } from "./errors.js";
import { bestTier, hasTier, TIERS } from "./features.js";
import { ENGINE_VERSION } from "./plan.js";
import { canShare, MAX_THREADS, Team } from "./team.js";

export { EngineError };
export const MANIFEST_VERSION = 1;

/** @typedef {{file: string, sha256: string, nbytes: number}} FileEntry */
/** @typedef {import("./kernel.js").KernelHeader & {tiers: Partial<Record<string, FileEntry>>}} KernelEntry */
/**
 * @typedef {object} Manifest
 * @property {string} format
 * @property {number} version
 * @property {string} name
 * @property {FileEntry} plan
 * @property {FileEntry} weights
 * @property {KernelEntry[]} kernels
 * @property {{facts: import("./generate.js").Generation, prefill: FileEntry | null}} [generation] of a decoder
 */
/** @typedef {Float32Array | Uint16Array | BigInt64Array | Int32Array | Int8Array | Uint8Array} TensorData */
/** @typedef {{executionProviders?: (string | {name: string})[], numThreads?: number}} SessionOptions */

/** @type {Record<string, {dtype: string, Array: any}>} by ONNX Runtime's name */
const TYPES = {
  float32: { dtype: "f32", Array: Float32Array },
  float16: { dtype: "f16", Array: Uint16Array },
  int64: { dtype: "i64", Array: BigInt64Array },
  int32: { dtype: "i32", Array: Int32Array },
  int8: { dtype: "i8", Array: Int8Array },
  uint8: { dtype: "u8", Array: Uint8Array },
  bool: { dtype: "bool", Array: Uint8Array },
};
const NAMES = Object.fromEntries(Object.entries(TYPES).map(([name, { dtype }]) => [dtype, name]));

/** What `numThreads: 0` takes at most: more rarely pays on the cores of a visitor's machine. */
const AUTO_THREADS = 4;

/** Settings under the names of ONNX Runtime Web; `numThreads: 0` chooses by the machine. */
export const env = { versions: { nnjit: ENGINE_VERSION }, wasm: { numThreads: 1 } };

export class Tensor {
  /**
   * `new Tensor(type, data, dims)`, or `new Tensor(data, dims)` with a typed array.
   * @param {any} typeOrData
   * @param {any} dataOrDims
   * @param {readonly number[]} [dims]
   */
  constructor(typeOrData, dataOrDims, dims) {
    const named = typeof typeOrData === "string";
    const type = named ? typeOrData : typeOf(typeOrData);
    const values = named ? dataOrDims : typeOrData;
    if (!(type in TYPES)) throw new EngineError(`The tensor type "${type}" is not supported.`, `Use one of ${Object.keys(TYPES).join(", ")}.`);
    const { Array: Typed } = TYPES[type];
    if (ArrayBuffer.isView(values) && !(values instanceof Typed))
      throw new EngineError(`A ${type} tensor takes a ${Typed.name}, not a ${values.constructor.name}.`);
    /** @type {string} */
    this.type = type;
    /** @type {any} */
    this.data = values instanceof Typed ? values : Typed.from(values, type === "int64" ? BigInt : Number);
    /** @type {readonly number[]} */
    this.dims = [...((named ? dims : dataOrDims) ?? [this.data.length])];
    if (this.dims.reduce((n, d) => n * d, 1) !== this.data.length)
      throw new EngineError(`A tensor of shape [${this.dims}] cannot hold ${this.data.length} values.`);
  }

  get size() {
    return this.data.length;
  }

  get location() {
    return "cpu";
  }

  async getData() {
    return this.data;
  }

  /** @param {readonly number[]} dims */
  reshape(dims) {
    return new Tensor(this.type, this.data, dims);
  }

  /**
   * Gives the data up, as in ONNX Runtime: nothing may read it any more. The memory of
   * a session's output is used again by a later run, which saves much of a short run's time.
   */
  dispose() {
    disposals.get(this)?.();
    disposals.delete(this);
    this.data = new this.data.constructor(0);
  }
}

/** What else happens when a tensor is disposed of. @type {WeakMap<Tensor, () => void>} */
const disposals = new WeakMap();

/** @param {unknown} data */
function typeOf(data) {
  // bool shares its array with uint8 and has to be named
  const found = Object.entries(TYPES).find(([, { Array }]) => data instanceof Array);
  return found ? found[0] : typeof data;
}

export class InferenceSession {
  #engine;
  #plan;
  #team;
  #generating = false;

  /**
   * @param {Engine} engine with kernels
   * @param {import("./plan.js").Plan} plan
   * @param {{tier: string, verified: boolean, memory_bytes: number, manifest: Manifest, team: Team | null}} facts
   */
  constructor(engine, plan, facts) {
    this.#engine = engine;
    this.#plan = plan;
    this.#team = facts.team;
    /** Best instruction tier in use. */
    this.tier = facts.tier;
    /** Whether the hashes of all files were checked; browsers allow it in secure contexts only. */
    this.verified = facts.verified;
    this.memoryBytes = facts.memory_bytes;
    this.manifest = facts.manifest;
    /** How many run a kernel; 1 in a page that is not cross-origin isolated. */
    this.threads = facts.team?.threads ?? 1;
  }

  /**
   * Fetches a bundle; the weights stream straight into the engine's memory.
   * @param {string | URL} source address of the bundle's manifest.json
   * @param {SessionOptions} [options]
   */
  static async create(source, options = {}) {
    const threads = checkOptions(options);
    const tier = bestTier();
    if (!tier) throw new EngineError("This browser has no Wasm SIMD.", "Use Chrome 91, Firefox 89, Safari 16.4 or later.");
    const base = new URL(source, globalThis.location?.href ?? import.meta.url);
    const manifest = readManifest(await download(base, "manifest.json"));
    /** @type {import("./plan.js").Plan} */
    const plan = parse(await fetchFile(base, manifest.plan), manifest.plan.file);
    const { prefill } = manifest.generation ?? {};
    /** @type {Record<string, import("./plan.js").Plan>} */
    const others = prefill ? { [PREFILL]: parse(await fetchFile(base, prefill), prefill.file) } : {};
    if (manifest.weights.nbytes !== plan.weights_bytes)
      throw new EngineError(
        `The bundle's plan wants ${plan.weights_bytes} bytes of weights, its manifest lists ${manifest.weights.nbytes}.`,
        "Export the bundle again.",
      );
    const team = threads > 1 ? await Team.start(threads) : null;
    try {
      const engine = new Engine(team);
      const memory_bytes = engine.load(plan, others);
      const [kernels] = await Promise.all([
        Promise.all(manifest.kernels.map((k) => fetchKernel(base, k))),
        streamWeights(base, manifest.weights, engine),
      ]);
      await engine.register(kernels);
      return new InferenceSession(engine, plan, { tier, verified: canHash(), memory_bytes, manifest, team });
    } catch (e) {
      team?.close();
      throw e;
    }
  }

  get inputNames() {
    return this.#plan.inputs.map((p) => p.spec.name);
  }

  get outputNames() {
    return this.#plan.outputs.map((p) => p.spec.name);
  }

  get inputMetadata() {
    return this.#plan.inputs.map((p) => metadata(p.spec));
  }

  get outputMetadata() {
    return this.#plan.outputs.map((p) => metadata(p.spec));
  }

  /**
   * @param {Record<string, Tensor>} feeds
   * @param {readonly string[] | Record<string, unknown>} [fetches] names of the outputs wanted; all when absent
   * @returns {Promise<Record<string, Tensor>>}
   */
  async run(feeds, fetches) {
    const { outputs } = this.#engine.infer(Object.entries(feeds).map(toBytes));
    const all = Object.fromEntries(outputs.map((o) => [o.name, this.#output(o)]));
    const wanted = Array.isArray(fetches) ? fetches : Object.keys(fetches ?? {}).filter((name) => name in all);
    if (!wanted.length) return all;
    const unknown = wanted.find((name) => !(name in all));
    if (unknown !== undefined)
      throw new EngineError(`The model has no output "${unknown}".`, `Its outputs are ${this.outputNames.join(", ")}.`);
    return Object.fromEntries(wanted.map((name) => [name, all[name]]));
  }

  /**
   * Goes on with a text, for a bundle of a decoder with a cache. The tokens come as they are
   * made; leaving the loop early ends the text.
   *
   *     for await (const { id, ms } of session.generate([464, 3280], { maxTokens: 40, signal })) show(id);
   *
   * @param {readonly (number | bigint)[] | BigInt64Array | Int32Array} ids of the prompt
   * @param {import("./generate.js").Options} [options]
   * @returns {AsyncGenerator<import("./generate.js").Token, import("./generate.js").Reason>}
   */
  generate(ids, options = {}) {
    const facts = this.manifest.generation?.facts;
    if (!facts) throw new EngineError("This bundle makes no text.", "Export a decoder with past keys and values.");
    return this.#text(facts, Array.from(ids, Number), options);
  }

  /**
   * @param {import("./generate.js").Generation} facts
   * @param {number[]} ids
   * @param {import("./generate.js").Options} options
   * @returns {AsyncGenerator<import("./generate.js").Token, import("./generate.js").Reason>}
   */
  async *#text(facts, ids, options) {
    if (this.#generating) throw new EngineError("A text is being made already; there is one cache.", "Let it end first.");
    this.#generating = true;
    try {
      const { generate } = await import("./generate.js"); // only bundles that make text hold it
      return yield* generate(this.#engine, facts, ids, options);
    } finally {
      this.#generating = false;
    }
  }

  /** @param {import("./engine.js").Tensor} output */
  #output(output) {
    const tensor = fromBytes(output);
    const engine = this.#engine;
    disposals.set(tensor, () => engine.recycle(output.data));
    return tensor;
  }

  /**
   * Milliseconds of each run, and the median and the threads of each step of the plan.
   * @param {Record<string, Tensor>} feeds
   * @param {number} runs
   */
  async profile(feeds, runs = 10) {
    const { runs_ms, steps_ms, steps_threads } = this.#engine.infer(Object.entries(feeds).map(toBytes), { runs, profile: true });
    const steps = this.#plan.steps.filter(({ op }) => op === "call");
    return { runs_ms, steps: steps.map(({ node, workload }, i) => ({ node, workload, ms: steps_ms[i], threads: steps_threads[i] })) };
  }

  /** Frees memory and kernels, and ends the threads. */
  async release() {
    this.#team?.close();
    this.#engine.dispose();
  }
}

/**
 * @param {SessionOptions} options
 * @returns {number} threads to run on
 */
function checkOptions({ executionProviders = ["wasm"], numThreads = env.wasm.numThreads }) {
  const names = executionProviders.map((p) => (typeof p === "string" ? p : p.name));
  if (!names.includes("wasm"))
    throw new EngineError(`No execution provider of ${names.join(", ")} is in this engine.`, 'Use executionProviders: ["wasm"].');
  if (!(Number.isInteger(numThreads) && numThreads >= 0 && numThreads <= MAX_THREADS))
    throw new EngineError(`numThreads is ${numThreads}.`, `Use 0 to ${MAX_THREADS}; 0 chooses by the machine.`);
  if (canShare()) return numThreads || Math.min(AUTO_THREADS, navigator.hardwareConcurrency);
  if (numThreads > 1)
    console.warn(`nnjit: ${numThreads} threads were asked for; this page is not cross-origin isolated, so one runs.`);
  return 1;
}

/**
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @returns {Manifest}
 */
function readManifest(bytes) {
  const manifest = parse(bytes, "manifest.json");
  if (manifest?.format !== "nnjit-bundle") throw new EngineError("The manifest is not that of an NNJIT bundle.");
  if (manifest.version !== MANIFEST_VERSION)
    throw new EngineError(`The bundle has version ${manifest.version}, this engine reads ${MANIFEST_VERSION}.`, "Use the engine inside the bundle.");
  return manifest;
}

/**
 * @param {Uint8Array} bytes
 * @param {string} file
 */
function parse(bytes, file) {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    throw new EngineError(`${file} of the bundle is not JSON.`, "Export the bundle again.");
  }
}

/**
 * @param {URL} url
 * @param {string} file for messages
 * @returns {Promise<Response>}
 */
async function request(url, file) {
  let response;
  try {
    response = await fetch(url);
  } catch (e) {
    throw new EngineError(`${file} of the bundle cannot be fetched: ${/** @type {Error} */ (e).message}.`, "Check the address and the server.");
  }
  if (!response.ok)
    throw new EngineError(`${file} of the bundle cannot be fetched: the server answers ${response.status}.`, "Upload the whole bundle.");
  return response;
}

/**
 * @param {URL} url
 * @param {string} file
 */
async function download(url, file) {
  return new Uint8Array(await (await request(url, file)).arrayBuffer());
}

/**
 * @param {URL} base
 * @param {FileEntry} entry
 */
async function fetchFile(base, entry) {
  const bytes = await download(new URL(entry.file, base), entry.file);
  await check(entry, bytes);
  return bytes;
}

/**
 * @param {URL} base
 * @param {KernelEntry} entry
 */
async function fetchKernel(base, { tiers, ...header }) {
  const file = TIERS.filter((tier) => hasTier(tier)).map((tier) => tiers[tier]).find(Boolean);
  if (!file) throw new EngineError(`The bundle has no kernel of ${header.workload} that this browser can run.`, "Export it with the simd128 tier.");
  return { ...header, bytes: await fetchFile(base, file) };
}

/**
 * @param {URL} base
 * @param {FileEntry} entry
 * @param {Engine} engine
 */
async function streamWeights(base, entry, engine) {
  if (entry.nbytes === 0) return;
  const { body } = await request(new URL(entry.file, base), entry.file);
  if (!body) throw new EngineError(`${entry.file} of the bundle is empty.`, "Export the bundle again.");
  const reader = body.getReader();
  let at = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (at + value.length > entry.nbytes) throw wrongSize(entry, at + value.length);
    engine.setWeights(at, value);
    at += value.length;
  }
  if (at !== entry.nbytes) throw wrongSize(entry, at);
  await check(entry, engine.weights(entry.nbytes));
}

const canHash = () => typeof globalThis.crypto?.subtle?.digest === "function";

/**
 * @param {FileEntry} entry
 * @param {Uint8Array<ArrayBuffer>} bytes
 */
async function check(entry, bytes) {
  if (bytes.length !== entry.nbytes) throw wrongSize(entry, bytes.length);
  if (!canHash()) return;
  // the browser hashes no shared memory: a copy, until the hash is made
  const own = bytes.buffer instanceof ArrayBuffer ? bytes : bytes.slice();
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", own));
  const hex = Array.from(digest, (b) => b.toString(16).padStart(2, "0")).join("");
  if (hex !== entry.sha256)
    throw new EngineError(`${entry.file} of the bundle is not the file of its manifest: its sha256 differs.`, "Upload the whole bundle again.");
}

/**
 * @param {FileEntry} entry
 * @param {number} nbytes
 */
const wrongSize = (entry, nbytes) =>
  new EngineError(`${entry.file} of the bundle has ${nbytes} bytes, its manifest says ${entry.nbytes}.`, "Upload the whole bundle again.");

/** @param {import("./plan.js").TensorSpec} spec */
const metadata = ({ name, dtype, shape }) => ({ name, isTensor: true, type: NAMES[dtype], shape });

/** @param {[string, Tensor]} feed */
function toBytes([name, tensor]) {
  if (!(tensor instanceof Tensor)) throw new EngineError(`The input "${name}" is not a Tensor of nnjit.js.`);
  const { buffer, byteOffset, byteLength } = tensor.data;
  const data = new Uint8Array(buffer, byteOffset, byteLength);
  return { name, dtype: TYPES[tensor.type].dtype, shape: [...tensor.dims], data };
}

/** @param {import("./engine.js").Tensor} tensor */
function fromBytes({ dtype, shape, data }) {
  const { Array: Typed } = TYPES[NAMES[dtype]];
  return new Tensor(NAMES[dtype], new Typed(data.buffer), shape);
}
