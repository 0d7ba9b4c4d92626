/** The GPU layer on navigator.gpu (types/gpu.js says what it promises). */
import { bufferBytes, checkAccess, checkBindings, checkCopy, checkRange, checkStamp, checkStamps, checkWorkgroups, keyOf } from "../commands.js";
import { newCounters } from "../counters.js";
import { GpuError } from "../errors.js";
import { withClock } from "../quantum.js";
import { describe, findAdapter, infoOf } from "./adapter.js";
import { BindGroups } from "./bindings.js";
import { passesOf } from "./passes.js";
import { StagingPool, touched } from "./staging.js";
import { Watch } from "./watch.js";

/** @import { Command, Copy, Dispatch, GpuBuf, GpuDevice, GpuInfo, PipelineSpec, Stamp } from "../../../types/gpu.js" */
/** @import { Pass } from "./passes.js" */
/** @typedef {import("./bindings.js").Bound & {nbytes: number, label: string, alive: boolean}} Buf */
/** @typedef {{spec: PipelineSpec, ms: number, handle: GPUComputePipeline, layout: GPUBindGroupLayout, used: boolean}} Pipeline */
/** @typedef {{op: "fetch", from: GPUBuffer, offset: number, to: GPUBuffer, nbytes: number}} Fetch */
/** @typedef {{op: "resolve", count: number}} Resolve */
/** @typedef {{op: "dispatch", pipeline: GPUComputePipeline, group: GPUBindGroup, workgroups: readonly [number, number, number]}} Bound */
/** @typedef {Pass<Bound> | Copy | Fetch | Resolve} Part */
/** @typedef {Bound | Copy | Stamp | Fetch | Resolve} Pending */

const STAMP_SLOTS = 4096;
const STAMP_BYTES = 8;
/** Pipelines that are kept; tuning makes hundreds. */
const MOST_PIPELINES = 1024;

/**
 * @param {GPU | undefined} [gpu]
 * @returns {Promise<NativeDevice>} rejects with a GpuError "gpu-unavailable"
 */
export async function openNative(gpu = globalThis.navigator?.gpu) {
  const adapter = await findAdapter(gpu);
  const { features, limits } = describe(adapter);
  let handle;
  try {
    handle = await adapter.requestDevice({ requiredFeatures: /** @type {GPUFeatureName[]} */ (features), requiredLimits: limits });
  } catch (e) {
    throw new GpuError("gpu-unavailable", `The GPU gives no device: ${/** @type {Error} */ (e).message}.`, "Close other pages that use the GPU, or use the Wasm backend.");
  }
  const info = infoOf(adapter, gpu?.wgslLanguageFeatures ?? []);
  return withClock(new NativeDevice(handle, info, new Set(features), limits));
}

/** A {@link GpuDevice}. */
export class NativeDevice {
  counters = newCounters();
  /** @type {Pending[]} not flushed yet */ #pending = [];
  /** @type {Buf[]} to be destroyed behind the pending commands */ #doomed = [];
  /** @type {Map<string, Promise<Pipeline>>} */ #pipelines = new Map();
  #watch;
  /** Whether something is pending that was never used before, and may be invalid. */
  #fresh = false;
  #ids = 0;
  #device;
  #groups;
  #staging;
  /** @type {{set: GPUQuerySet, buffer: GPUBuffer} | null} */ #stamps = null;

