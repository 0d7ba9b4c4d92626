/** The plan interpreter: one model, its memory, its kernels. */
import { Choice } from "./choice.js";
import { EngineError } from "./errors.js";
import { compileKernel, linkKernel } from "./kernel.js";
import { checkPlan, layoutMemory, PAGE_BYTES, specBytes, WEIGHTS_BASE } from "./plan.js";
import { layoutBytes, relayout } from "./repack.js";

/** @typedef {import("./plan.js").Plan} Plan */
/** @typedef {import("./plan.js").TensorSpec} TensorSpec */
/** @typedef {import("./kernel.js").KernelHeader} KernelHeader */
/** @typedef {import("./kernel.js").Run} Run */
/** @typedef {KernelHeader & {bytes: BufferSource}} NewKernel */
/** @typedef {TensorSpec & {data: Uint8Array}} Tensor */
/** @typedef {{outputs: Tensor[], runs_ms: number[], steps_ms: number[], steps_threads: number[]}} Inference */
/**
 * `id` is the team's name for it; `choice` is null where there is no team, or nothing to share.
 * @typedef {{header: KernelHeader, run: Run, id: number, choice: Choice | null}} Registered
 */
/** @typedef {{kernel: Registered, solo: () => void, team: () => void}} Call */

const MAX_SPARE = 8;

export class Engine {
  /** @type {Uint8Array[]} of outputs that were given back */ #spare = [];
  /** @type {import("./team.js").Team | null} */ #team;
  /** @type {Plan | null} */ #plan = null;
  /** @type {import("./plan.js").Layout | null} */ #layout = null;
  /** @type {WebAssembly.Memory | null} */ #memory = null;
  /** @type {Map<string, Registered>} by workload */ #kernels = new Map();
  /** @type {Map<number, number>} panel width of each packable buffer */ #widths = new Map();
  /** @type {Call[] | null} null until every workload has a kernel */ #calls = null;

  /** @param {import("./team.js").Team | null} [team] threads to run on; it stays its owner's to close */
  constructor(team = null) {
    this.#team = team;
  }

