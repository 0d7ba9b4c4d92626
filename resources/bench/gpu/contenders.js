/** Ours and the peers on one product, with operands on the GPU, each submitted in like ways. */
import { whole } from "../../engine/gpu/commands.js";
import { openNative } from "../../engine/gpu/native/device.js";
import { flushTensorFlow, onnxRuntime, tensorFlow } from "./peers.js";
import { own, recorderOf } from "./record.js";
import { timed } from "./variants.js";

/** @import { KernelDocument } from "../../engine/gpu/document.js" */
/** @import { GpuDevice } from "../../types/gpu.js" */

/** @typedef {{settings: string, document: KernelDocument}} Candidate */
/**
 * @typedef {object} Shape
 * @property {string} spec
 * @property {{name: string, dims: number[], data: Float32Array<ArrayBuffer>}[]} inputs `data` are the bytes, of either dtype
 * @property {"float32" | "float16"} dtype of the inputs, and of the peers' output; ours is float32
 * @property {number} out_bytes
 * @property {number} depth products that share a submit, each with an output of its own
 * @property {string} one address of an ONNX model of one product
 * @property {string} many address of one of `depth` products
 * @property {Candidate[]} candidates
 * @property {Float32Array} reference in float64, rounded
 */
/**
 * One way to compute the product. `submit` and `pass` return when the GPU was given `n` of
 * them, one to a submit and `depth` to a submit.
 * @typedef {object} Contender
 * @property {string} name
 * @property {string} [library] whose device it uses, where that is not its name
 * @property {any} device
 * @property {(n: number) => Promise<void>} submit
 * @property {(n: number) => Promise<void>} pass
 * @property {() => Promise<Float32Array>} output of one product, read
 * @property {() => Promise<number>} [own_ms] of one product by the library's own GPU clock
 * @property {() => void | Promise<void>} release
 */

/** @type {GpuDevice | null} */
let gpu = null;

/** @returns {Promise<{gpu: GpuDevice, device: any}>} our GPU layer, opened once */
export async function openOurs() {
  own("ours");
  gpu ??= await openNative();
  return { gpu, device: recorderOf("ours").device };
}

/** The buffers of a shape, for all its candidates. */
export class OurProduct {
  /** @param {GpuDevice} gpu @param {Shape} shape */
  constructor(gpu, shape) {
    this.gpu = gpu;
    this.shape = shape;
    this.inputs = shape.inputs.map(({ name, data }) => {
      const buffer = gpu.createBuffer(data.byteLength, name);
      gpu.write(buffer, 0, new Uint8Array(data.buffer));
      return buffer;
    });
    this.outputs = Array.from({ length: shape.depth }, (_, i) => gpu.createBuffer(shape.out_bytes, `out${i}`));
    // As large as any candidate wants them: many are bound at once.
    /** @type {number[]} */
    const largest = [];
    for (const { document } of shape.candidates) document.scratch.forEach((nbytes, i) => (largest[i] = Math.max(largest[i] ?? 0, nbytes)));
    this.scratch = largest.map((nbytes, i) => this.outputs.map(() => gpu.createBuffer(nbytes, `scratch${i}`)));
  }

  /**
   * Compiles a document: the commands that write each output.
   * @param {KernelDocument} document
   */
  async commands(document) {
    const pipelines = await Promise.all(document.dispatches.map(({ code, entry, access }) => this.gpu.pipeline({ code, entry, access })));
    const ms = Math.max(...pipelines.map((p) => p.ms));
    const bind = (/** @type {number} */ slot) => {
      const args = [...this.inputs, this.outputs[slot]];
      const scratch = this.scratch.map((of) => of[slot]);
      return document.dispatches.map(({ bindings, workgroups }, i) => ({
        op: /** @type {const} */ ("dispatch"),
        pipeline: pipelines[i],
        workgroups,
        bindings: bindings.map((name) => whole((name[0] === "a" ? args : scratch)[Number(name.slice(1))])),
      }));
    };
    return { ms, slots: this.outputs.map((_, slot) => bind(slot)) };
  }

