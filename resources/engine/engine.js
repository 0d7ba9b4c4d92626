/** The plan interpreter: one model, its plans over one memory, its kernels. */
import { appendRows } from "./append.js";
import { Choice } from "./choice.js";
import { EngineError } from "./errors.js";
import { feedsOf } from "./feeds.js";
import { compileKernel, linkKernel } from "./kernel.js";
import { checkPlan, checkTogether, layoutMemory, PAGE_BYTES, specBytes, unitOf, WEIGHTS_BASE } from "./plan.js";
import { layoutBytes, relayout } from "./repack.js";
import { checkTaps, quantile, repeatable, runTapped, timeSteps } from "./steps.js";

/** @typedef {import("../types/engine.js").Call} Call */
/** @typedef {import("../types/engine.js").Inference} Inference */
/** @typedef {import("../types/engine.js").Loaded} Loaded */
/** @typedef {import("../types/engine.js").NewKernel} NewKernel */
/** @typedef {import("../types/engine.js").Plan} Plan */
/** @typedef {import("../types/engine.js").Registered} Registered */
/** @typedef {import("../types/engine.js").Run} Run */
/** @typedef {import("../types/engine.js").Tensor} Tensor */
/** @typedef {import("../types/engine.js").Weight} Weight */

const MAX_SPARE = 8;

/** The name of the plan that runs when none is named. */
export const MAIN = "main";
/** The name of a decoder's plan that takes a whole prompt. */
export const PREFILL = "prefill";

export class Engine {
  /** @type {Uint8Array[]} of outputs that were given back */ #spare = [];
  /** @type {import("./team.js").Team | null} */ #team;
  /** @type {Map<string, Loaded>} by name; `MAIN` comes first */ #plans = new Map();
  /** @type {import("../types/engine.js").Layout | null} */ #layout = null;
  /** @type {WebAssembly.Memory | null} */ #memory = null;
  /** @type {Map<string, Registered>} by workload */ #kernels = new Map();
  /** @type {Map<number, Weight>} packable weights by offset */ #weights = new Map();

  /** @param {import("./team.js").Team | null} [team] threads to run on; it stays its owner's to close */
  constructor(team = null) {
    this.#team = team;
  }

  /**
   * Drops any model and makes the memory of this one, zeroed, in its exact size.
   * @param {Plan} plan
   * @param {Record<string, Plan>} [others] further plans over the same weights and state, by name
   * @returns {number} bytes of linear memory
   */
  load(plan, others = {}) {
    this.dispose();
    const named = Object.entries({ [MAIN]: plan, ...others });
    for (const [, each] of named) {
      checkPlan(each);
      checkTogether(plan, each);
    }
    const layout = layoutMemory(plan, Object.values(others));
    try {
      this.#memory = new WebAssembly.Memory({ initial: layout.pages, maximum: layout.pages, shared: this.#team !== null });
    } catch {
      throw new EngineError(
        `The browser gives no ${Math.ceil(layout.total_bytes / 2 ** 20)} MiB of memory for ${plan.name}.`,
        "Close other pages or use a smaller model.",
      );
    }
    this.#layout = layout;
    this.#plans = new Map(named.map(([name, each], i) => [name, { plan: each, addresses: layout.addresses[i], calls: null }]));
    for (const [, each] of named)
      for (const buffer of each.buffers) if (buffer.pack) this.#weights.set(buffer.offset, { buffer, pack: buffer.pack, width: 0 });
    this.#bindAll();
    return layout.pages * PAGE_BYTES;
  }

  /** Lets go of memory and kernels; the engine can load again. */
  dispose() {
    this.#layout = this.#memory = null;
    this.#plans = new Map();
    this.#team?.drop([...this.#kernels.values()].map(({ id }) => id));
    this.#kernels.clear();
    this.#weights.clear();
    this.#spare = [];
  }

  /** Zeroes the state: what runs have kept for later ones. */
  reset() {
    const { plan, layout } = this.#loaded();
    this.#bytes(layout.state, plan.state_bytes ?? 0).fill(0);
  }

