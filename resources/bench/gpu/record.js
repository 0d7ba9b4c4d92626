/**
 * GPU time of whoever computes in this page, taken in the same way for all: every compute
 * pass that a library begins gets two timestamps, and its time is their difference.
 */

/** A GPU object: each library has its own idea of their types. @typedef {any} Gpu */
/**
 * What was recorded between `start` and `stop`.
 * @typedef {object} Recorded
 * @property {number} gpu_ms sum over the passes
 * @property {number} passes
 * @property {number} dispatches
 * @property {number} submits
 * @property {boolean} complete false when there were more passes than stamps
 */

/** WebGPU's largest set of queries. */
const STAMPS = 4096;

const count = { passes: 0, dispatches: 0, submits: 0 };
/** @returns {number} dispatches of the page until now, whoever made them */
export const dispatched = () => count.dispatches;

/** @type {Map<string, Recorder>} the recorder of each library, by its name */
const recorders = new Map();
/** @type {WeakMap<object, Recorder>} encoder to the recorder of its device */
const ofEncoder = new WeakMap();
/** @type {WeakMap<object, Recorder>} */
const ofDevice = new WeakMap();
let owner = "";
let watched = false;

/** As they were before `watchGpu`. */
const { GPUAdapter, GPUDevice, GPUQueue, GPUCommandEncoder, GPUComputePassEncoder, GPUBufferUsage, GPUMapMode } = /** @type {any} */ (globalThis);
const createCommandEncoder = GPUDevice?.prototype.createCommandEncoder;
const submit = GPUQueue?.prototype.submit;

export class Recorder {
  #on = false;
  #next = 0;
  #lost = 0;
  #before = { ...count };

  /** @param {Gpu} device one with timestamps */
  constructor(device) {
    this.device = device;
    this.set = device.createQuerySet({ type: "timestamp", count: STAMPS });
    this.resolved = device.createBuffer({ size: STAMPS * 8, usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC });
    this.read = device.createBuffer({ size: STAMPS * 8, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  }

  start() {
    this.#next = this.#lost = 0;
    this.#before = { ...count };
    this.#on = true;
  }

  /**
   * What a pass that begins now is to be told.
   * @param {any} descriptor
   */
  stamped(descriptor) {
    if (!this.#on) return descriptor;
    if (descriptor?.timestampWrites || this.#next + 2 > STAMPS) {
      this.#lost++;
      return descriptor;
    }
    const timestampWrites = { querySet: this.set, beginningOfPassWriteIndex: this.#next, endOfPassWriteIndex: this.#next + 1 };
    this.#next += 2;
    return { ...descriptor, timestampWrites };
  }

  /** @returns {Promise<BigUint64Array>} ns: the beginning and the end of each pass since `start` */
  async stamps() {
    const n = this.#next;
    if (!n) return new BigUint64Array();
    const encoder = createCommandEncoder.call(this.device);
    encoder.resolveQuerySet(this.set, 0, n, this.resolved, 0);
    encoder.copyBufferToBuffer(this.resolved, 0, this.read, 0, n * 8);
    submit.call(this.device.queue, [encoder.finish()]);
    await this.read.mapAsync(GPUMapMode.READ, 0, n * 8);
    const stamps = new BigUint64Array(this.read.getMappedRange(0, n * 8).slice(0));
    this.read.unmap();
    return stamps;
  }

  /** @returns {Promise<Recorded>} */
  async stop() {
    this.#on = false;
    const [passes, dispatches, submits] = /** @type {const} */ (["passes", "dispatches", "submits"]).map((k) => count[k] - this.#before[k]);
    return { gpu_ms: passTime(await this.stamps()), passes, dispatches, submits, complete: !this.#lost };
  }
}

/**
 * @param {BigUint64Array} stamps ns, beginning and end of each pass
 * @returns {number} ms of all passes together
 */
export function passTime(stamps) {
  let ns = 0n;
  for (let i = 0; i + 1 < stamps.length; i += 2) ns += stamps[i + 1] - stamps[i];
  return Number(ns) / 1e6;
}

/**
 * Patches WebGPU so that devices have timestamps where the adapter can, and passes are
 * recorded. Called once, before any library asks for an adapter.
 */
export function watchGpu() {
  if (watched || !GPUAdapter) return;
  watched = true;
  const { requestDevice } = GPUAdapter.prototype;
  GPUAdapter.prototype.requestDevice = async function (/** @type {any} */ descriptor = {}) {
    const name = owner;
    const requiredFeatures = [...new Set([...(descriptor.requiredFeatures ?? []), "timestamp-query"])].filter((f) => f !== "timestamp-query" || this.features.has(f));
    const device = await requestDevice.call(this, { ...descriptor, requiredFeatures });
    if (device.features.has("timestamp-query")) {
      const recorder = new Recorder(device);
      ofDevice.set(device, recorder);
      recorders.set(name, recorder);
    }
    return device;
  };
  GPUDevice.prototype.createCommandEncoder = function (/** @type {any} */ descriptor) {
    const encoder = createCommandEncoder.call(this, descriptor);
    const recorder = ofDevice.get(this);
    if (recorder) ofEncoder.set(encoder, recorder);
    return encoder;
  };
  const { beginComputePass } = GPUCommandEncoder.prototype;
  GPUCommandEncoder.prototype.beginComputePass = function (/** @type {any} */ descriptor) {
    count.passes++;
    return beginComputePass.call(this, ofEncoder.get(this)?.stamped(descriptor) ?? descriptor);
  };
  for (const name of ["dispatchWorkgroups", "dispatchWorkgroupsIndirect"]) {
    const dispatch = GPUComputePassEncoder.prototype[name];
    GPUComputePassEncoder.prototype[name] = function (/** @type {any[]} */ ...args) {
      count.dispatches++;
      return dispatch.apply(this, args);
    };
  }
  GPUQueue.prototype.submit = function (/** @type {any} */ buffers) {
    count.submits++;
    return submit.call(this, buffers);
  };
}

/**
 * Whose devices are made from now on.
 * @param {string} name
 */
export function own(name) {
  owner = name;
}

/** @param {string} name @returns {Recorder} */
export function recorderOf(name) {
  const recorder = recorders.get(name);
  if (!recorder) throw new Error(`The GPU device of ${name} has no timestamps.`);
  return recorder;
}

/**
 * Waits until the GPU has done all that `device` was given. Asking again on each turn of
 * the event loop has the browser notice at once, not at its next look 2.5 ms later.
 * @param {Gpu} device
 */
export async function idle(device) {
  const { port1, port2 } = new MessageChannel();
  let done = false;
  const last = device.queue.onSubmittedWorkDone().then(() => {
    done = true;
  });
  await new Promise((resolve) => {
    port1.onmessage = () => {
      if (done) return resolve(null);
      device.queue.onSubmittedWorkDone();
      port2.postMessage(0);
    };
    port2.postMessage(0);
  });
  port1.close();
  await last;
}
