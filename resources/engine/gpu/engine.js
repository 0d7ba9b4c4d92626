/** The plan interpreter on a GPU: the calls of the Wasm engine, answered later. */
import { checkPlans, checkWeights, countsOf, feedsOf, MAIN, missing, named, outputOf, specBytes, stepsOf } from "../plan.js";
import { EngineError, script } from "../errors.js";
import { addStep, checkRuns, newInference } from "../steps.js";
import { appendRuns, checkSlots, kernelOfRun } from "./append.js";
import { bind, buffersOf, free, resized, where } from "./bound.js";
import { words } from "./commands.js";
import { Gather } from "./gather.js";
import { Kernels } from "./kernels.js";
import { profileSteps } from "./profile.js";
import { padded, Store } from "./store.js";

/** @import { Inference, NewKernel, Plan, Tap, Tensor } from "../../types/engine.js" */
/** @import { GpuBuf, GpuCounters, GpuDevice } from "../../types/gpu.js" */
/** @import { Bound, Call, Model } from "./bound.js" */
/** @import { Choice } from "./generation/likeliest.js" */
/** @import { GpuKernel } from "./kernels.js" */
/** @import { GpuSizes, Sized } from "./open/sizes.js" */
/**
 * As of the Wasm engine, with the clock of `steps_ms` and the layer's counters.
 * @typedef {Inference & {gpu_clock: "timestamp" | "wall" | "", gpu: GpuCounters}} GpuInference
 */
/**
 * Steps that feed themselves: `step` queues one, its choice comes as the `at`-th, below `most`, of a `read`,
 * which is of what was queued before it.
 * @typedef {{most: number, step: (at: number, first: boolean) => Promise<void>, read: (count: number, hurried: boolean) => Promise<Choice[]>, close: () => void}} Follower
 */

/** Uploads in flight, beyond which an upload waits for the GPU. */
const UPLOAD_BYTES = 64 * 2 ** 20;
/** Calls of a submission: the GPU begins while the browser still prepares what follows. */
const SUBMITTED_CALLS = 32;

export class GpuEngine {
  /** Outputs are copies: what is read stays as it is. */
  copies = true;
  /** @type {Map<string, {plan: Plan, index: number}>} by name; `MAIN` comes first */ #plans = new Map();
  /** @type {Map<string, GpuKernel>} by workload */ #kernels = new Map();
  /** @type {Bound | null} until a plan has all its kernels */ #bound = null;
  /** @type {Model | null} */ #model = null;
  /** @type {GpuSizes | null} of a model whose sizes are open */ #sizes = null;
  #gather;
  /** @type {Promise<unknown>} */ #turn = Promise.resolve();
  #compiler;
  #uploaded = 0;

  /** @param {GpuDevice} device it stays its owner's to destroy */
  constructor(device) {
    this.device = device;
    this.#compiler = new Kernels(device);
    this.#gather = new Gather(device);
  }