  /**
   * Copies a part of the weights file to its place; packable weights are row-major in it.
   * @param {number} offset in the weights file
   * @param {Uint8Array} bytes
   */
  setWeights(offset, bytes) {
    const { plan } = this.#loaded();
    if (!(offset >= 0) || offset + bytes.length > plan.weights_bytes)
      throw new EngineError(
        `Weights at ${offset}..${offset + bytes.length} lie outside the ${plan.weights_bytes} bytes of the plan.`,
      );
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
   */
  weights(nbytes) {
    return this.#bytes(WEIGHTS_BASE, nbytes);
  }

  /**
   * Replaces the kernels of the named workloads, all or none, and repacks the
   * weights whose panel width changes. Between two inferences by its nature:
   * the swap itself is synchronous.
   *
   * @param {NewKernel[]} kernels
   * @param {{only?: boolean}} [options] `only` drops all other kernels
   * @returns {Promise<{repack_ms: number}>}
   */
  async register(kernels, { only = false } = {}) {
    const { memory } = this.#loaded();
    const linked = await this.#link(kernels);
    const next = new Map([...(only ? [] : this.#kernels), ...linked]);
    let widths;
    try {
      if (this.#memory !== memory) throw new EngineError("The model was dropped while its kernels were registered.");
      widths = this.#wantedWidths(next);
    } catch (e) {
      this.#team?.drop([...linked.values()].map(({ id }) => id));
      throw e;
    }
    const start = performance.now();
    for (const [weight, width] of widths) this.#repack(weight, width);
    const repack_ms = performance.now() - start;
    const replaced = [...this.#kernels].filter(([workload, kernel]) => next.get(workload) !== kernel);
    this.#team?.drop(replaced.map(([, { id }]) => id));
    this.#kernels = next;
    this.#bindAll();
    return { repack_ms };
  }

  /**
   * Compiles kernels and links them, in every thread of the team.
   * @param {NewKernel[]} kernels
   * @returns {Promise<Map<string, Registered>>}
   */
  async #link(kernels) {
    const { memory } = this.#loaded();
    const team = this.#team;
    /** @type {WebAssembly.Module[]} */
    const modules = [];
    /** @type {Run[]} */
    const runs = [];
    for (const { bytes, workload } of kernels) {
      const pointers = this.#pointers(workload);
      modules.push(await compileKernel(bytes, workload, team !== null));
      runs.push(await linkKernel(modules[modules.length - 1], memory, pointers, workload));
    }
    const ids = team ? await team.add(memory, modules) : [];
    return new Map(
      kernels.map(({ bytes: _, ...header }, i) => {
        const choice = team && header.parallel_extent > 1 ? new Choice() : null;
        return [header.workload, { header, run: runs[i], id: ids[i] ?? 0, choice }];
      }),
    );
  }

  /**
   * Runs the plan `runs` times. Inputs are written before each run, since the
   * plan may reuse their memory; that copy is part of the run's time.
   *
   * @param {Tensor[]} inputs
   * @param {{runs?: number, profile?: boolean, least_step_ms?: number, taps?: import("../types/engine.js").Tap[], plan?: string}} [options]
   * `least_step_ms` is how long a profiled step is looked at; with `taps` there is one run, and copies instead of outputs
   * @returns {Inference} outputs of the last run; median ms, its IQR and threads of every call with `profile`
   */
  infer(inputs, { runs = 1, profile = false, least_step_ms = 0, taps = [], plan: name = MAIN } = {}) {
    const loaded = this.#named(name);
    if (!(Number.isInteger(runs) && runs >= 1)) throw new EngineError(`The number of runs must be at least 1, not ${runs}.`);
    const feeds = this.#feeds(loaded, inputs);
    const calls = loaded.calls ?? this.#missing(loaded);
    checkTaps(taps, loaded.plan, calls.length);
    const steps = calls.map((call) => () => execute(call));
    const repeats = profile ? repeatable(loaded.plan) : [];
    const chunks = calls.map(() => /** @type {number[]} */ ([]));
    let before = this.#team?.taken() ?? [];
    const count = (/** @type {number} */ i) => {
      const now = this.#team?.taken() ?? [];
      chunks[i] = now.map((n, thread) => (chunks[i][thread] ?? 0) + n - before[thread]);
      before = now;
    };
    /** @type {number[]} */
    const runs_ms = [];
    /** @type {number[][]} ms of each step, for each run */
    const times = [];
    /** @type {Uint8Array[]} */
    let copies = [];
    for (let r = 0; r < (taps.length ? 1 : runs); r++) {
      const start = performance.now();
      for (const { address, data } of feeds) this.#bytes(address, data.length).set(data);
      if (taps.length)
        copies = runTapped(steps, taps, ({ buffer, offset, nbytes }) => this.#copyOut(loaded.addresses[buffer] + offset, nbytes));
      else if (profile) times.push(timeSteps(steps, repeats, least_step_ms, count));
      else calls.forEach(execute);
      runs_ms.push(performance.now() - start);
    }
    /** @type {Inference} */
    const result = { outputs: [], runs_ms, steps_ms: [], steps_iqr_ms: [], steps_threads: [], steps_chunks: [], taps: copies };
    if (times.length)
      calls.forEach(({ kernel }, i) => {
        if (!kernel) return;
        const samples = times.map((run) => run[i]);
        result.steps_threads.push((kernel.choice?.team && this.#team?.threads) || 1);
        result.steps_chunks.push(chunks[i]);
        result.steps_ms.push(quantile(samples, 0.5));
        result.steps_iqr_ms.push(quantile(samples, 0.75) - quantile(samples, 0.25));
      });
    if (!taps.length)
      result.outputs = loaded.plan.outputs.map(({ spec, buffer }) => ({
        ...spec,
        data: this.#copyOut(loaded.addresses[buffer], specBytes(spec)),
      }));
    return result;
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
      const calls = loaded.calls ?? this.#missing(loaded);
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
    const port = plan.outputs.find((p) => p.spec.name === output);
    if (!port) throw new EngineError(`The model has no output "${output}".`);
    return { ...port.spec, data: this.#bytes(addresses[port.buffer], specBytes(port.spec)) };
  }

  /** Bytes of the linear memory, as it is now. */
  get memoryBytes() {
    return this.#loaded().memory.buffer.byteLength;
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

  /**
   * @param {number} address
   * @param {number} nbytes
   */
  #copyOut(address, nbytes) {
    const i = this.#spare.findIndex((b) => b.length === nbytes);
    const bytes = i < 0 ? new Uint8Array(nbytes) : this.#spare.splice(i, 1)[0];
    bytes.set(this.#bytes(address, nbytes));
    return bytes;
  }

  #loaded() {
    const main = this.#plans.get(MAIN);
    if (!main || !this.#layout || !this.#memory) throw new EngineError("No model is loaded.", "Load a plan first.");
    return { plan: main.plan, layout: this.#layout, memory: this.#memory };
  }

  /**
   * @param {string} name
   * @returns {Loaded}
   */
  #named(name) {
    this.#loaded();
    const found = this.#plans.get(name);
    if (!found) throw new EngineError(`The model has no plan "${name}".`, `Its plans are ${[...this.#plans.keys()].join(", ")}.`);
    return found;
  }

  /**
   * A fresh view: an old one would be detached if a kernel had grown the memory.
   * @param {number} address
   * @param {number} nbytes
   */
  #bytes(address, nbytes) {
    return new Uint8Array(this.#loaded().memory.buffer, address, nbytes);
  }

  /** @param {string} workload */
  #pointers(workload) {
    const counts = new Set(this.#steps(workload).map((s) => s.args.length));
    if (counts.size === 0) throw new EngineError(`The model has no workload ${workload}.`);
    if (counts.size > 1) throw new EngineError(`The plan calls ${workload} with different numbers of arguments.`);
    return /** @type {number} */ (counts.values().next().value);
  }

  /** @param {string} workload */
  #steps(workload) {
    this.#loaded();
    return [...this.#plans.values()].flatMap(({ plan }) => plan.steps.filter((s) => s.op === "call" && s.workload === workload));
  }

  /**
   * Panel width of every packable weight that a registered kernel reads.
   * @param {Map<string, Registered>} kernels
   * @returns {Map<Weight, number>}
   */
  #wantedWidths(kernels) {
    /** @type {Map<Weight, number>} */
    const widths = new Map();
    for (const { plan } of this.#plans.values()) this.#addWidths(plan, kernels, widths);
    return widths;
  }

  /**
   * @param {Plan} plan
   * @param {Map<string, Registered>} kernels
   * @param {Map<Weight, number>} widths
   */
  #addWidths(plan, kernels, widths) {
    for (const step of plan.steps) {
      const header = kernels.get(step.workload)?.header;
      if (step.op !== "call" || !header) continue;
      const panels = new Map(header.panels);
      for (const arg of panels.keys())
        if (!(arg in step.args)) throw new EngineError(`The kernel of ${step.workload} has no argument ${arg} to pack.`);
      step.args.forEach((buffer, arg) => {
        const { pack, nbytes, offset } = plan.buffers[buffer];
        const unit = unitOf(plan.buffers[buffer]);
        const width = panels.get(arg) ?? 0;
        if (width && !pack)
          throw new EngineError(`The kernel of ${step.workload} wants panels in argument ${arg}, which is no packable weight.`);
        if (!pack) return;
        if (!(Number.isInteger(width) && width >= 0) || layoutBytes(...pack, width, unit) > nbytes)
          throw new EngineError(`Panels of width ${width} do not fit into the weight of ${step.node || step.workload}.`);
        const weight = /** @type {Weight} */ (this.#weights.get(offset));
        if ((widths.get(weight) ?? width) !== width)
          throw new EngineError(
            `Two kernels want the weight in buffer ${buffer} in panels of ${widths.get(weight)} and of ${width}.`,
            "Register kernels that agree on the width, or row-major ones.",
          );
        widths.set(weight, width);
      });
    }
  }

  /**
   * @param {Weight} weight
   * @param {number} width
   */
  #repack(weight, width) {
    const { memory } = this.#loaded();
    relayout(memory.buffer, WEIGHTS_BASE + weight.buffer.offset, ...weight.pack, weight.width, width, unitOf(weight.buffer));
    weight.width = width;
  }

  #bindAll() {
    for (const loaded of this.#plans.values()) loaded.calls = this.#bind(loaded);
  }

  /**
   * The straight-line program, up to `return`; null while a kernel is missing.
   * @param {Loaded} loaded
   * @returns {Call[] | null}
   */
  #bind({ plan, addresses }) {
    const { memory } = this.#loaded();
    const team = this.#team;
    /** @type {Call[]} */
    const calls = [];
    for (const step of plan.steps) {
      if (step.op === "return") break;
      if (step.append) {
        const { append } = step;
        const [from, to, at] = step.args.map((b) => addresses[b]);
        const run = () => appendRows(memory, append, from, to, at);
        calls.push({ kernel: null, solo: run, team: run });
        continue;
      }
      const kernel = this.#kernels.get(step.workload);
      if (!kernel) return null;
      const { run, id } = kernel;
      const { parallel_extent } = kernel.header;
      const pointers = step.args.map((b) => addresses[b]);
      const whole = [...pointers, 0, parallel_extent];
      calls.push({
        kernel,
        solo: () => run.apply(undefined, whole), // spreading would make an array each time
        team: () => team?.run(id, run, pointers, parallel_extent),
      });
    }
    return calls;
  }

  /**
   * @param {Loaded} loaded
   * @returns {never}
   */
  #missing({ plan }) {
    const step = plan.steps.find((s) => s.op === "call" && !this.#kernels.has(s.workload));
    throw new EngineError(`No kernel is registered for ${step?.workload ?? "the plan"}.`, "Register one for every workload.");
  }

  /**
   * @param {Loaded} loaded
   * @param {Tensor[]} inputs
   */
  #feeds({ plan, addresses }, inputs) {
    return feedsOf(plan, inputs).map(({ buffer, data }) => ({ address: addresses[buffer], data }));
  }
}

/** @param {Call} call */
function execute({ kernel, solo, team }) {
  if (kernel?.choice) kernel.choice.run(solo, team);
  else solo();
}

/**
 * @param {number[]} values at least one
 */
export const median = (values) => quantile(values, 0.5);
