/** The plan interpreter on a GPU: the calls of the Wasm engine, answered later. */
import { MAIN } from "../engine.js";
import { EngineError } from "../errors.js";
import { feedsOf } from "../feeds.js";
import { checkPlan, checkTogether, specBytes } from "../plan.js";
import { checkTaps, quantile } from "../steps.js";
import { appendKernel, checkSlots } from "./append.js";
import { Gather } from "./gather.js";
import { callOf, Kernels, words } from "./kernels.js";
import { livesOf, place, rolesOfStep, stepsOf } from "./memory.js";
import { profileSteps } from "./profile.js";
import { padded, Store } from "./store.js";

/** @typedef {import("../../types/engine.js").Plan} Plan */
/** @typedef {import("../../types/engine.js").NewKernel} NewKernel */
/** @typedef {import("../../types/engine.js").Tensor} Tensor */
/** @typedef {import("../../types/gpu.js").Binding} Binding */
/** @typedef {import("../../types/gpu.js").Dispatch} Dispatch */
/** @typedef {import("../../types/gpu.js").GpuBuf} GpuBuf */
/** @typedef {import("../../types/gpu.js").GpuDevice} GpuDevice */
/** @typedef {import("./kernels.js").GpuKernel} GpuKernel */
/** One instruction of a plan; `workload` is empty for an append. @typedef {{workload: string, commands: Dispatch[]}} Call */
/**
 * What follows from the kernels: buffers that runs use, and each plan's calls on them; null for a
 * plan that lacks a kernel.
 * @typedef {{roles: string, arena: GpuBuf[], places: Map<number, number>[], scratch: GpuBuf[], calls: (Call[] | null)[]}} Bound
 */
/**
 * As of the Wasm engine, with the clock of `steps_ms` and the layer's counters.
 * @typedef {import("../../types/engine.js").Inference & {gpu_clock: "timestamp" | "wall" | "", gpu: import("../../types/gpu.js").GpuCounters}} GpuInference
 */

/** Uploads in flight, beyond which an upload waits for the GPU. */
const UPLOAD_BYTES = 64 * 2 ** 20;
/** Calls of a submission: the GPU begins while the browser still prepares what follows. */
const SUBMITTED_CALLS = 32;

