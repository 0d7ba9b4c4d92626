/**
 * A model whose sizes are open, on a GPU. Kernels were compiled once; a size is numbers: those of a
 * uniform block that the kernels read, counts of workgroups, and bytes of buffers.
 */
import { gpuPlanAt } from "../../open/plan.js";
import { OpenModel } from "../../open/model.js";
import { dimsOf, scalarOf, valueOf } from "../../open/size.js";
import { specBytes, stepsOf } from "../../plan.js";
import { checkDocument, readDocument } from "../document.js";
import { livesOf, place } from "../memory.js";

/** @import { OpenPlan, Plan, Scalar, Size, Tensor } from "../../../types/engine.js" */
/** @import { Dims } from "../../open/size.js" */
/** @import { GpuDevice } from "../../../types/gpu.js" */
/** @import { Bound } from "../bound.js" */
/** @import { DocumentDispatch, KernelDocument } from "../document.js" */
/** @import { GpuKernel } from "../kernels.js" */
/** @typedef {Omit<DocumentDispatch, "workgroups"> & {workgroups: [Size, Size, Size]}} OpenDispatch */
/** @typedef {{version: number, sizes: Scalar[], scratch: Size[], requires: string[], dispatches: OpenDispatch[]}} OpenDocument */
/**
 * What a size is; `bound` once it was bound.
 * @typedef {{dims: Dims, plan: Plan, kernels: Map<string, GpuKernel>, block: Uint8Array, bound: Bound | null}} Sized
 */

const VERSION = 2;
/** Where a kernel's part of the block may begin, on any device. */
const ALIGNMENT = 256;
/** Of a vector of the block. */
const VECTOR_BYTES = 16;
/** Buffers that are too small are made for sizes so many times as large, if that costs at most this share of memory. */
const ROOMS = [Infinity, 16, 8, 4, 3, 2.5, 2, 1.5, 1.25];
const ROOM_SHARE = 1 / 20;

/** @extends {OpenModel<Sized>} */
export class GpuSizes extends OpenModel {
  /** @type {Map<string, OpenDocument>} by workload */ #documents = new Map();
  /** @type {Map<string, GpuKernel>} with their parts of the block */ #kernels = new Map();
  /** Of the block. */
  #words = 0;
  #device;

  /** @param {OpenPlan} open @param {Pick<GpuDevice, "counters" | "limits">} device */
  constructor(open, device) {
    super(open);
    this.#device = device;
  }

  /** Of GPU memory, now: it keeps what the largest run took. */
  get memoryBytes() {
    return this.#device.counters.buffer_bytes;
  }

  /** The plan at the sizes of the example. */
  get plan() {
    return gpuPlanAt(this.open, this.open.example);
  }

  /**
   * A kernel's document at the sizes of the example.
   * @param {Uint8Array} bytes
   * @param {string} workload
   */
  parse(bytes, workload) {
    const document = /** @type {OpenDocument} */ (readDocument(bytes, workload, VERSION));
    const sized = checkDocument(documentAt(document, this.open.example), workload, true);
    this.#documents.set(workload, document);
    return sized;
  }