  /**
   * Makes the buffers of weights and state; a GPU engine loads once.
   * @param {Plan} plan
   * @param {Record<string, Plan>} [others] further plans over the same weights and state, by name
   * @param {GpuSizes | null} [sizes] of a model for any size, of which `plan` is one
   * @returns {Promise<number>} bytes of GPU memory
   */
  load(plan, others = {}, sizes = null) {
    return this.#exclusive(async () => {
      this.#sizes = sizes;
      const plans = [plan, ...Object.values(others)];
      checkPlans(plans);
      if (plan.outputs.some(({ found }) => found)) throw new EngineError(`${plan.name} has outputs as large as their data says, which run in Wasm alone.`);
      this.#model = { plans, weights: new Store(this.device, "weight", plans), state: new Store(this.device, "state", plans) };
      this.#plans = new Map([MAIN, ...Object.keys(others)].map((name, index) => [name, { plan: plans[index], index }]));
      for (const each of plans)
        for (const run of appendRuns(stepsOf(each))) await this.device.pipeline(kernelOfRun(run));
      await this.device.done(); // memory that is not there is told here
      return this.memoryBytes;
    });
  }

  /**
   * A part of the weights file, as it comes.
   * @param {number} offset in the weights file, a multiple of 4
   * @param {Uint8Array} bytes
   */
  setWeights(offset, bytes) {
    return this.#exclusive(async () => {
      const { plan } = this.#named(MAIN);
      checkWeights(plan, offset, bytes);
      this.#loaded.weights.write(offset, bytes);
      this.#uploaded += bytes.length;
      if (this.#uploaded < UPLOAD_BYTES && offset + bytes.length < plan.weights_bytes) return;
      this.#uploaded = 0;
      await this.device.done();
    });
  }

  /**
   * Replaces the kernels of the named workloads between two inferences, all or none: all are
   * compiled and have run once before.
   *
   * @param {NewKernel[]} kernels
   * @param {{only?: boolean}} [options] `only` drops all other kernels
   * @returns {Promise<{repack_ms: number, pipeline_ms: number, memory_bytes: number}>}
   */
  async register(kernels, { only = false } = {}) {
    const start = performance.now();
    const parse = this.#sizes?.parse.bind(this.#sizes);
    const compiled = await Promise.all(
      kernels.map(({ bytes, ...header }) => this.#compiler.compile(header, bytesOf(bytes), countsOf(this.#loaded.plans, header.workload)[0], parse)),
    );
    const pipeline_ms = performance.now() - start;
    return this.#exclusive(async () => {
      const fresh = compiled.map((kernel) => /** @type {[string, GpuKernel]} */ ([kernel.header.workload, kernel]));
      const next = new Map([...(only ? [] : this.#kernels), ...fresh]);
      const sized = this.#sizes?.take(next);
      const bound = sized ? await this.#boundTo(sized, null) : await bind(this.device, this.#loaded, next, this.#bound);
      if (bound) {
        try {
          for (const kernel of compiled) await this.#try(kernel, bound);
        } catch (e) {
          free(this.device, bound, this.#bound);
          throw e;
        }
      }
      if (this.#bound) free(this.device, this.#bound, bound);
      this.#kernels = next;
      this.#bound = bound;
      if (sized) this.#model = this.#modelOf(sized);
      return { repack_ms: 0, pipeline_ms, memory_bytes: this.memoryBytes };
    });
  }

  /**
   * Runs the plan `runs` times, each from its inputs to its outputs.
   *
   * @param {Tensor[]} inputs
   * @param {{runs?: number, profile?: boolean, least_step_ms?: number, taps?: Tap[], plan?: string}} [options]
   * @returns {Promise<GpuInference>}
   */
  infer(inputs, { runs = 1, profile = false, least_step_ms = 0, taps = [], plan: name = MAIN } = {}) {
    return this.#exclusive(async () => {
      if (this.#sizes && this.#bound) await this.#resize(this.#sizes, inputs, this.#bound);
      const { plan, index } = this.#named(name);
      const feeds = this.#feeds(plan, inputs);
      const calls = this.#calls(name);
      checkRuns(runs, taps, plan, calls.length);
      /** @type {GpuInference} */
      const result = { ...newInference(), gpu_clock: "", gpu: this.device.counters };
      for (let r = 0; r < (taps.length ? 1 : runs); r++) {
        const start = performance.now();
        this.#write(index, feeds);
        if (taps.length) result.taps = await this.#runTapped(calls, index, taps);
        else {
          this.#run(calls);
          result.outputs = await this.#outputs(index);
        }
        result.runs_ms.push(performance.now() - start);
      }
      if (profile) {
        const { times, clock } = await profileSteps(this.device, calls.map((c) => c.commands), { runs, least_ms: least_step_ms });
        result.gpu_clock = clock;
        calls.forEach(({ workload }, i) => workload && addStep(result, times.map((run) => run[i]), 1, []));
      }
      return { ...result, gpu: { ...this.device.counters } };
    });
  }

  /**
   * Runs a plan again and again with what its inputs' bytes hold then; outputs are read
   * with {@link GpuEngine.output}, which waits for the run.
   *
   * @param {Tensor[]} inputs
   * @param {string} [name] of the plan
   * @returns {() => Promise<void>}
   */
  stepper(inputs, name = MAIN) {
    const { plan, index } = this.#named(name);
    return () =>
      this.#exclusive(async () => {
        const calls = this.#calls(name);
        this.#write(index, this.#feeds(plan, inputs));
        this.#run(calls);
        this.device.flush();
      });
  }

  /**
   * Steps of the main plan in which each takes the likeliest token of the one before: it stays on the
   * GPU, so that steps are queued without waiting. The first takes the token of the inputs.
   *
   * @param {Tensor[]} inputs whose bytes may change between two steps
   * @param {{ids: string, logits: string}} names of the input that takes a token, and of the output
   * @returns {Promise<Follower>}
   */
  async follower(inputs, { ids, logits }) {
    const { Likeliest, MOST_STEPS } = await script(import("./generation/likeliest.js")); // only bundles that make text hold it
    const { plan, index } = this.#named(MAIN);
    const from = outputOf(plan, logits);
    const token = plan.inputs.findIndex(({ spec }) => spec.name === ids);
    const { spec, buffer } = plan.inputs[token];
    const likeliest = await Likeliest.open(this.device, specBytes(from.spec) / 4);
    return {
      most: MOST_STEPS,
      step: (at, first) =>
        this.#exclusive(async () => {
          const calls = this.#calls(MAIN);
          const feeds = this.#feeds(plan, inputs);
          this.#write(index, first ? feeds : feeds.filter((_, i) => i !== token));
          if (!first) this.device.encode([likeliest.give(this.#where(index, buffer), specBytes(spec))]);
          this.#run(calls, first ? SUBMITTED_CALLS : calls.length); // the GPU is busy: each submission would only interrupt it
          this.device.encode(likeliest.choose({ ...this.#where(index, from.buffer), size: specBytes(from.spec) }, at));
          this.device.flush();
        }),
      read: likeliest.read.bind(likeliest),
      close: () => likeliest.close(),
    };
  }

  /**
   * An output of the last run.
   * @param {string} output
   * @param {string} [name] of the plan
   * @returns {Promise<Tensor>}
   */
  output(output, name = MAIN) {
    return this.#exclusive(async () => {
      const { plan, index } = this.#named(name);
      const { spec, buffer: at } = outputOf(plan, output);
      const { buffer, offset, size } = this.#where(index, at);
      const bytes = await this.device.read(buffer, offset, Math.min(size, words(specBytes(spec))));
      return { ...spec, data: bytes.subarray(0, specBytes(spec)) };
    });
  }

  /** Resolves, maybe some ms late, when the GPU has run all that is queued now; others go on meanwhile. */
  caughtUp = () => this.device.done(false);

  /** Zeroes the state: what runs have kept for later ones. */
  reset = () => this.#model?.state.clear();

  /** Bytes of GPU memory, as they are now. */
  get memoryBytes() {
    return this.device.counters.buffer_bytes;
  }

  /** The plans that are loaded, by name. */
  get plans() {
    return Object.fromEntries([...this.#plans].map(([name, { plan }]) => [name, plan]));
  }

  /**
   * One after another, in the order of the calls.
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
   * Goes to the sizes of these inputs: buffers grow where they have to, and stay.
   * @param {GpuSizes} sizes
   * @param {Tensor[]} inputs
   * @param {Bound} now
   */
  async #resize(sizes, inputs, now) {
    const sized = sizes.at(inputs);
    if (sized.bound === now) return;
    const bound = await this.#boundTo(sized, now);
    if (!bound) return;
    const stay = new Set(buffersOf(bound));
    if (!buffersOf(now).every((buffer) => stay.has(buffer))) sizes.unbind();
    sized.bound = bound;
    free(this.device, now, bound);
    this.#bound = bound;
    this.#model = this.#modelOf(sized);
    this.#plans.set(MAIN, { plan: sized.plan, index: 0 });
  }

  /** @param {Sized} sized @returns {Model} */
  #modelOf({ plan, block }) {
    return { ...this.#loaded, plans: [plan], blockBytes: block.length };
  }

  /** After it kernels read these sizes. New buffers have room for larger ones. @param {Sized} sized @param {Bound | null} now of the same kernels */
  async #boundTo(sized, now) {
    let bound = sized.bound ?? (now && resized(now, sized));
    if (!bound) {
      const room = /** @type {GpuSizes} */ (this.#sizes).withRoom(sized);
      const made = await bind(this.device, this.#modelOf(room), room.kernels, this.#bound);
      if (made) this.#gather.reserve(room.plan.outputs.reduce((sum, { spec }) => sum + words(specBytes(spec)), 0));
      bound = made && resized(made, sized);
    }
    if (bound) this.device.write(/** @type {GpuBuf} */ (bound.block), 0, sized.block);
    return bound;
  }

  get #loaded() {
    this.#named(MAIN);
    return /** @type {Model} */ (this.#model);
  }

  /** @param {string} name */
  #named(name) {
    return named(this.#plans, name);
  }

  /** @param {string} name of the plan */
  #calls(name) {
    const { plan, index } = this.#named(name);
    const calls = this.#bound?.calls[index];
    if (!calls) throw missing(plan, this.#kernels);
    return calls;
  }

  /**
   * Runs all calls of a new kernel once: what the GPU refuses, it refuses now.
   * @param {GpuKernel} kernel
   * @param {Bound} bound
   */
  async #try(kernel, bound) {
    const stateful = this.#loaded.plans.some((plan) =>
      plan.steps.some((s) => s.workload === kernel.header.workload && s.args.some((b) => plan.buffers[b].region === "state")),
    );
    if (stateful) return; // it might write there
    try {
      for (const calls of bound.calls)
        for (const { workload, commands } of calls ?? []) if (workload === kernel.header.workload) this.device.encode(commands);
      await this.device.done();
    } catch (e) {
      throw this.#compiler.refuse(kernel.header, e);
    }
  }

  /** @param {number} index of the plan @param {number} buffer */
  #where(index, buffer) {
    return where(this.#loaded, index, buffer, this.#bound);
  }

  /** @param {Plan} plan @param {Tensor[]} inputs */
  #feeds(plan, inputs) {
    const feeds = feedsOf(plan, inputs);
    checkSlots(plan, feeds);
    return feeds;
  }

  /** @param {number} index of the plan @param {readonly {buffer: number, data: Uint8Array}[]} feeds */
  #write(index, feeds) {
    for (const { buffer, data } of feeds) this.device.write(this.#where(index, buffer).buffer, 0, padded(data));
  }

  /** @param {readonly Call[]} calls of a plan, after its inputs were written @param {number} [together] submitted at a time */
  #run(calls, together = SUBMITTED_CALLS) {
    calls.forEach(({ commands }, i) => {
      if (i && i % together === 0) this.device.flush();
      this.device.encode(commands);
    });
  }

  /**
   * All outputs in one readback.
   * @param {number} index of the plan
   * @returns {Promise<Tensor[]>}
   */
  async #outputs(index) {
    const { outputs } = this.#loaded.plans[index];
    const parts = outputs.map(({ spec, buffer }) => ({ ...this.#where(index, buffer), size: words(specBytes(spec)) }));
    const read = this.#gather.start(parts);
    parts.forEach((_, i) => read.copy(i));
    const data = await read.bytes();
    return outputs.map(({ spec }, i) => {
      const nbytes = specBytes(spec);
      return { ...spec, data: data[i].length === nbytes ? data[i] : data[i].slice(0, nbytes) };
    });
  }

  /**
   * @param {readonly Call[]} calls of the plan
   * @param {number} index of the plan
   * @param {Tap[]} taps
   */
  async #runTapped(calls, index, taps) {
    // whole words around what is asked for
    const parts = taps.map(({ buffer, offset, nbytes }) => {
      const at = this.#where(index, buffer);
      const begin = Math.floor(offset / 4) * 4;
      return { ...at, offset: at.offset + begin, size: Math.min(words(offset + nbytes), at.size) - begin };
    });
    const read = this.#gather.start(parts);
    calls.forEach(({ commands }, step) => {
      this.device.encode(commands);
      taps.forEach((tap, i) => tap.step === step && read.copy(i));
    });
    const data = await read.bytes();
    return taps.map(({ offset, nbytes }, i) => data[i].slice(offset % 4, (offset % 4) + nbytes));
  }
}

/** @param {BufferSource} source */
const bytesOf = (source) => (source instanceof Uint8Array ? source : new Uint8Array(/** @type {ArrayBuffer} */ (source)));