export class GpuEngine {
  /** Outputs are copies: what is read stays as it is. */
  copies = true;
  /** @type {{name: string, plan: Plan}[]} `MAIN` comes first */ #plans = [];
  /** @type {Map<string, GpuKernel>} by workload */ #kernels = new Map();
  /** @type {Bound | null} until a plan has all its kernels */ #bound = null;
  /** @type {Store | null} */ #weights = null;
  /** @type {Store | null} */ #state = null;
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
   * @returns {Promise<number>} bytes of GPU memory
   */
  load(plan, others = {}) {
    return this.#exclusive(async () => {
      const plans = [plan, ...Object.values(others)];
      for (const each of plans) {
        checkPlan(each);
        checkTogether(plan, each);
      }
      this.#weights = new Store(this.device, "weight", plans);
      this.#state = new Store(this.device, "state", plans);
      this.#plans = [MAIN, ...Object.keys(others)].map((name, i) => ({ name, plan: plans[i] }));
      for (const { plan: each } of this.#plans)
        for (const { append, args } of each.steps) if (append) await this.device.pipeline(appendKernel(append, args.length > 2));
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
      const { weights_bytes } = this.#named(MAIN).plan;
      if (!(offset >= 0) || offset + bytes.length > weights_bytes)
        throw new EngineError(`Weights at ${offset}..${offset + bytes.length} lie outside the ${weights_bytes} bytes of the plan.`);
      /** @type {Store} */ (this.#weights).write(offset, bytes);
      this.#uploaded += bytes.length;
      if (this.#uploaded < UPLOAD_BYTES && offset + bytes.length < weights_bytes) return;
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
    const compiled = await Promise.all(
      kernels.map(({ bytes, ...header }) => this.#compiler.compile(header, bytesOf(bytes), this.#arguments(header.workload))),
    );
    const pipeline_ms = performance.now() - start;
    return this.#exclusive(async () => {
      const fresh = compiled.map((kernel) => /** @type {[string, GpuKernel]} */ ([kernel.header.workload, kernel]));
      const next = new Map([...(only ? [] : this.#kernels), ...fresh]);
      const bound = await this.#bind(next);
      if (bound) {
        try {
          for (const kernel of compiled) await this.#try(kernel, bound);
        } catch (e) {
          this.#free(bound, this.#bound);
          throw e;
        }
      }
      if (this.#bound) this.#free(this.#bound, bound);
      this.#kernels = next;
      this.#bound = bound;
      return { repack_ms: 0, pipeline_ms, memory_bytes: this.memoryBytes };
    });
  }

  /**
   * Runs the plan `runs` times, each from its inputs to its outputs.
   *
   * @param {Tensor[]} inputs
   * @param {{runs?: number, profile?: boolean, least_step_ms?: number, taps?: import("../../types/engine.js").Tap[], plan?: string}} [options]
   * @returns {Promise<GpuInference>}
   */
  infer(inputs, { runs = 1, profile = false, least_step_ms = 0, taps = [], plan: name = MAIN } = {}) {
    return this.#exclusive(async () => {
      const { plan, index } = this.#named(name);
      if (!(Number.isInteger(runs) && runs >= 1)) throw new EngineError(`The number of runs must be at least 1, not ${runs}.`);
      const feeds = this.#feeds(plan, inputs);
      const calls = this.#calls(index);
      checkTaps(taps, plan, calls.length);
      /** @type {GpuInference} */
      const result = { outputs: [], runs_ms: [], steps_ms: [], steps_iqr_ms: [], steps_threads: [], steps_chunks: [], taps: [], gpu_clock: "", gpu: this.device.counters };
      for (let r = 0; r < (taps.length ? 1 : runs); r++) {
        const start = performance.now();
        this.#write(index, feeds);
        if (taps.length) result.taps = await this.#runTapped(index, taps);
        else {
          this.#run(calls);
          result.outputs = await this.#outputs(index);
        }
        result.runs_ms.push(performance.now() - start);
      }
      if (profile) {
        const { times, clock } = await profileSteps(this.device, calls.map((c) => c.commands), { runs, least_ms: least_step_ms });
        result.gpu_clock = clock;
        calls.forEach(({ workload }, i) => {
          if (!workload) return;
          const samples = times.map((run) => run[i]);
          result.steps_ms.push(quantile(samples, 0.5));
          result.steps_iqr_ms.push(quantile(samples, 0.75) - quantile(samples, 0.25));
          result.steps_threads.push(1);
          result.steps_chunks.push([]);
        });
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
        const calls = this.#calls(index);
        this.#write(index, this.#feeds(plan, inputs));
        this.#run(calls);
        this.device.flush();
      });
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
      const port = plan.outputs.find((p) => p.spec.name === output);
      if (!port) throw new EngineError(`The model has no output "${output}".`);
      const { buffer, offset, size } = this.#where(index, port.buffer);
      const bytes = await this.device.read(buffer, offset, Math.min(size, words(specBytes(port.spec))));
      return { ...port.spec, data: bytes.subarray(0, specBytes(port.spec)) };
    });
  }

  /** Zeroes the state: what runs have kept for later ones. */
  reset() {
    this.#state?.clear();
  }

  /** Bytes of GPU memory, as they are now. */
  get memoryBytes() {
    return this.device.counters.buffer_bytes;
  }

  /** The plans that are loaded, by name. */
  get plans() {
    return Object.fromEntries(this.#plans.map(({ name, plan }) => [name, plan]));
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

  /** @param {string} name */
  #named(name) {
    const index = this.#plans.findIndex((p) => p.name === name);
    if (!this.#plans.length) throw new EngineError("No model is loaded.", "Load a plan first.");
    if (index < 0) throw new EngineError(`The model has no plan "${name}".`, `Its plans are ${this.#plans.map((p) => p.name).join(", ")}.`);
    return { plan: this.#plans[index].plan, index };
  }

  /** @param {number} index of the plan */
  #calls(index) {
    const calls = this.#bound?.calls[index];
    if (calls) return calls;
    const step = stepsOf(this.#plans[index].plan).find((s) => s.op === "call" && !this.#kernels.has(s.workload));
    throw new EngineError(`No kernel is registered for ${step?.workload ?? "the plan"}.`, "Register one for every workload.");
  }

  /**
   * How many arguments the plans give a workload.
   * @param {string} workload
   */
  #arguments(workload) {
    this.#named(MAIN);
    const steps = this.#plans.flatMap(({ plan }) => plan.steps.filter((s) => s.op === "call" && s.workload === workload));
    if (!steps.length) throw new EngineError(`The model has no workload ${workload}.`);
    return Math.min(...steps.map((s) => s.args.length));
  }

  /**
   * Buffers and calls for these kernels; the buffers of now stay where the kernels' roles are the same.
   * @param {Map<string, GpuKernel>} kernels
   * @returns {Promise<Bound | null>} null while every plan lacks a kernel
   */
  async #bind(kernels) {
    const plans = this.#plans.map((p) => p.plan);
    const ready = plans.map((plan) => stepsOf(plan).every((s) => s.op !== "call" || kernels.has(s.workload)));
    if (!ready.includes(true)) return null;
    const rolesOf = (/** @type {string} */ workload) => /** @type {GpuKernel} */ (kernels.get(workload)).roles;
    const roles = JSON.stringify([ready, [...kernels].map(([workload, k]) => [workload, [...k.roles.read].sort(), [...k.roles.written].sort()]).sort()]);
    const old = this.#bound?.roles === roles ? this.#bound : null;
    const lives = old ? [] : plans.flatMap((plan, i) => (ready[i] ? livesOf(plan, i, rolesOf) : []));
    const { slots, places } = old ? { slots: [], places: old.places } : place(lives, plans.length);
    /** @type {Bound} */
    const bound = { roles, arena: old ? [...old.arena] : [], places, scratch: [], calls: [] };
    try {
      for (const [i, nbytes] of slots.entries()) bound.arena.push(this.device.createBuffer(nbytes, `arena ${i}`));
      this.#addScratch([...kernels.values()], bound);
      for (const index of plans.keys()) bound.calls.push(ready[index] ? await this.#callsOf(index, kernels, bound) : null);
    } catch (e) {
      this.#free(bound, this.#bound);
      throw e;
    }
    return bound;
  }

  /**
   * @param {number} index of the plan
   * @param {Map<string, GpuKernel>} kernels
   * @param {Bound} bound
   */
  async #callsOf(index, kernels, bound) {
    const kernelOf = (/** @type {string} */ workload) => /** @type {GpuKernel} */ (kernels.get(workload));
    /** @type {Call[]} */
    const calls = [];
    for (const step of stepsOf(this.#plans[index].plan)) {
      const { append, workload, args } = step;
      const { read, written } = rolesOfStep(step, (name) => kernelOf(name).roles);
      const bindings = args.map((b, i) => (read.has(i) || written.has(i) ? this.#where(index, b, bound) : null));
      if (append) {
        const { workgroups, ...spec } = appendKernel(append, args.length > 2);
        calls.push({ workload: "", commands: [{ op: "dispatch", pipeline: await this.device.pipeline(spec), bindings: /** @type {Binding[]} */ (bindings), workgroups }] });
      } else calls.push({ workload, commands: callOf(kernelOf(workload), bindings, whole(bound.scratch)) });
    }
    return calls;
  }

  /**
   * Scratch is for one call at a time, so all kernels use the same; it grows and stays.
   * @param {GpuKernel[]} kernels
   * @param {Bound} bound
   */
  #addScratch(kernels, { scratch }) {
    const wanted = kernels.map((k) => k.document.scratch);
    for (let i = 0; i < Math.max(0, ...wanted.map((s) => s.length)); i++) {
      const nbytes = Math.max(...wanted.map((s) => s[i] ?? 0));
      const old = this.#bound?.scratch[i];
      scratch.push(old && old.nbytes >= nbytes ? old : this.device.createBuffer(nbytes, `scratch ${i}`));
    }
  }

  /**
   * Runs all calls of a new kernel once: what the GPU refuses, it refuses now.
   * @param {GpuKernel} kernel
   * @param {Bound} bound
   */
  async #try(kernel, bound) {
    const stateful = this.#plans.some(({ plan }) =>
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

  /**
   * @param {Bound} bound
   * @param {Bound | null} kept whose buffers stay
   */
  #free({ arena, scratch }, kept) {
    for (const buffer of [...arena, ...scratch])
      if (!kept?.arena.includes(buffer) && !kept?.scratch.includes(buffer)) this.device.destroyBuffer(buffer);
  }

  /**
   * @param {number} index of the plan
   * @param {number} buffer
   * @param {Bound | null} [bound]
   * @returns {Binding}
   */
  #where(index, buffer, bound = this.#bound) {
    const planned = this.#plans[index].plan.buffers[buffer];
    if (planned.region === "arena") {
      const at = bound?.places[index].get(buffer);
      if (!bound || at === undefined) throw new EngineError(`Buffer ${buffer} of the plan has no place yet.`, "Register a kernel for every workload.");
      return { buffer: bound.arena[at], offset: 0, size: words(planned.nbytes) };
    }
    const store = /** @type {Store} */ (planned.region === "state" ? this.#state : this.#weights);
    const found = store.find(planned);
    return { buffer: found, offset: 0, size: found.nbytes };
  }

  /**
   * @param {Plan} plan
   * @param {Tensor[]} inputs
   */
  #feeds(plan, inputs) {
    const feeds = feedsOf(plan, inputs);
    checkSlots(plan, feeds);
    return feeds;
  }

  /**
   * @param {number} index of the plan
   * @param {readonly {buffer: number, data: Uint8Array}[]} feeds
   */
  #write(index, feeds) {
    for (const { buffer, data } of feeds) this.device.write(this.#where(index, buffer).buffer, 0, padded(data));
  }

  /** @param {readonly Call[]} calls of a plan, after its inputs were written */
  #run(calls) {
    calls.forEach(({ commands }, i) => {
      if (i && i % SUBMITTED_CALLS === 0) this.device.flush();
      this.device.encode(commands);
    });
  }

  /**
   * All outputs in one readback.
   * @param {number} index of the plan
   * @returns {Promise<Tensor[]>}
   */
  async #outputs(index) {
    const { outputs } = this.#plans[index].plan;
    const parts = outputs.map(({ spec, buffer }) => ({ ...this.#where(index, buffer), size: words(specBytes(spec)) }));
    const read = this.#gather.start(parts);
    parts.forEach((_, i) => read.copy(i));
    const data = await read.bytes();
    return outputs.map(({ spec }, i) => ({ ...spec, data: data[i].slice(0, specBytes(spec)) }));
  }

  /**
   * @param {number} index of the plan
   * @param {import("../../types/engine.js").Tap[]} taps
   */
  async #runTapped(index, taps) {
    // whole words around what is asked for
    const parts = taps.map(({ buffer, offset, nbytes }) => {
      const at = this.#where(index, buffer);
      const begin = Math.floor(offset / 4) * 4;
      return { ...at, offset: at.offset + begin, size: Math.min(words(offset + nbytes), at.size) - begin };
    });
    const read = this.#gather.start(parts);
    this.#calls(index).forEach(({ commands }, step) => {
      this.device.encode(commands);
      taps.forEach((tap, i) => tap.step === step && read.copy(i));
    });
    const data = await read.bytes();
    return taps.map(({ offset, nbytes }, i) => data[i].slice(offset % 4, (offset % 4) + nbytes));
  }
}

/** @param {readonly GpuBuf[]} buffers */
const whole = (buffers) => buffers.map((buffer) => ({ buffer, offset: 0, size: buffer.nbytes }));

/** @param {BufferSource} source */
const bytesOf = (source) => (source instanceof Uint8Array ? source : new Uint8Array(/** @type {ArrayBuffer} */ (source)));
