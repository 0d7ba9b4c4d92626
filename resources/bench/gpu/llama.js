/**
 * The page of `nnjit bench llama`: a decoder whose tokens stay on the GPU. One list of
 * dispatches is one token; position and next token lie in GPU buffers, so lists are queued
 * without waiting for an answer.
 */
import { whole } from "../../engine/gpu/commands.js";
import { file, median, report } from "../page.js";
import { createBuffers, makeWeights, streamWeights } from "./llama_weights.js";
import { begin, conductGpu } from "./page.js";
import { fastest, repeatsFor, timed } from "./variants.js";

/** @import { Command, GpuBuf, GpuDevice } from "../../types/gpu.js" */
/** @import { Plan } from "./llama_weights.js" */
/** @import { Made, Tried } from "./variants.js" */
/**
 * @typedef {object} Job
 * @property {"gpu" | "file"} weights
 * @property {number[]} prompt
 * @property {number} tokens made behind the prompt
 * @property {number} rounds
 * @property {number} warm_ms the GPU is kept busy before each sample
 */

/** A timestamp pair for each token: the layer keeps 4096. */
const MOST_STAMPED = 1024;

class Decoder {
  /** @type {Map<string, Made>} */ made = new Map();
  /** @type {Command[]} the next token */ token = [];
  /** @type {Command[]} some tokens of the prompt at once */ prefill = [];

  /** @param {GpuDevice} gpu @param {Plan} plan */
  constructor(gpu, plan) {
    this.gpu = gpu;
    this.plan = plan;
    this.buffers = createBuffers(gpu, plan);
  }

  /** @param {string} name */
  buffer(name) {
    return /** @type {GpuBuf} */ (this.buffers.get(name));
  }

  /**
   * Dispatches of a kernel, one for each of its steps.
   * @param {string} kernel
   * @param {Made} made
   * @returns {Command[]}
   */
  #dispatches(kernel, made) {
    return [...this.plan.steps, ...this.plan.prefill].filter((s) => s.kernel === kernel).map((s) => this.#dispatch(s.names, made));
  }

