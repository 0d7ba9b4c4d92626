/** Runs kernels of nests on a GPU device, from bytes to bytes. */
import { words } from "../engine/gpu/commands.js";
import { callOf, Kernels } from "../engine/gpu/kernels.js";
import { openNative } from "../engine/gpu/native/device.js";
import { median } from "../engine/quantile.js";
import { bytesOf } from "./memory.js";

/** @import { GpuBuf, GpuDevice } from "../types/gpu.js" */
/** @import { GpuKernel } from "../engine/gpu/kernels.js" */
/** @import { Device, Done, Job, Price } from "./guard.js" */
/** @import { Nest } from "./plan.js" */
/** @typedef {{kernel: GpuKernel, inputs: GpuBuf[], outputs: GpuBuf[], args: GpuBuf[], scratch: GpuBuf[]}} Ready */

/** Label of the buffer that measures transfers. */
export const PROBE = "offload probe";
const PROBE_BYTES = 2 ** 22;
const PROBES = 5;

/** Whichever device is used, what it costs to use it is measured first. */
export class OffloadGpu {
  /** @type {Map<string, Promise<Ready>>} by fingerprint */ #ready = new Map();
  #kernels;

  /** @param {GpuDevice} device @param {{fixedMs: number, upMs: number, downMs: number}} cost fixed, and of each byte */
  constructor(device, cost) {
    this.device = device;
    this.cost = cost;
    this.#kernels = new Kernels(device);
  }

  /** @param {() => Promise<GpuDevice>} [open] */
  static async open(open = () => openNative()) {
    const device = await open();
    return new OffloadGpu(device, await transferCost(device));
  }

  /** @returns {Device} as the guard wants it */
  get facts() {
    const { vendor, architecture, device, description, driver } = this.device.info;
    const { fixedMs, upMs, downMs } = this.cost;
    return { key: [vendor, architecture, device, description, driver].join("/"), floor: (up, down) => fixedMs + up * upMs + down * downMs };
  }

  /**
   * Runs a nest on copies of its inputs: on a trial once before, so that the price is of a warm
   * kernel, and on the images that it has to pass. A later check runs it once: a result left over
   * from a run before would agree.
   * @param {Pick<Job, "nest" | "inputs" | "trial" | "images">} job
   * @returns {Promise<Done>} rejects with a GpuError
   */
  async run({ nest, inputs, trial, images }) {
    const ready = await this.#prepared(nest);
    if (trial) await this.#once(nest, ready, inputs, true);
    const tried = [];
    for (const image of images) tried.push((await this.#once(nest, ready, image.inputs, false)).outputs);
    return { ...(await this.#once(nest, ready, inputs, false)), tried };
  }

  /** @param {Nest} nest @param {Ready} ready @param {Uint8Array[]} inputs @param {boolean} apart waits between the parts, to time each @returns {Promise<{outputs: Uint8Array[], price: Price}>} */
  async #once(nest, ready, inputs, apart) {
    const { device } = this;
    const times = [performance.now()];
    const mark = async () => {
      if (apart) await device.done();
      times.push(performance.now());
    };
    inputs.forEach((bytes, i) => device.write(ready.inputs[i], 0, padded(bytes)));
    await mark();
    const bound = ready.args.map((buffer) => ({ buffer, offset: 0, size: buffer.nbytes }));
    const scratch = ready.scratch.map((buffer) => ({ buffer, offset: 0, size: buffer.nbytes }));
    device.encode(callOf(ready.kernel, bound, scratch));
    await mark();
    const read = nest.outputs.map((output, i) => device.read(ready.outputs[i], 0, words(bytesOf(output))));
    const outputs = (await Promise.all(read)).map((bytes, i) => bytes.subarray(0, bytesOf(nest.outputs[i])));
    times.push(performance.now());
    const [start, uploaded, dispatched, end] = times;
    this.#parts ??= new Map();
    /** @type {Price} */
    const price = { upload: uploaded - start, dispatch: dispatched - uploaded, readback: end - dispatched, total: end - start };
    if (apart) this.#parts.set(nest.fingerprint, price);
    const parts = this.#parts.get(nest.fingerprint) ?? price;
    return { outputs, price: { ...parts, total: price.total } };
  }

  /** @type {Map<string, Price> | undefined} */ #parts;

  /** @param {Nest} nest @returns {Promise<Ready>} */
  #prepared(nest) {
    const known = this.#ready.get(nest.fingerprint);
    if (known) return known;
    const made = this.#prepare(nest);
    this.#ready.set(nest.fingerprint, made);
    made.catch(() => this.#ready.delete(nest.fingerprint));
    return made;
  }

  /** @param {Nest} nest @returns {Promise<Ready>} */
  async #prepare(nest) {
    const given = [...nest.inputs, ...(nest.scalars ? [4 * nest.scalars] : [])];
    const written = nest.outputs.map(bytesOf);
    const header = { workload: `${nest.name || nest.function} loop ${nest.loop}`, sha256: nest.fingerprint, tier: "wgsl" };
    const bytes = new TextEncoder().encode(JSON.stringify(nest.kernel));
    const count = given.length + written.length + nest.workspaces.length;
    const kernel = await this.#kernels.compile(/** @type {any} */ (header), bytes, count);
    const make = (/** @type {number} */ nbytes) => this.device.createBuffer(words(nbytes));
    const [inputs, outputs, work] = [given.map(make), written.map(make), nest.workspaces.map(make)];
    const scratch = kernel.document.scratch.map(make);
    return { kernel, inputs, outputs, args: [...inputs, ...outputs, ...work], scratch };
  }
}

/** The device takes whole words; windows of memory have no others. @param {Uint8Array} bytes */
const padded = (bytes) => (bytes.buffer instanceof ArrayBuffer ? bytes : new Uint8Array(bytes));

/** What moving bytes costs on a device: the median of a few transfers. @param {GpuDevice} device */
async function transferCost(device) {
  const buffer = device.createBuffer(PROBE_BYTES, PROBE);
  const bytes = new Uint8Array(PROBE_BYTES);
  const timed = async (/** @type {() => Promise<unknown>} */ work) => {
    const start = performance.now();
    await work();
    return performance.now() - start;
  };
  /** @type {number[][]} */ const [fixed, up, down] = [[], [], []];
  for (let i = 0; i <= PROBES; i++) {
    fixed.push(await timed(() => device.read(buffer, 0, 4)));
    up.push(
      await timed(() => {
        device.write(buffer, 0, bytes);
        return device.read(buffer, 0, 4);
      }),
    );
    down.push(await timed(() => device.read(buffer, 0, PROBE_BYTES)));
  }
  device.destroyBuffer(buffer);
  const middle = (/** @type {number[]} */ all) => median(all.slice(1)); // the first one warms up
  const fixedMs = middle(fixed);
  const each = (/** @type {number[]} */ all) => Math.max(0, middle(all) - fixedMs) / PROBE_BYTES;
  return { fixedMs, upMs: each(up), downMs: each(down) };
}
