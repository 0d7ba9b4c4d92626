/** Keeps the GPU's clock up between samples, and looks at it. */
import { CHAIN, CHAIN_STEPS, CHAIN_VALUES, STEADY } from "../../studio/gpu/clock.js";
import { idle, own, recorderOf } from "./record.js";

const BUSY_MS = 8;
/** The clock of an idle GPU takes this long to rise; a batch sized before would be too short. */
const RISE_MS = 300;
const MOST_TRIES = 6;
const MOST_GROUPS = 4096;
const MOST_REPEATS = 1024;

const BUSY = `@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) g: vec3u) {
  var v = x[g.x];
  for (var i = 0u; i < 2048u; i++) { v = fma(v, 0.999, 0.001); }
  x[g.x] = v;
}`;

/** A device of its own that computes nothing of worth. */
export class Warmer {
  /** @type {number[]} ns of one step of a chain of dependent multiply-adds, over the run */
  chain_ns = [];
  best_ns = Infinity;
  groups = 1;
  repeats = 1;

  /** @param {any} adapter @returns {Promise<Warmer>} */
  static async open(adapter) {
    own("warmer");
    const warmer = new Warmer(await adapter.requestDevice());
    await warmer.#size();
    await warmer.run(RISE_MS);
    await warmer.#size();
    await warmer.look();
    return warmer;
  }

  /** @param {any} device */
  constructor(device) {
    this.device = device;
    this.buffer = device.createBuffer({ size: MOST_GROUPS * 256 * 4, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST });
    device.queue.writeBuffer(this.buffer, 0, CHAIN_VALUES);
    this.busy = this.#pipeline(BUSY);
    this.chain = this.#pipeline(CHAIN);
  }

  /** @param {string} code */
  #pipeline(code) {
    const module = this.device.createShaderModule({ code });
    const pipeline = this.device.createComputePipeline({ layout: "auto", compute: { module, entryPoint: "main" } });
    const entries = [{ binding: 0, resource: { buffer: this.buffer } }];
    return { pipeline, group: this.device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }) };
  }

  /** @param {{pipeline: any, group: any}} made @param {number} groups @param {number} repeats */
  #dispatch({ pipeline, group }, groups, repeats) {
    const encoder = this.device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    for (let i = 0; i < repeats; i++) pass.dispatchWorkgroups(groups);
    pass.end();
    this.device.queue.submit([encoder.finish()]);
  }

  async #time() {
    const start = performance.now();
    this.#dispatch(this.busy, this.groups, this.repeats);
    await idle(this.device);
    return performance.now() - start;
  }

  async #size() {
    while ((await this.#time()) < BUSY_MS && this.repeats < MOST_REPEATS)
      if (this.groups < MOST_GROUPS) this.groups *= 2;
      else this.repeats *= 2;
  }

  /**
   * Keeps the GPU busy; the next batch is queued before the last is done, so that it never rests.
   * @param {number} ms at least
   */
  async run(ms) {
    const start = performance.now();
    const batch = () => {
      this.#dispatch(this.busy, this.groups, this.repeats);
      return this.device.queue.onSubmittedWorkDone();
    };
    let running = batch();
    while (performance.now() - start < ms) {
      const next = batch();
      await running;
      running = next;
    }
    await idle(this.device);
  }

  /**
   * Busy until the clock is where it was at its best, or it will not get there.
   * @param {number} ms of each try
   */
  async ready(ms) {
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      await this.run(ms);
      if ((await this.look()) <= STEADY * this.best_ns) return;
    }
  }

  /** Looks at the clock: a dependent chain takes as many cycles as ever. */
  async look() {
    const recorder = recorderOf("warmer");
    recorder.start();
    this.#dispatch(this.chain, 1, 1);
    const ns = ((await recorder.stop()).gpu_ms * 1e6) / CHAIN_STEPS;
    this.chain_ns.push(ns);
    this.best_ns = Math.min(this.best_ns, ns);
    return ns;
  }
}
