/** The plan interpreter: one model, its plans over one memory, its kernels. */
import { EngineError } from "./errors.js";
import { compileKernel, headerOf, linkKernel } from "./kernel.js";
import {
  checkPlans, checkWeights, countsOf, feedsOf, layoutMemory, MAIN, missing, named, outputOf, PAGE_BYTES, specBytes, unitOf, wantedWidths, WEIGHTS_BASE,
} from "./plan.js";
import { relayout } from "./repack.js";
import { addStep, bindCalls, checkRuns, execute, newInference, repeatable, runTapped, timeSteps } from "./steps.js";

/** @import { Call, Inference, Loaded, NewKernel, Plan, PlanPort, ReadyKernel, Registered, Tap, Tensor, Weight } from "../types/engine.js" */
/** @import { Sizes } from "./open/sizes.js" */
/** @import { Team } from "./team.js" */

const MAX_SPARE = 8;
/** Addresses have 32 bits. */
const MOST_PAGES = 65536;

export class Engine {
  /** @type {Uint8Array[]} of outputs that were given back */ #spare = [];
  /** @type {Team | null} */ #team;
  /** @type {Map<string, Loaded>} by name; `MAIN` comes first */ #plans = new Map();
  /** @type {Map<string, Registered>} by workload */ #kernels = new Map();
  /** @type {Map<number, Weight>} packable weights by offset */ #weights = new Map();
  /** @type {Sizes | null} of a model that takes any size */ #sizes = null;

  /** @param {Team | null} [team] threads to run on; it stays its owner's to close */
  constructor(team = null) {
    this.#team = team;
  }

