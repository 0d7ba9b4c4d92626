/** A plan whose steps are divided between a GPU and Wasm: segments run one after another, with copies between them. */
import { EngineError } from "../../errors.js";
import { feedsOf, MAIN, named, specBytes, stepsOf } from "../../plan.js";
import { quantile } from "../../quantile.js";

/** @import { MixedPlan, NewKernel, Plan, Segment, Tap, Tensor } from "../../../types/engine.js" */
/** @import { Engine } from "../../engine.js" */
/** @import { GpuEngine, GpuInference } from "../engine.js" */
/** A segment, with the name of its plan in the engine of its device. @typedef {Segment & {name: string}} Placed */

/** Of the format of mixed plans, the one that this engine reads. */
const VERSION = 1;

export class MixedEngine {
  /** Outputs are copies: what is read stays as it is. */
  copies = true;
  #gpu;
  #wasm;
  /** @type {Plan | null} the whole one */ #plan = null;
  /** @type {Placed[]} */ #segments = [];
  /** @type {Promise<unknown>} */ #turn = Promise.resolve();

  /** @param {GpuEngine} gpu @param {Engine} wasm without a model, both to be this one's */
  constructor(gpu, wasm) {
    this.device = gpu.device;
    this.#gpu = gpu;
    this.#wasm = wasm;
  }