  /**
   * Drops any model and makes the memory of this one, zeroed, in its exact size.
   * @param {Plan} plan
   * @returns {number} bytes of linear memory
   */
  load(plan) {
    this.dispose();
    checkPlan(plan);
    const layout = layoutMemory(plan);
    try {
      this.#memory = new WebAssembly.Memory({ initial: layout.pages, maximum: layout.pages, shared: this.#team !== null });
    } catch {
      throw new EngineError(
        `The browser gives no ${Math.ceil(layout.total_bytes / 2 ** 20)} MiB of memory for ${plan.name}.`,
        "Close other pages or use a smaller model.",
      );
    }
    this.#plan = plan;
    this.#layout = layout;
    plan.buffers.forEach((b, i) => b.pack && this.#widths.set(i, 0));
    this.#calls = this.#bind(plan);
    return layout.pages * PAGE_BYTES;
  }

  /** Lets go of memory and kernels; the engine can load again. */
  dispose() {
    this.#plan = this.#layout = this.#memory = this.#calls = null;
    this.#team?.drop([...this.#kernels.values()].map(({ id }) => id));
    this.#kernels.clear();
    this.#widths.clear();
    this.#spare = [];
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
    for (const [i, width] of this.#widths) {
      const b = plan.buffers[i];
      if (width && offset < b.offset + b.nbytes && b.offset < offset + bytes.length)
        throw new EngineError(
          `The weight in buffer ${i} is already packed for a kernel.`,
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
   * @returns {Promise<{repack_ms: number}>}
   */
  async register(kernels) {
    const { plan, memory } = this.#loaded();
    const linked = await this.#link(kernels);
    const next = new Map([...this.#kernels, ...linked]);
    let widths;
    try {
      if (this.#memory !== memory) throw new EngineError("The model was dropped while its kernels were registered.");
      widths = this.#wantedWidths(next);
    } catch (e) {
      this.#team?.drop([...linked.values()].map(({ id }) => id));
      throw e;
    }
    const start = performance.now();
    for (const [i, width] of widths) this.#repack(i, width);
    const repack_ms = performance.now() - start;
    this.#team?.drop([...linked.keys()].flatMap((workload) => this.#kernels.get(workload)?.id ?? []));
    this.#kernels = next;
    this.#calls = this.#bind(plan);
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
   * @param {{runs?: number, profile?: boolean}} [options]
   * @returns {Inference} outputs of the last run; median ms and threads of every call with `profile`
   */
  infer(inputs, { runs = 1, profile = false } = {}) {
    const { plan, layout } = this.#loaded();
    if (!(Number.isInteger(runs) && runs >= 1)) throw new EngineError(`The number of runs must be at least 1, not ${runs}.`);
    const feeds = this.#feeds(inputs);
    const calls = this.#calls ?? this.#missing();
    /** @type {number[]} */
    const runs_ms = [];
    /** @type {number[][]} */
    const marks = [];
    for (let r = 0; r < runs; r++) {
      const start = performance.now();
      for (const { address, data } of feeds) this.#bytes(address, data.length).set(data);
      if (profile) marks.push(timedCalls(calls));
      else calls.forEach(execute);
      runs_ms.push(performance.now() - start);
    }
    const steps_threads = profile ? calls.map(({ kernel }) => (kernel.choice?.team && this.#team?.threads) || 1) : [];
    const steps_ms = profile ? calls.map((_, i) => median(marks.map((m) => m[i + 1] - m[i]))) : [];
    const outputs = plan.outputs.map(({ spec, buffer }) => ({
      ...spec,
      data: this.#copyOut(layout.addresses[buffer], specBytes(spec)),
    }));
    return { outputs, runs_ms, steps_ms, steps_threads };
  }

  /**
   * Takes the bytes of an output back; a later run writes an output of that size there.
   * Pages of memory that a browser has to find cost far more than the copy into them.
   * @param {Uint8Array} bytes that nobody reads any more
   */
  recycle(bytes) {
    if (this.#plan && this.#spare.length < MAX_SPARE) this.#spare.push(bytes);
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
    if (!this.#plan || !this.#layout || !this.#memory)
      throw new EngineError("No model is loaded.", "Load a plan first.");
    return { plan: this.#plan, layout: this.#layout, memory: this.#memory };
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
    return this.#loaded().plan.steps.filter((s) => s.op === "call" && s.workload === workload);
  }

  /**
   * Panel width of every packable buffer that a registered kernel reads.
   * @param {Map<string, Registered>} kernels
   * @returns {Map<number, number>}
   */
  #wantedWidths(kernels) {
    const { plan } = this.#loaded();
    /** @type {Map<number, number>} */
    const widths = new Map();
    for (const step of plan.steps) {
      const header = kernels.get(step.workload)?.header;
      if (step.op !== "call" || !header) continue;
      const panels = new Map(header.panels);
      for (const arg of panels.keys())
        if (!(arg in step.args)) throw new EngineError(`The kernel of ${step.workload} has no argument ${arg} to pack.`);
      step.args.forEach((buffer, arg) => {
        const { pack, nbytes } = plan.buffers[buffer];
        const width = panels.get(arg) ?? 0;
        if (width && !pack)
          throw new EngineError(`The kernel of ${step.workload} wants panels in argument ${arg}, which is no packable weight.`);
        if (!pack) return;
        if (!(Number.isInteger(width) && width >= 0) || layoutBytes(...pack, width) > nbytes)
          throw new EngineError(`Panels of width ${width} do not fit into the weight of ${step.node || step.workload}.`);
        if ((widths.get(buffer) ?? width) !== width)
          throw new EngineError(
            `Two kernels want the weight in buffer ${buffer} in panels of ${widths.get(buffer)} and of ${width}.`,
            "Register kernels that agree on the width, or row-major ones.",
          );
        widths.set(buffer, width);
      });
    }
    return widths;
  }

  /**
   * @param {number} buffer
   * @param {number} width
   */
  #repack(buffer, width) {
    const { plan, layout, memory } = this.#loaded();
    const [K, N] = /** @type {[number, number]} */ (plan.buffers[buffer].pack);
    const from = this.#widths.get(buffer) ?? 0;
    relayout(memory.buffer, layout.addresses[buffer], layout.scratch, K, N, from, width);
    this.#widths.set(buffer, width);
  }

  /**
   * The straight-line program, up to `return`; null while a kernel is missing.
   * @param {Plan} plan
   * @returns {Call[] | null}
   */
  #bind(plan) {
    const addresses = this.#loaded().layout.addresses;
    const team = this.#team;
    const calls = [];
    for (const step of plan.steps) {
      if (step.op === "return") break;
      const kernel = this.#kernels.get(step.workload);
      if (!kernel) return null;
      const { run, id } = kernel;
      const { parallel_extent } = kernel.header;
      const pointers = step.args.map((b) => addresses[b]);
      calls.push({
        kernel,
        solo: () => run(...pointers, 0, parallel_extent),
        team: () => team?.run(id, run, pointers, parallel_extent),
      });
    }
    return calls;
  }

  /** @returns {never} */
  #missing() {
    const step = this.#loaded().plan.steps.find((s) => s.op === "call" && !this.#kernels.has(s.workload));
    throw new EngineError(`No kernel is registered for ${step?.workload ?? "the plan"}.`, "Register one for every workload.");
  }

  /**
   * @param {Tensor[]} inputs
   * @returns {{address: number, data: Uint8Array}[]}
   */
  #feeds(inputs) {
    const { plan, layout } = this.#loaded();
    const names = plan.inputs.map((p) => p.spec.name).join(", ");
    const extra = inputs.find((t) => !plan.inputs.some((p) => p.spec.name === t.name));
    if (extra) throw new EngineError(`The model has no input "${extra.name}".`, `Its inputs are ${names}.`);
    return plan.inputs.map(({ spec, buffer }) => {
      const tensor = inputs.find((t) => t.name === spec.name);
      if (!tensor) throw new EngineError(`The input "${spec.name}" is missing.`, `The model's inputs are ${names}.`);
      if (tensor.dtype !== spec.dtype)
        throw new EngineError(`The input "${spec.name}" has dtype ${tensor.dtype}, the model wants ${spec.dtype}.`);
      if (tensor.shape.length !== spec.shape.length || tensor.shape.some((d, i) => d !== spec.shape[i]))
        throw new EngineError(
          `The input "${spec.name}" has shape [${tensor.shape}], the model wants [${spec.shape}].`,
          "Shapes are fixed when the model is compiled.",
        );
      if (tensor.data.length !== specBytes(spec))
        throw new EngineError(`The input "${spec.name}" has ${tensor.data.length} bytes, its shape needs ${specBytes(spec)}.`);
      return { address: layout.addresses[buffer], data: tensor.data };
    });
  }
}

/** @param {Call} call */
function execute({ kernel, solo, team }) {
  if (kernel.choice) kernel.choice.run(solo, team);
  else solo();
}

/**
 * Runs all calls and reads the clock between them.
 * @param {Call[]} calls
 */
function timedCalls(calls) {
  const marks = [performance.now()];
  for (const call of calls) {
    execute(call);
    marks.push(performance.now());
  }
  return marks;
}

/**
 * @param {number[]} values at least one
 */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}