  /**
   * Drops any model and makes the memory of this one, zeroed, in its exact size.
   * @param {Plan} plan
   * @param {Record<string, Plan>} [others] further plans over the same weights and state, by name
   * @param {Sizes | null} [sizes] make plans for inputs of any size; `plan` then calls every kernel, and memory grows
   * @returns {number} bytes of linear memory
   */
  load(plan, others = {}, sizes = null) {
    this.dispose();
    const all = Object.entries({ [MAIN]: plan, ...others });
    const loops = sizes?.loops ?? null;
    checkPlans(all.map(([, each]) => each), loops);
    const { pages, state, total_bytes, addresses } = layoutMemory(all.map(([, each]) => each));
    let memory;
    try {
      memory = new WebAssembly.Memory({ initial: pages, maximum: sizes ? MOST_PAGES : pages, shared: this.#team !== null });
    } catch {
      throw new EngineError(
        `The browser gives no ${Math.ceil(total_bytes / 2 ** 20)} MiB of memory for ${plan.name}.`,
        "Close other pages or use a smaller model.",
      );
    }
    for (const [i, [name, each]] of all.entries()) {
      this.#plans.set(name, { plan: each, memory, state, addresses: addresses[i], loops, calls: null });
      for (const buffer of each.buffers) if (buffer.pack) this.#weights.set(buffer.offset, { buffer, pack: buffer.pack, width: 0 });
    }
    this.#sizes = sizes;
    this.#bindAll();
    return pages * PAGE_BYTES;
  }

  /** Lets go of memory and kernels; the engine can load again. */
  dispose() {
    this.#plans.clear();
    this.#sizes = null;
    this.#team?.drop([...this.#kernels.values()].map(({ id }) => id));
    this.#kernels.clear();
    this.#weights.clear();
    this.#spare = [];
  }

  /** Zeroes the state: what runs have kept for later ones. */
  reset() {
    const { plan, state } = this.#named();
    this.#bytes(state, plan.state_bytes ?? 0).fill(0);
  }

  /**
   * Copies a part of the weights file to its place; packable weights are row-major in it.
   * @param {number} offset in the weights file
   * @param {Uint8Array} bytes
   */
  setWeights(offset, bytes) {
    checkWeights(this.#named().plan, offset, bytes);
    for (const { buffer: b, width } of this.#weights.values()) {
      if (width && offset < b.offset + b.nbytes && b.offset < offset + bytes.length)
        throw new EngineError(
          `The weight at ${b.offset} is already packed for a kernel.`,
          "Send all weights before the kernels, or load the plan again.",
        );
    }
    this.#bytes(WEIGHTS_BASE + offset, bytes.length).set(bytes);
  }

  /**
   * A view of the loaded weights, valid until the next call of any method.
   * @param {number} nbytes
   * @param {number} [offset] in the weights file
   */
  weights(nbytes, offset = 0) {
    return this.#bytes(WEIGHTS_BASE + offset, nbytes);
  }

  /**
   * Replaces the kernels of the named workloads, all or none, and repacks the
   * weights whose panel width changes. Between two inferences by its nature:
   * the swap itself is synchronous.
   *
   * @param {(NewKernel | ReadyKernel)[]} kernels
   * @param {{only?: boolean}} [options] `only` drops all other kernels
   * @returns {Promise<{repack_ms: number}>}
   */
  async register(kernels, { only = false } = {}) {
    const { memory } = this.#named();
    const linked = await this.link(kernels);
    const next = new Map([...(only ? [] : this.#kernels), ...linked]);
    let widths;
    try {
      if (this.#plans.get(MAIN)?.memory !== memory) throw new EngineError("The model was dropped while its kernels were registered.");
      widths = wantedWidths(Object.values(this.plans), next, this.#weights);
    } catch (e) {
      this.#team?.drop([...linked.values()].map(({ id }) => id));
      throw e;
    }
    const start = performance.now();
    for (const [weight, width] of widths) this.repack(weight, width);
    const repack_ms = performance.now() - start;
    const replaced = [...this.#kernels].filter(([workload, kernel]) => next.get(workload) !== kernel);
    this.#team?.drop(replaced.map(([, { id }]) => id));
    this.#kernels = next;
    this.#bindAll();
    return { repack_ms };
  }

  /** The parts of a loaded model, for trials of other kernels in it. */
  inside(name = MAIN) {
    const loaded = this.#named(name);
    return { loaded, calls: this.#calls(loaded), kernels: this.#kernels, weights: this.#weights, team: this.#team };
  }

  /**
   * Compiles kernels and links them, in every thread of the team.
   * @param {(NewKernel | ReadyKernel)[]} kernels
   * @returns {Promise<Map<string, Registered>>}
   */
  async link(kernels) {
    const { memory } = this.#named();
    const team = this.#team;
    const linked = [];
    for (const kernel of kernels) {
      const { workload } = kernel;
      const [pointers, other] = countsOf(Object.values(this.plans), workload);
      if (other !== undefined) throw new EngineError(`The plan calls ${workload} with different numbers of arguments.`);
      const module = "module" in kernel ? kernel.module : await compileKernel(kernel.bytes, workload, team !== null);
      const choice = (kernel.parallel_extent > 1 && team?.choice()) || null;
      linked.push({ header: headerOf(kernel), module, run: await linkKernel(module, memory, pointers, workload), choice });
    }
    const ids = (await team?.add(memory, linked.map(({ module }) => module))) ?? [];
    return new Map(linked.map(({ module: _, ...kernel }, i) => [kernel.header.workload, { ...kernel, id: ids[i] ?? 0 }]));
  }

  /**
   * Runs the plan `runs` times. Inputs are written before each run, since the
   * plan may reuse their memory; that copy is part of the run's time.
   *
   * @param {Tensor[]} inputs
   * @param {{runs?: number, profile?: boolean, least_step_ms?: number, taps?: Tap[], plan?: string}} [options]
   * `least_step_ms` is how long a profiled step is looked at; with `taps` there is one run, and copies instead of outputs
   * @returns {Inference} outputs of the last run; median ms, its IQR and threads of every call with `profile`
   */
  infer(inputs, { runs = 1, profile = false, least_step_ms = 0, taps = [], plan: name = MAIN } = {}) {
    const loaded = this.#for(inputs, name);
    const feeds = this.#feeds(loaded, inputs);
    const calls = this.#calls(loaded);
    checkRuns(runs, taps, loaded.plan, calls.length);
    const steps = calls.map((call) => () => execute(call));
    const result = newInference();
    const profiled = profile && !taps.length ? this.#profile(loaded.plan, calls, steps, least_step_ms) : null;
    const run = taps.length
      ? () => void (result.taps = runTapped(steps, taps, ({ buffer, offset, nbytes }) => this.#copyOut(loaded.addresses[buffer] + offset, nbytes)))
      : (profiled?.run ?? (() => calls.forEach(execute)));
    for (let r = 0; r < (taps.length ? 1 : runs); r++) {
      const start = performance.now();
      for (const { address, data } of feeds) this.#bytes(address, data.length).set(data);
      run();
      result.runs_ms.push(performance.now() - start);
    }
    profiled?.tell(result);
    if (!taps.length) result.outputs = loaded.plan.outputs.map((port) => this.#result(loaded, port));
    return result;
  }

  /**
   * A run on this thread alone, whose steps are asked for one by one; none after another run has begun.
   * @param {Tensor[]} inputs
   * @returns {Generator<void>}
   */
  *stepwise(inputs) {
    const loaded = this.#for(inputs, MAIN);
    for (const { address, data } of this.#feeds(loaded, inputs)) this.#bytes(address, data.length).set(data);
    for (const { solo } of this.#calls(loaded)) yield solo();
  }

  /**
   * Runs that time each step, and what they found.
   * @param {Plan} plan
   * @param {Call[]} calls
   * @param {(() => void)[]} steps
   * @param {number} least_ms how long a step is looked at
   */
  #profile(plan, calls, steps, least_ms) {
    const repeats = repeatable(plan);
    const taken = () => this.#team?.taken() ?? [];
    const chunks = calls.map(() => /** @type {number[]} */ ([]));
    /** @type {number[][]} ms of each step, for each run */
    const times = [];
    let before = taken();
    const count = (/** @type {number} */ i) => {
      const now = taken();
      chunks[i] = now.map((n, thread) => (chunks[i][thread] ?? 0) + n - before[thread]);
      before = now;
    };
    const tell = (/** @type {Inference} */ result) =>
      calls.forEach(({ kernel, choice }, i) => {
        if (kernel) addStep(result, times.map((run) => run[i]), (choice?.team && this.#team?.threads) || 1, chunks[i]);
      });
    return { run: () => void times.push(timeSteps(steps, repeats, least_ms, count)), tell };
  }

  /**
   * Runs a plan again and again with what its inputs' bytes hold then; outputs stay where
   * they are ({@link Engine.output}). A run makes no objects: a token loop would leave
   * megabytes of them, which browsers collect late.
   *
   * @param {Tensor[]} inputs
   * @param {string} [name] of the plan
   * @returns {() => void}
   */
  stepper(inputs, name = MAIN) {
    const loaded = this.#named(name);
    const feeds = this.#feeds(loaded, inputs);
    /** @type {Uint8Array[]} */
    let views = [];
    return () => {
      const calls = this.#calls(loaded);
      if (!views[0]?.length) views = feeds.map(({ address, data }) => this.#bytes(address, data.length));
      for (let i = 0; i < views.length; i++) views[i].set(feeds[i].data);
      for (let i = 0; i < calls.length; i++) execute(calls[i]);
    };
  }

  /**
   * An output of the last run, in place: valid until the next call of any method.
   * @param {string} output
   * @param {string} [name] of the plan
   * @returns {Tensor}
   */
  output(output, name = MAIN) {
    const { plan, addresses } = this.#named(name);
    const { spec, buffer } = outputOf(plan, output);
    return { ...spec, data: this.#bytes(addresses[buffer], specBytes(spec)) };
  }

  /** Bytes of the linear memory, as it is now. */
  get memoryBytes() {
    return this.#named().memory.buffer.byteLength;
  }

  /** The plans that are loaded, by name. */
  get plans() {
    return Object.fromEntries([...this.#plans].map(([name, { plan }]) => [name, plan]));
  }

  /**
   * Takes the bytes of an output back; a later run writes an output of that size there.
   * Pages of memory that a browser has to find cost far more than the copy into them.
   * @param {Uint8Array} bytes that nobody reads any more
   */
  recycle(bytes) {
    if (this.#plans.size && this.#spare.length < MAX_SPARE) this.#spare.push(bytes);
  }

  /** A copy of what is there of an output. @param {Loaded} loaded @param {PlanPort} port @returns {Tensor} */
  #result({ memory, addresses }, { spec, buffer, found }) {
    const count = found && new BigInt64Array(memory.buffer, addresses[found.count], 1)[0];
    const shape = spec.shape.map((d, i) => (i === found?.axis ? Math.min(d, Number(count)) : d));
    const lines = shape.slice(0, found?.axis ?? 0).reduce((n, d) => n * d, 1);
    return { ...spec, shape, data: this.#copyOut(addresses[buffer], specBytes({ ...spec, shape }), lines, specBytes(spec) / lines) };
  }

  /** @param {number} address @param {number} nbytes @param {number} [lines] they are of @param {number} [step] between these */
  #copyOut(address, nbytes, lines = 1, step = 0) {
    const i = this.#spare.findIndex((b) => b.length === nbytes);
    const bytes = i < 0 ? new Uint8Array(nbytes) : this.#spare.splice(i, 1)[0];
    const part = nbytes / lines;
    for (let line = 0; line < lines; line++) bytes.set(this.#bytes(address + line * step, part), line * part);
    return bytes;
  }

  #named(name = MAIN) {
    return named(this.#plans, name);
  }

  /**
   * A fresh view: an old one would be detached if a kernel had grown the memory.
   * @param {number} address
   * @param {number} nbytes
   */
  #bytes(address, nbytes) {
    return new Uint8Array(this.#named().memory.buffer, address, nbytes);
  }

  /** @param {Weight} weight @param {number} width */
  repack(weight, width) {
    relayout(this.#named().memory.buffer, WEIGHTS_BASE + weight.buffer.offset, ...weight.pack, weight.width, width, unitOf(weight.buffer));
    weight.width = width;
  }

  /** The plan that takes these inputs. @param {Tensor[]} inputs @param {string} name */
  #for(inputs, name) {
    const loaded = this.#named(name);
    const sized = this.#sizes?.at(inputs, loaded.memory);
    if (sized) sized.calls ??= bindCalls(sized, this.#kernels, this.#team);
    return sized ?? loaded;
  }

  #bindAll() {
    this.#sizes?.clear();
    for (const loaded of this.#plans.values()) loaded.calls = bindCalls(loaded, this.#kernels, this.#team);
  }

  /** @param {Loaded} loaded */
  #calls({ plan, calls }) {
    if (!calls) throw missing(plan, this.#kernels);
    return calls;
  }

  /** @param {Loaded} loaded @param {Tensor[]} inputs */
  #feeds({ plan, addresses }, inputs) {
    return feedsOf(plan, inputs).map(({ buffer, data }) => ({ address: addresses[buffer], data }));
  }
}
