/** The page of `nnjit live`: a session of ONNX Runtime Web, and what the Studio asks of it. */
import { Donors } from "./donors.js";
import { Inferences } from "./inferences.js";
import { install } from "./install.js";
import { ORIGINAL } from "./layout.js";
import { record } from "./recorder.js";

/** @import { Live } from "./install.js" */
/**
 * @typedef {object} Job
 * @property {string} library module of the runtime's API
 * @property {string} glue its glue, whose name says which build is meant
 * @property {string} wasm the rewritten module
 * @property {string} dispatch
 * @property {string} originals a module of the functions that may be kernels
 * @property {string[]} functions their names there, in the order of the table
 * @property {string} reference a bit-exact donor
 * @property {string} fused its twin in relaxed multiply-adds
 * @property {string} onnx
 * @property {number} threads
 * @property {{name: string, type: string, dims: number[], file: string}[]} inputs
 */

const root = new URL("../", import.meta.url);
const at = (/** @type {string} */ path) => new URL(path, root).href;
const bytesOf = async (/** @type {string} */ path) => new Uint8Array(await (await fetch(at(path))).arrayBuffer());
const breathe = () => new Promise((resolve) => setTimeout(resolve));
/** @type {Record<string, any>} */
const ARRAYS = { float32: Float32Array, float64: Float64Array, int64: BigInt64Array, int32: Int32Array, bool: Uint8Array, uint8: Uint8Array, int8: Int8Array };

/** @param {Job} job @param {Live} live */
async function open(job, live) {
  const ort = await import(at(job.library));
  Object.assign(ort.env.wasm, { numThreads: job.threads, wasmPaths: { mjs: at(job.glue), wasm: at(job.wasm) } });
  const session = await ort.InferenceSession.create(await bytesOf(job.onnx), { executionProviders: ["wasm"] });
  /** @type {Record<string, any>} */
  const feeds = {};
  for (const { name, type, dims, file } of job.inputs) feeds[name] = new ort.Tensor(type, new ARRAYS[type]((await bytesOf(file)).buffer), dims);
  return { inferences: new Inferences(live, session, feeds), threads: ort.env.wasm.numThreads, version: ort.env.versions.web };
}

/** What the Studio asks for; every answer is a JSON object. */
class Page {
  /** Ms of work since the last inference, and what that one took. */
  #worked = 0;
  #inferenceMs = 0;

  /** @param {Job} job @param {Live} live @param {Inferences} inferences @param {Donors} donors */
  constructor(job, live, inferences, donors) {
    this.job = job;
    this.live = live;
    this.inferences = inferences;
    this.donors = donors;
  }

  /** @param {{runs: number}} asked */
  async serve({ runs }) {
    const ms = [];
    for (let i = 0; i < runs; i++) ms.push(await this.inferences.run(this.live.chosen));
    return { ms };
  }

  /** Work off the model's way takes at most as long as the inferences between. @param {number} since */
  async #share(since) {
    this.#worked += performance.now() - since;
    if (this.#worked < this.#inferenceMs) return;
    this.#inferenceMs = await this.inferences.run(this.live.chosen);
    this.#worked = 0;
  }

  async record() {
    return await record(this.live.control, () => this.inferences.run(this.live.chosen));
  }

  /** @param {{name: string, file: string, exact: boolean}} asked */
  async add({ name, file, exact }) {
    const bytes = await bytesOf(file);
    const start = performance.now();
    const proof = await this.donors.add(name, bytes);
    const right = !proof.error && (exact ? proof.identical === proof.cases : proof.worst <= 1);
    if (!right) return { slot: 0, proof };
    const slot = this.live.publish(bytes);
    this.inferences.expect(slot, exact);
    await this.#share(start);
    return { slot, proof };
  }

  /** @param {{names: string[], blocks: import("./recorder.js").Block[], sample_ms: number}} asked */
  async rate({ names, blocks, sample_ms }) {
    /** @type {Record<string, number>} */
    const ms = {};
    for (const name of names) {
      const start = performance.now();
      ms[name] = this.donors.rate(name, blocks, sample_ms);
      await breathe();
      await this.#share(start);
    }
    return { ms };
  }

  /** One sample. @param {number} slot @param {number} batch */
  async #sample(slot, batch) {
    let ms = 0;
    for (let i = 0; i < batch; i++) ms += await this.inferences.run(slot);
    return ms / batch;
  }

  /** In turns, each first as often as the other. @param {{slots: number[], rounds: number, sample_ms: number, settle: number}} asked */
  async race({ slots, rounds, sample_ms, settle }) {
    /** @type {number[][]} */
    const samples = slots.map(() => []);
    const before = this.live.chosen;
    let batch = 1;
    for (const slot of slots) for (let i = 0; i < settle; i++) batch = Math.max(batch, Math.ceil(sample_ms / Math.max(await this.#sample(slot, 1), 1e-3)));
    for (let round = 0; round < rounds; round++) {
      const order = slots.map((_, i) => (slots.length === 2 ? i ^ (round & 1) : (i + round) % slots.length));
      for (const i of order) samples[i].push(await this.#sample(slots[i], batch));
    }
    this.live.choose(before);
    return { samples };
  }

  /** @param {{slot: number}} asked */
  async choose({ slot }) {
    this.live.choose(slot);
    return {};
  }

  /** A swap before each inference. @param {{slots: number[], swaps: number}} asked */
  async soak({ slots, swaps }) {
    const before = this.live.chosen;
    const start = performance.now();
    for (let i = 0; i < swaps; i++) await this.inferences.run(slots[i % slots.length]);
    this.live.choose(before);
    return { seconds: (performance.now() - start) / 1000 };
  }
}

const post = (/** @type {any} */ message) => fetch(at("report"), { method: "POST", body: JSON.stringify(message) });

async function work() {
  if (!crossOriginIsolated) throw new Error("The page is not cross-origin isolated.");
  /** @type {Job} */
  const job = await (await fetch(at("files/job.json"))).json();
  const donors = new Donors(await bytesOf(job.originals), job.functions, await bytesOf(job.reference));
  if (donors.kinds.every((kind) => !kind)) throw new Error("No function does what a known kernel does.");
  const live = await install(await bytesOf(job.dispatch), donors.kinds);
  const { inferences, threads, version } = await open(job, live);
  if (live.runtimes.length === 0) throw new Error(`No instance of ${job.wasm} with a table was seen.`);
  const page = new Page(job, live, inferences, donors);
  const first_ms = await inferences.run(ORIGINAL);
  const fused = WebAssembly.validate(await bytesOf(job.fused));
  const opened = { threads, version, first_ms, fused, kinds: donors.kinds, user_agent: navigator.userAgent };
  await post({ type: "reply", ...opened });
  for (;;) {
    const asked = await (await fetch(at("command"))).json();
    if (asked.do === "end") return;
    const answer = await /** @type {any} */ (page)[asked.do](asked);
    await post({ type: "reply", ...answer, checked: inferences.checked });
  }
}

try {
  await work();
} catch (e) {
  console.error(e);
  await post({ type: "error", error: `The page failed: ${/** @type {any} */ (e)?.message ?? e}`, hint: "The browser's console tells where." });
}