  /**
   * Makes the memory of both; a mixed engine loads once.
   * @param {Plan} plan
   * @param {MixedPlan} mixed its segments
   * @param {Record<string, Plan>} [others] further plans of the GPU alone, by name
   * @returns {Promise<number>} bytes of memory on both sides
   */
  async load(plan, { version, segments }, others = {}) {
    if (version !== VERSION) throw new EngineError(`The segments have version ${version}, this engine runs version ${VERSION}.`, "Use an engine and a plan of the same NNJIT Studio.");
    const first = new Set();
    this.#segments = segments.map((segment, i) => {
      const name = first.has(segment.device) ? `segment ${i}` : MAIN;
      first.add(segment.device);
      return { ...segment, name };
    });
    const plansOn = (/** @type {string} */ device) => Object.fromEntries(this.#segments.filter((s) => s.device === device).map((s) => [s.name, s.plan]));
    const { [MAIN]: main, ...rest } = plansOn("webgpu");
    for (const [name, other] of Object.entries(others)) rest[name] = { ...other, state_bytes: main.state_bytes };
    await this.#gpu.load(main, rest);
    const { [MAIN]: ours, ...more } = plansOn("wasm");
    this.#wasm.load(ours, more);
    this.#plan = plan;
    return this.memoryBytes;
  }

  /**
   * A part of the weights file, as it comes: each side takes what its steps read.
   * @param {number} offset in the weights file, a multiple of 4
   * @param {Uint8Array} bytes
   */
  async setWeights(offset, bytes) {
    for (const { buffers } of Object.values(this.#wasm.plans))
      for (const b of buffers) {
        const [from, to] = [Math.max(offset, b.offset), Math.min(offset + bytes.length, b.offset + b.nbytes)];
        if (b.region === "weight" && from < to) this.#wasm.setWeights(from, bytes.subarray(from - offset, to - offset));
      }
    await this.#gpu.setWeights(offset, bytes);
  }

  /**
   * Replaces the kernels of the named workloads, those of both sides by their tiers; none of them where the GPU refuses one.
   * @param {NewKernel[]} kernels
   * @param {{only?: boolean}} [options] `only` drops all other kernels
   */
  register(kernels, options) {
    return this.#exclusive(async () => {
      const ours = kernels.filter(({ tier }) => tier && !tier.startsWith("wgsl"));
      const theirs = kernels.filter((kernel) => !ours.includes(kernel));
      const { pipeline_ms } = await this.#gpu.register(theirs, options); // first: it may refuse them
      const { repack_ms } = ours.length || options?.only ? await this.#wasm.register(ours, options) : { repack_ms: 0 };
      return { repack_ms, pipeline_ms, memory_bytes: this.memoryBytes };
    });
  }

  /**
   * Runs the plan `runs` times, each from its inputs to its outputs.
   *
   * @param {Tensor[]} inputs
   * @param {{runs?: number, profile?: boolean, least_step_ms?: number, taps?: Tap[], plan?: string}} [options]
   * @returns {Promise<GpuInference>} steps are those of the whole plan
   */
  infer(inputs, { runs = 1, profile = false, least_step_ms = 0, taps = [], plan: name = MAIN } = {}) {
    if (name !== MAIN) return this.#exclusive(() => this.#gpu.infer(inputs, { runs, profile, least_step_ms, taps, plan: name }));
    return this.#exclusive(async () => {
      const plan = named(new Map(this.#plan ? [[MAIN, this.#plan]] : []), name);
      feedsOf(plan, inputs);
      /** @type {GpuInference} */
      const result = {
        outputs: [], runs_ms: [], steps_ms: [], steps_iqr_ms: [], steps_threads: [], steps_chunks: [], taps: [], gpu_clock: "", gpu: this.device.counters,
      };
      for (let r = 0; r < (taps.length ? 1 : runs); r++) {
        const start = performance.now();
        result.outputs = await this.#run(plan, inputs, (segment, given) => (taps.length ? this.#tap(segment, given, taps, result) : this.#infer(segment, given)));
        result.runs_ms.push(performance.now() - start);
      }
      if (profile) await this.#profile(plan, inputs, { runs, least_step_ms }, result);
      return { ...result, outputs: taps.length ? [] : result.outputs, gpu: { ...this.device.counters } };
    });
  }

  /** Bytes of memory on both sides, as they are now. */
  get memoryBytes() {
    return this.#gpu.memoryBytes + this.#wasm.memoryBytes;
  }

  /** The plans that are loaded, by name. */
  get plans() {
    return this.#plan ? { [MAIN]: this.#plan } : {};
  }

  /**
   * @template T
   * @param {() => Promise<T>} run
   * @returns {Promise<T>}
   */
  #exclusive(run) {
    const result = this.#turn.then(run);
    this.#turn = result.catch(() => {});
    return result;
  }

  /**
   * All segments in their order, each given what it needs of the inputs and of those before it.
   * @param {Plan} plan
   * @param {Tensor[]} inputs
   * @param {(segment: Placed, given: Tensor[]) => Promise<Tensor[]>} run answers what it leaves
   * @returns {Promise<Tensor[]>} outputs of the model
   */
  async #run(plan, inputs, run) {
    const given = new Map(inputs.map((tensor) => [tensor.name, tensor]));
    for (const segment of this.#segments) {
      const wanted = segment.plan.inputs.map(({ spec }) => /** @type {Tensor} */ (given.get(spec.name)));
      const found = await run(segment, wanted);
      segment.plan.outputs.forEach(({ spec }, i) => given.set(spec.name, found[i]));
    }
    return plan.outputs.map(({ spec }) => /** @type {Tensor} */ (given.get(spec.name)));
  }

  /** @param {Placed} segment @param {Tensor[]} given @param {{profile?: boolean, least_step_ms?: number, taps?: Tap[]}} [options] */
  async #of({ device, name }, given, options) {
    return (device === "webgpu" ? this.#gpu : this.#wasm).infer(given, { ...options, plan: name });
  }

  /** @param {Placed} segment @param {Tensor[]} given */
  async #infer(segment, given) {
    return (await this.#of(segment, given)).outputs;
  }

  /**
   * Runs a segment once: another time it might read what it had overwritten. So what it leaves is tapped, too.
   * @param {Placed} segment
   * @param {Tensor[]} given
   * @param {Tap[]} taps of the whole plan
   * @param {GpuInference} result gets the bytes of those in this segment
   * @returns {Promise<Tensor[]>}
   */
  async #tap(segment, given, taps, result) {
    const { first, plan, buffers } = segment;
    const count = stepsOf(plan).length;
    // what no later step names stays as it was
    const holder = (/** @type {Tap} */ tap) => this.#segments.filter((s) => s.first <= tap.step && s.buffers.includes(tap.buffer)).pop();
    const here = taps.flatMap((tap, i) => {
      if (holder(tap) !== segment) return [];
      return [{ i, tap: { ...tap, step: Math.min(tap.step - first, count - 1), buffer: buffers.indexOf(tap.buffer) } }];
    });
    const left = plan.outputs.map(({ spec, buffer }) => ({ step: count - 1, buffer, offset: 0, nbytes: specBytes(spec) }));
    const { taps: copies } = await this.#of(segment, given, { taps: [...here.map(({ tap }) => tap), ...left] });
    here.forEach(({ i }, at) => (result.taps[i] = copies[at]));
    return plan.outputs.map(({ spec }, at) => ({ ...spec, data: copies[here.length + at] }));
  }

  /**
   * @param {Plan} plan
   * @param {Tensor[]} inputs
   * @param {{runs: number, least_step_ms: number}} options
   * @param {GpuInference} result gets the times of all steps
   */
  async #profile(plan, inputs, { runs, least_step_ms }, result) {
    /** @type {number[][]} */
    const times = [];
    for (let r = 0; r < runs; r++) {
      /** @type {number[]} */
      const steps = [];
      await this.#run(plan, inputs, async (segment, given) => {
        const found = await this.#of(segment, given, { profile: true, least_step_ms });
        steps.push(...found.steps_ms);
        if ("gpu_clock" in found) result.gpu_clock = found.gpu_clock;
        return found.outputs;
      });
      times.push(steps);
    }
    const at = (/** @type {number} */ share) => times[0].map((_, i) => quantile(times.map((run) => run[i]), share));
    result.steps_ms = at(0.5);
    result.steps_iqr_ms = at(0.75).map((ms, i) => ms - at(0.25)[i]);
    result.steps_threads = times[0].map(() => 1);
    result.steps_chunks = times[0].map(() => []);
  }
}