  /**
   * Takes other kernels: what was made for sizes is forgotten.
   * @param {Map<string, GpuKernel>} kernels by workload
   * @returns {Sized} at the sizes of the example
   */
  take(kernels) {
    this.made.clear();
    this.#kernels = new Map();
    this.#words = 0;
    for (const [workload, kernel] of kernels) {
      const size = VECTOR_BYTES * Math.ceil((4 * this.#document(workload).sizes.length) / VECTOR_BYTES);
      this.#kernels.set(workload, { ...kernel, block: { offset: 4 * this.#words, size } });
      this.#words += (ALIGNMENT / 4) * Math.ceil(size / ALIGNMENT);
    }
    return this.sized(this.open.example);
  }

  /** Forgets what was bound, because buffers were replaced. */
  unbind() {
    for (const sized of this.made.values()) sized.bound = null;
  }

  /** @param {Tensor[]} inputs */
  at(inputs) {
    return this.sized(dimsOf(this.open, inputs));
  }

  /**
   * @param {Dims} dims
   * @returns {Sized}
   */
  sized(dims) {
    return this.kept(dims, () => ({ dims, bound: null, plan: gpuPlanAt(this.open, dims), ...this.#numbers(dims) }));
  }

  /** Kernels with their counts, and the block of all. @param {Dims} dims */
  #numbers(dims) {
    /** @type {Map<string, GpuKernel>} */
    const kernels = new Map();
    const words = new Int32Array(this.#words);
    for (const [workload, kernel] of this.#kernels) {
      const open = this.#document(workload);
      const { offset } = /** @type {{offset: number}} */ (kernel.block);
      open.sizes.forEach((scalar, i) => (words[offset / 4 + i] = scalarOf(scalar, dims)));
      kernels.set(workload, { ...kernel, document: documentAt(open, dims) });
    }
    return { kernels, block: new Uint8Array(words.buffer) };
  }

  /** @param {string} workload */
  #document(workload) {
    return /** @type {OpenDocument} */ (this.#documents.get(workload));
  }

  /**
   * Bytes of GPU memory that a size takes.
   * @param {Dims} dims
   */
  memoryAt(dims) {
    const { plan, kernels, block } = this.sized(dims);
    const lives = livesOf(plan, 0, (workload) => /** @type {GpuKernel} */ (kernels.get(workload)).roles);
    const scratch = [...kernels.values()].map(({ document }) => document.scratch);
    const most = Math.max(0, ...scratch.map(({ length }) => length));
    const largest = Array.from({ length: most }, (_, i) => Math.max(...scratch.map((s) => s[i] ?? 0)));
    const outputs = plan.outputs.map(({ spec }) => specBytes(spec));
    return [plan.weights_bytes, block.length, ...place(lives, 1).slots, ...largest, ...outputs].reduce((a, b) => a + b, 0);
  }

  /**
   * The sizes that buffers are made for when these need new ones.
   * @param {Sized} sized
   * @returns {Sized} larger ones that cost little, or the same
   */
  withRoom(sized) {
    if (stepsOf(sized.plan).some(({ op, workload }) => op === "call" && !sized.kernels.has(workload))) return sized; // it cannot run yet
    const most = (1 + ROOM_SHARE) * this.memoryAt(sized.dims);
    const { maxStorageBufferBindingSize: largest } = this.#device.limits;
    const wanted = extentsOf(sized);
    for (const times of ROOMS) {
      const dims = this.#times(sized.dims, times);
      const larger = this.sized(dims);
      if (this.memoryAt(dims) <= most && extentsOf(larger).every((n, i) => n >= wanted[i] && n <= largest)) return larger;
    }
    return sized;
  }

  /** Larger ones, in their ranges. @param {Dims} dims @param {number} times */
  #times(dims, times) {
    const larger = (/** @type {OpenPlan['dims'][number]} */ { name, high, step }) => Math.max(dims[name], step * Math.floor(Math.min(high, times * dims[name]) / step));
    return Object.fromEntries(this.open.dims.map((dim) => [dim.name, larger(dim)]));
  }

  /** One run is enough: no kernel waits for a size. @param {Partial<Dims>} given */
  *warmInputs(given) {
    const { inputs } = this.sized({ .../** @type {Dims} */ (this.open.example), .../** @type {Dims} */ (given) }).plan;
    yield inputs.map(({ spec }) => ({ ...spec, data: new Uint8Array(specBytes(spec)) }));
  }
}

/** Bytes of all values of runs, and of kernels' scratch. @param {Sized} sized */
const extentsOf = ({ plan, kernels }) => [
  ...plan.buffers.filter(({ region }) => region === "arena").map(({ nbytes }) => nbytes),
  ...[...kernels.values()].flatMap(({ document }) => document.scratch),
];

/** @param {OpenDocument} open @param {Dims} dims @returns {KernelDocument} */
function documentAt({ version, scratch, requires, dispatches }, dims) {
  const counts = (/** @type {Size[]} */ sizes) => /** @type {any} */ (sizes.map((n) => valueOf(n, dims)));
  const sized = dispatches.map((d) => ({ ...d, workgroups: counts(d.workgroups) }));
  return { version, scratch: counts(scratch), requires, dispatches: sized };
}