  /**
   * @param {GPUDevice} device
   * @param {GpuInfo} info
   * @param {Set<string>} features
   * @param {Record<string, number>} limits
   */
  constructor(device, info, features, limits) {
    this.#device = device;
    this.info = info;
    this.features = features;
    this.limits = limits;
    const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
    this.#groups = new BindGroups(device, this.counters);
    const stage = (/** @type {number} */ size) => this.#watch.scoped(() => device.createBuffer({ size, usage }));
    this.#staging = new StagingPool(stage, this.counters, limits.maxBufferSize);
    const available = features.has("timestamp-query");
    this.timestamps = { available, quantum_ns: 0, slots: available ? STAMP_SLOTS : 0 };
    this.#watch = new Watch(device, this.counters);
    this.lost = this.#watch.lost.then((how) => {
      this.#pending = [];
      this.#pipelines.clear();
      return how;
    });
  }

  /** @param {number} nbytes */
  createBuffer(nbytes, label = "", uniform = false) {
    this.#watch.alive();
    const size = bufferBytes(nbytes, this.limits);
    const usage = (uniform ? GPUBufferUsage.UNIFORM : GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC) | GPUBufferUsage.COPY_DST;
    const handle = this.#watch.scoped(() => this.#device.createBuffer({ label, size, usage }));
    this.counters.buffers_made++;
    this.counters.buffer_bytes += size;
    /** @type {Buf} */
    const buf = { id: this.#ids++, nbytes: size, label, handle, groups: new Set(), alive: true };
    return buf;
  }

  /** @param {GpuBuf} buffer */
  destroyBuffer(buffer) {
    const buf = own(buffer);
    if (!buf.alive) return;
    buf.alive = false;
    this.counters.buffer_bytes -= buf.nbytes;
    this.#groups.forget(buf);
    if (this.#pending.length) this.#doomed.push(buf);
    else buf.handle.destroy();
  }

  /** @param {GpuBuf} buffer @param {number} offset @param {Uint8Array} bytes */
  write(buffer, offset, bytes) {
    this.#watch.alive();
    checkRange(buffer, offset, bytes.length);
    if (!bytes.length) return;
    this.flush();
    this.counters.up_bytes += bytes.length;
    this.#device.queue.writeBuffer(own(buffer).handle, offset, /** @type {Uint8Array<ArrayBuffer>} */ (bytes));
  }

  /** @param {PipelineSpec} spec @returns {Promise<Pipeline>} */
  async pipeline(spec) {
    this.#watch.alive();
    const key = keyOf(spec);
    const known = this.#pipelines.get(key);
    if (known) {
      this.counters.pipelines_hit++;
      return known;
    }
    const made = this.#compile(spec);
    this.#pipelines.set(key, made);
    if (this.#pipelines.size > MOST_PIPELINES) this.#pipelines.delete(/** @type {string} */ (this.#pipelines.keys().next().value));
    made.catch(() => this.#pipelines.delete(key)); // asked again, it is tried again
    return made;
  }

  /** @param {readonly Command[]} commands */
  encode(commands) {
    this.#watch.alive();
    for (const command of commands) {
      if (command.op === "dispatch") this.#pending.push(this.#bound(command));
      else {
        if (command.op === "copy") checkCopy(command);
        else checkStamp(command, this.timestamps);
        this.#pending.push(command);
      }
    }
  }

  flush() {
    if (!this.#pending.length || this.#watch.gone) return;
    const commands = this.#pending.splice(0);
    const submit = () => {
      const encoder = this.#device.createCommandEncoder();
      for (const part of /** @type {Part[]} */ (passesOf(commands))) this.#record(encoder, part);
      this.#device.queue.submit([encoder.finish()]);
    };
    if (this.#fresh) this.#watch.scoped(submit);
    else submit();
    this.#fresh = false;
    this.counters.flushes++;
    for (const { handle } of this.#doomed.splice(0)) handle.destroy();
  }

  /** @param {GpuBuf} buffer @param {number} offset @param {number} nbytes @param {boolean} [hurried] */
  async read(buffer, offset, nbytes, hurried = true) {
    const [bytes] = await this.readParts(buffer, offset, [nbytes], hurried);
    return bytes;
  }

  /** @param {GpuBuf} buffer @param {number} offset @param {readonly number[]} sizes @param {boolean} [hurried] */
  async readParts(buffer, offset, sizes, hurried = true) {
    this.#watch.alive();
    checkRange(buffer, offset, sum(sizes));
    return this.#fetch(own(buffer).handle, offset, sizes, hurried);
  }

  /** @param {number} count */
  async readStamps(count) {
    this.#watch.alive();
    checkStamps(count, this.timestamps);
    this.#pending.push({ op: "resolve", count });
    const [bytes] = await this.#fetch(this.#query().buffer, 0, [count * STAMP_BYTES]);
    return new BigInt64Array(bytes.buffer);
  }

  async done(hurried = true) {
    this.#watch.alive();
    this.flush();
    await this.#watch.wait(this.#device.queue.onSubmittedWorkDone(), hurried);
  }

  lose() {
    this.#device.destroy();
  }

  destroy() {
    this.#watch.destroyed = true;
    this.#device.destroy();
  }

  /** @param {PipelineSpec} spec @returns {Promise<Pipeline>} */
  async #compile(spec) {
    const device = this.#device;
    checkAccess(spec.access, this.limits);
    const start = performance.now();
    const layout = this.#groups.layout(spec.access);
    device.pushErrorScope("validation"); // an invalid module is told below, with its lines
    const module = device.createShaderModule({ code: spec.code });
    const scope = device.popErrorScope().catch(() => null);
    const made = device.createComputePipelineAsync({
      layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
      compute: { module, entryPoint: spec.entry },
    });
    try {
      const handle = await this.#watch.orLost(made);
      const ms = performance.now() - start;
      this.counters.pipelines_made++;
      this.counters.pipelines_ms += ms;
      return { spec, ms, handle, layout, used: false };
    } catch (e) {
      this.#watch.alive();
      const lines = await this.#watch.orLost(module.getCompilationInfo()).then(({ messages }) => messages, () => []);
      const errors = lines.filter((m) => m.type === "error").map((m) => `line ${m.lineNum}: ${m.message}`);
      throw new GpuError("gpu-kernel", `The WGSL does not compile: ${errors.join("; ") || /** @type {Error} */ (e).message}.`);
    } finally {
      await scope;
    }
  }

  /** @param {Dispatch} dispatch @returns {Bound} */
  #bound({ pipeline: given, bindings, workgroups }) {
    const pipeline = /** @type {Pipeline} */ (given);
    const { layout, handle, spec } = pipeline;
    checkWorkgroups(workgroups, this.limits);
    let group = this.#groups.known(layout, bindings);
    if (!group) {
      checkBindings(bindings, spec.access, this.limits);
      group = this.#watch.scoped(() => this.#groups.make(layout, bindings));
      this.#fresh = true;
    }
    if (!pipeline.used) this.#fresh = pipeline.used = true;
    return { op: "dispatch", pipeline: handle, group, workgroups };
  }

  /** @param {GPUCommandEncoder} encoder @param {Part} part */
  #record(encoder, part) {
    const { counters } = this;
    if (part.op === "pass") {
      const pass = encoder.beginComputePass(this.#stamped(part));
      /** @type {GPUComputePipeline | null} */
      let current = null;
      /** @type {GPUBindGroup | null} */
      let bound = null;
      for (const { pipeline, group, workgroups } of part.dispatches) {
        if (pipeline !== current) pass.setPipeline((current = pipeline));
        if (group !== bound) pass.setBindGroup(0, (bound = group));
        pass.dispatchWorkgroups(...workgroups);
      }
      pass.end();
      counters.passes++;
      counters.dispatches += part.dispatches.length;
    } else if (part.op === "copy") {
      encoder.copyBufferToBuffer(own(part.from).handle, part.fromOffset, own(part.to).handle, part.toOffset, part.nbytes);
      counters.copies++;
    } else if (part.op === "fetch") encoder.copyBufferToBuffer(part.from, part.offset, part.to, 0, part.nbytes);
    else encoder.resolveQuerySet(this.#query().set, 0, part.count, this.#query().buffer, 0);
  }

  /** @param {Pass<Bound>} pass @returns {GPUComputePassDescriptor} */
  #stamped({ begin, end }) {
    if (begin === null && end === null) return {};
    return {
      timestampWrites: {
        querySet: this.#query().set,
        ...(begin === null ? {} : { beginningOfPassWriteIndex: begin }),
        ...(end === null ? {} : { endOfPassWriteIndex: end }),
      },
    };
  }

  #query() {
    if (!this.#stamps) {
      const usage = GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC;
      this.#stamps = {
        set: this.#device.createQuerySet({ type: "timestamp", count: STAMP_SLOTS }),
        buffer: this.#device.createBuffer({ size: STAMP_SLOTS * STAMP_BYTES, usage }),
      };
    }
    return this.#stamps;
  }

  /**
   * Each readback has a staging buffer of its own: what goes wrong with it is its own affair.
   * @param {GPUBuffer} from
   * @param {number} offset
   * @param {readonly number[]} sizes of the parts, which lie one after another
   * @param {boolean} [hurried]
   */
  async #fetch(from, offset, sizes, hurried = true) {
    const nbytes = sum(sizes);
    if (!nbytes) return sizes.map(() => new Uint8Array(0));
    const staging = this.#staging.take(nbytes);
    this.#pending.push({ op: "fetch", from, offset, to: staging, nbytes });
    this.flush();
    const mapped = this.#watch.wait(staging.mapAsync(GPUMapMode.READ, 0, nbytes), hurried);
    const parts = sizes.map(touched); // while the GPU works
    try {
      await mapped;
    } catch (e) {
      staging.destroy();
      throw e;
    }
    const bytes = new Uint8Array(staging.getMappedRange(0, nbytes));
    let at = 0;
    for (const part of parts) part.set(bytes.subarray(at, (at += part.length)));
    staging.unmap();
    this.#staging.give(staging);
    this.counters.down_bytes += nbytes;
    return parts;
  }
}

/** @param {readonly number[]} sizes */
const sum = (sizes) => sizes.reduce((total, size) => total + size, 0);

/** @param {GpuBuf} buffer */
const own = (buffer) => /** @type {Buf} */ (buffer);