  /** @param {Record<string, string>} names @param {Made} made @returns {Command} */
  #dispatch(names, { variant, pipeline }) {
    const bindings = variant.dispatch.bindings.map((name) => whole(this.buffer(names[name] ?? name)));
    return { op: "dispatch", pipeline, bindings, workgroups: variant.dispatch.workgroups };
  }

  /** Compiles every kernel; of several settings the fastest stays. */
  async compile() {
    /** @type {Record<string, Tried[]>} */
    const tried = {};
    for (const [name, variants] of Object.entries(this.plan.kernels)) {
      const found = await fastest(this.gpu, variants, (made) => this.#dispatches(name, made));
      this.made.set(name, found.best);
      tried[name] = found.tried;
    }
    const all = (/** @type {Plan["steps"]} */ steps) => steps.map((s) => this.#dispatch(s.names, /** @type {Made} */ (this.made.get(s.kernel))));
    this.token = all(this.plan.steps);
    this.prefill = all(this.plan.prefill);
    return tried;
  }

  /**
   * Reads a prompt up to its last token, several at once; by single tokens those that are left.
   * @param {number[]} prompt
   * @returns {Promise<number>} ms until the GPU has done it
   */
  async start(prompt) {
    const words = (/** @type {number[]} */ list) => new Uint8Array(new Uint32Array(list).buffer);
    this.gpu.write(this.buffer("state"), 0, words([0, prompt.length, 0, 0]));
    this.gpu.write(this.buffer("tokens"), 0, words(prompt));
    await this.gpu.done();
    const start = performance.now();
    const rows = this.plan.prefill_rows;
    let at = 0;
    for (; at + rows < prompt.length; at += rows) {
      this.gpu.encode(this.prefill);
      this.gpu.flush();
    }
    for (; at + 1 < prompt.length; at++) this.gpu.encode(this.token);
    await this.gpu.done();
    return performance.now() - start;
  }

  /** @param {number} count @returns {Promise<number[]>} the first tokens of the text */
  async tokens(count) {
    return [...new Uint32Array((await this.gpu.read(this.buffer("tokens"), 0, 4 * count)).buffer)];
  }

  /** @param {number} count @returns {Promise<number[]>} of the last token */
  async logits(count) {
    return [...new Float32Array((await this.gpu.read(this.buffer("logits"), 0, 4 * count)).buffer)];
  }

  /**
   * GPU time of each kernel: all its dispatches of a token, alone and repeated.
   * @param {number} rounds
   * @returns {Promise<Record<string, {us: number, uses: number, setting: string}>>}
   */
  async kernelTimes(rounds) {
    /** @type {Record<string, {us: number, uses: number, setting: string}>} */
    const found = {};
    for (const [name, made] of this.made) {
      // A pick goes one position on; with nothing else to do it stays in the context.
      const commands = this.#dispatches(name, made);
      const repeats = await repeatsFor(this.gpu, commands);
      const samples = [];
      for (let i = 0; i < rounds; i++) samples.push((await timed(this.gpu, commands, repeats)) / repeats);
      found[name] = { us: (median(samples) * 1e3) / commands.length, uses: commands.length, setting: made.variant.setting };
    }
    return found;
  }
}

/**
 * Tokens one after another, all queued before the first is waited for.
 * @param {Decoder} decoder
 * @param {number} count
 * @returns {Promise<{wall_ms: number, host_ms: number, gpu_ms: number | null}>} of one token
 */
async function queued(decoder, count) {
  const { gpu, token } = decoder;
  await gpu.done();
  const stamped = gpu.timestamps.available;
  const start = performance.now();
  if (stamped) gpu.encode([{ op: "stamp", index: 0 }]);
  for (let i = 0; i < count; i++) {
    gpu.encode(token);
    gpu.flush();
  }
  if (stamped) gpu.encode([{ op: "stamp", index: 1 }]);
  gpu.flush();
  const host_ms = (performance.now() - start) / count;
  await gpu.done();
  const wall_ms = (performance.now() - start) / count;
  if (!stamped) return { wall_ms, host_ms, gpu_ms: null };
  const [a, b] = await gpu.readStamps(2);
  return { wall_ms, host_ms, gpu_ms: Number(b - a) / 1e6 / count };
}

/**
 * GPU time of each token by itself: a pass with two stamps, nothing else in flight.
 * @param {Decoder} decoder
 * @param {number} count
 */
async function stampedTokens(decoder, count) {
  const { gpu, token } = decoder;
  if (!gpu.timestamps.available) return [];
  const n = Math.min(count, MOST_STAMPED);
  for (let i = 0; i < n; i++) {
    gpu.encode([{ op: "stamp", index: 2 * i }, ...token, { op: "stamp", index: 2 * i + 1 }]);
    gpu.flush();
  }
  const stamps = await gpu.readStamps(2 * n);
  return Array.from({ length: n }, (_, i) => Number(stamps[2 * i + 1] - stamps[2 * i]) / 1e6);
}

/**
 * Each token read before the next is asked for, as a page that shows the text does.
 * @param {Decoder} decoder
 * @param {number} first position of the first token
 * @param {number} count
 * @returns {Promise<number[]>} ms of each
 */
async function oneByOne(decoder, first, count) {
  const { gpu, token } = decoder;
  const times = [];
  for (let i = 0; i < count; i++) {
    const start = performance.now();
    gpu.encode(token);
    await gpu.read(decoder.buffer("tokens"), 4 * (first + i), 4);
    times.push(performance.now() - start);
  }
  return times;
}

/** @param {Decoder} decoder @param {Job} job @returns {Promise<Record<string, unknown>>} */
async function load(decoder, { weights }) {
  const { gpu, plan, buffers } = decoder;
  const start = performance.now();
  let heap_bytes = 0;
  const look = setInterval(() => (heap_bytes = Math.max(heap_bytes, /** @type {any} */ (performance).memory?.usedJSHeapSize ?? 0)), 20);
  if (weights === "file") await streamWeights(gpu, plan, buffers, file("weights.bin"));
  else await makeWeights(gpu, plan, buffers);
  clearInterval(look);
  return { weights, seconds: (performance.now() - start) / 1e3, heap_bytes, file_bytes: plan.file_bytes, gpu_bytes: gpu.counters.buffer_bytes };
}

await conductGpu(async () => {
  const { job, gpu, warmer } = await begin();
  /** @type {Plan} */
  const plan = await (await fetch(file("plan.json"))).json();
  const decoder = new Decoder(gpu, plan);
  const loaded = await load(decoder, job);
  await report({ type: "tried", tried: 0 });
  const start = performance.now();
  await warmer.run(job.warm_ms);
  const tried = await decoder.compile();
  const tune_s = (performance.now() - start) / 1e3;

  const made = job.tokens;
  const first = job.prompt.length;
  const total = first + made;
  await decoder.start(job.prompt);
  await queued(decoder, made);
  const tokens = await decoder.tokens(total);
  const logits = await decoder.logits(Math.min(plan.config.vocabulary, 1024));

  /** @type {Record<string, (number | null)[]>} */
  const samples = { wall_ms: [], host_ms: [], gpu_ms: [], token_gpu_ms: [], one_by_one_ms: [], prompt_ms: [] };
  let same = true;
  for (let round = 0; round < job.rounds; round++) {
    await warmer.run(job.warm_ms);
    samples.prompt_ms.push(await decoder.start(job.prompt));
    const { wall_ms, host_ms, gpu_ms } = await queued(decoder, made);
    same &&= String(await decoder.tokens(total)) === String(tokens);
    samples.wall_ms.push(wall_ms);
    samples.host_ms.push(host_ms);
    samples.gpu_ms.push(gpu_ms);
    await warmer.run(job.warm_ms);
    await decoder.start(job.prompt);
    samples.token_gpu_ms.push(...(await stampedTokens(decoder, made)));
    await warmer.run(job.warm_ms);
    await decoder.start(job.prompt);
    samples.one_by_one_ms.push(...(await oneByOne(decoder, first, made)));
  }
  await warmer.run(job.warm_ms);
  await decoder.start(job.prompt);
  await queued(decoder, made);
  const kernels = await decoder.kernelTimes(job.rounds);
  await report({ type: "row", loaded, tune_s, tried, tokens, logits, same, samples, kernels, dispatches: decoder.token.length, counters: gpu.counters });
  return { versions: {} };
});