  /** Fills an output with NaN, so that what a kernel leaves out is seen. */
  spoil(slot = 0) {
    this.gpu.write(this.outputs[slot], 0, new Uint8Array(this.shape.out_bytes).fill(0xff));
  }

  /** @returns {Promise<Float32Array>} */
  async read(slot = 0) {
    return new Float32Array((await this.gpu.read(this.outputs[slot], 0, this.shape.out_bytes)).buffer);
  }

  release() {
    for (const buffer of [...this.inputs, ...this.outputs, ...this.scratch.flat()]) this.gpu.destroyBuffer(buffer);
  }
}

/**
 * @param {OurProduct} product
 * @param {{slots: any[][]}} commands
 * @param {any} device
 * @returns {Contender}
 */
export function ours(product, { slots }, device) {
  const { gpu } = product;
  return {
    name: "ours",
    device,
    submit: async (n) => {
      for (let i = 0; i < n; i++) {
        gpu.encode(slots[i % slots.length]);
        gpu.flush();
      }
    },
    pass: async (n) => {
      for (let i = 0; i < n; i += slots.length) {
        gpu.encode(slots.flat());
        gpu.flush();
      }
    },
    output: async () => {
      gpu.encode(slots[0]);
      return product.read(0);
    },
    own_ms: () => timed(gpu, slots[0], 1),
    release: () => product.release(),
  };
}

/** @param {Shape} shape @returns {Promise<Contender>} */
export async function onnxRuntimeProduct(shape) {
  const { ort, device, session } = await onnxRuntime();
  const [one, many] = [await session(shape.one), await session(shape.many, { graphOptimizationLevel: "disabled" })];
  const buffers = shape.inputs.map(({ data }) => {
    const buffer = device.createBuffer({ size: data.byteLength, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC });
    device.queue.writeBuffer(buffer, 0, data);
    return buffer;
  });
  const tensors = shape.inputs.map(({ dims }, i) => ort.Tensor.fromGpuBuffer(buffers[i], { dataType: shape.dtype, dims }));
  const feedsOf = (/** @type {any} */ { inputNames }) => Object.fromEntries(inputNames.map((/** @type {string} */ name) => [name, tensors[Number(name[2])]]));
  const feeds = [feedsOf(one), feedsOf(many)];
  const drop = (/** @type {Record<string, any>} */ outputs) => {
    for (const tensor of Object.values(outputs)) tensor.dispose();
  };
  return {
    name: "ort",
    device,
    submit: async (n) => {
      for (let i = 0; i < n; i++) drop(await one.run(feeds[0]));
    },
    pass: async (n) => {
      for (let i = 0; i < n; i += shape.depth) drop(await many.run(feeds[1]));
    },
    output: async () => {
      const outputs = await one.run(feeds[0]);
      const data = await outputs.out0.getData();
      drop(outputs);
      return data;
    },
    release: async () => {
      await one.release();
      await many.release();
      for (const buffer of buffers) buffer.destroy();
    },
  };
}

/** @param {Shape} shape @returns {Promise<Contender>} */
export async function tensorFlowProduct(shape) {
  if (shape.dtype !== "float32") throw new Error(`TensorFlow.js has no ${shape.dtype} tensors.`);
  const { tf, device } = await tensorFlow();
  const [a, b] = shape.inputs.map(({ data, dims }) => tf.tensor(data, dims, "float32"));
  const run = (/** @type {number} */ n, /** @type {number} */ batch) => {
    tf.env().set("WEBGPU_DEFERRED_SUBMIT_BATCH_SIZE", batch);
    for (let i = 0; i < n; i++) tf.matMul(a, b).dispose();
    flushTensorFlow();
  };
  return {
    name: "tfjs",
    device,
    submit: async (n) => run(n, 1),
    pass: async (n) => run(n, shape.depth),
    output: async () => {
      const result = tf.matMul(a, b);
      const data = await result.data();
      result.dispose();
      return data;
    },
    own_ms: async () => (await tf.time(() => tf.matMul(a, b).dispose())).kernelMs,
    release: () => tf.dispose([a, b]),
  };
}
