/**
 * The GPU layer on wgpu-native, in a process behind the hub (types/gpu.js says what it promises).
 * Buffers and pipelines live there, under numbers that are given here; commands go in batches.
 */
import { bufferBytes, checkAccess, checkBindings, checkCopy, checkRange, checkStamp, checkStamps, checkWorkgroups, keyOf } from "../../engine/gpu/commands.js";
import { newCounters, Waits } from "../../engine/gpu/counters.js";
import { withClock } from "../../engine/gpu/quantum.js";
import { Batch, packBindings } from "./batch.js";
import { Link } from "./link.js";

/** @import { Command, Dispatch, GpuBuf, GpuDevice, GpuInfo, PipelineSpec } from "../../types/gpu.js" */
/** @import { Header } from "../frames.js" */
/** @typedef {{id: number, nbytes: number, label: string, alive: boolean}} Buf */
/** @typedef {{id: number, spec: PipelineSpec, ms: number}} Pipeline */

/** Of one write; a frame to the hub holds 128 MiB. */
const WRITE_BYTES = 32 * 2 ** 20;

/**
 * @param {string} address of the hub's WebSocket for a GPU
 * @returns {Promise<BridgeDevice>} rejects with a GpuError "gpu-unavailable"
 */
export async function openBridge(address) {
  const link = new Link(address);
  const { header: facts } = await link.opened();
  return withClock(new BridgeDevice(link, facts));
}

/** @implements {GpuDevice} */
export class BridgeDevice {
  counters = newCounters();
  #waits = new Waits(this.counters);
  #batch = new Batch();
  /** @type {Map<string, Promise<Pipeline>>} */ #pipelines = new Map();
  /** @type {WeakMap<object, {access: readonly string[], words: Uint32Array}>} the same list of bindings comes again and again */ #packed = new WeakMap();
  #ids = 0;
  #link;
  #readBytes;

  /** @param {Link} link @param {Header} facts */
  constructor(link, facts) {
    this.#link = link;
    this.#readBytes = facts.max_read_bytes;
    const { vendor, architecture, device, description, driver, is_fallback, language_features, subgroup_min, subgroup_max } = facts;
    /** @type {GpuInfo} */
    this.info = { vendor, architecture, device, description, driver, is_fallback, implementation: "bridge", language_features, subgroup_min, subgroup_max };
    /** @type {Set<string>} */
    this.features = new Set(facts.features);
    /** @type {Record<string, number>} */
    this.limits = facts.limits;
    this.timestamps = { available: facts.stamp_slots > 0, quantum_ns: 0, slots: facts.stamp_slots };
    this.lost = link.lost;
  }

  /** @param {number} nbytes */
  createBuffer(nbytes, label = "") {
    this.#alive();
    /** @type {Buf} */
    const buf = { id: ++this.#ids, nbytes: bufferBytes(nbytes, this.limits), label, alive: true };
    this.#batch.create(buf.id, buf.nbytes);
    this.counters.buffers_made++;
    this.counters.buffer_bytes += buf.nbytes;
    return buf;
  }

  /** @param {GpuBuf} buffer */
  destroyBuffer(buffer) {
    const buf = own(buffer);
    if (!buf.alive) return;
    buf.alive = false;
    this.counters.buffer_bytes -= buf.nbytes;
    if (!this.#link.gone) this.#batch.destroy(buf.id);
  }

  /** @param {GpuBuf} buffer @param {number} offset @param {Uint8Array} bytes */
  write(buffer, offset, bytes) {
    this.#alive();
    checkRange(buffer, offset, bytes.length);
    this.counters.up_bytes += bytes.length;
    for (let at = 0; at < bytes.length; at += WRITE_BYTES) {
      this.#batch.write(own(buffer).id, offset + at, bytes.slice(at, at + WRITE_BYTES));
      if (this.#batch.isLong) this.flush();
    }
  }

  /** @param {PipelineSpec} spec @returns {Promise<Pipeline>} */
  async pipeline(spec) {
    this.#alive();
    const key = keyOf(spec);
    const known = this.#pipelines.get(key);
    if (known) {
      this.counters.pipelines_hit++;
      return known;
    }
    const made = this.#compile(spec);
    this.#pipelines.set(key, made);
    made.catch(() => this.#pipelines.delete(key)); // asked again, it is tried again
    return made;
  }

  /** @param {readonly Command[]} commands */
  encode(commands) {
    this.#alive();
    for (const command of commands) {
      if (command.op === "dispatch") this.#dispatch(command);
      else if (command.op === "copy") {
        checkCopy(command);
        this.#batch.copy(own(command.from).id, command.fromOffset, own(command.to).id, command.toOffset, command.nbytes);
        this.counters.copies++;
      } else {
        checkStamp(command, this.timestamps);
        this.#batch.stamp(command.index);
      }
      if (this.#batch.isLong) this.flush();
    }
  }

  flush() {
    if (this.#batch.isEmpty || this.#link.gone) return;
    this.counters.flushes++;
    this.#link.tell({ type: "run" }, this.#batch.take());
  }

  /**
   * @param {GpuBuf} buffer
   * @param {number} offset
   * @param {number} nbytes
   * @returns {Promise<Uint8Array<ArrayBuffer>>}
   */
  async read(buffer, offset, nbytes) {
    this.#alive();
    checkRange(buffer, offset, nbytes);
    const { id } = own(buffer);
    this.counters.down_bytes += nbytes;
    const parts = [];
    for (let at = 0; at < nbytes; at += this.#readBytes) {
      const part = Math.min(this.#readBytes, nbytes - at);
      parts.push(this.#wait({ type: "read", buffer: id, offset: offset + at, nbytes: part }));
    }
    const bytes = new Uint8Array(nbytes);
    (await Promise.all(parts)).forEach(({ blobs }, i) => bytes.set(blobs[0], i * this.#readBytes));
    return bytes;
  }

  /** @param {GpuBuf} buffer @param {number} offset @param {readonly number[]} sizes */
  async readParts(buffer, offset, sizes) {
    const bytes = await this.read(buffer, offset, sizes.reduce((total, size) => total + size, 0));
    let at = 0;
    return sizes.map((size) => bytes.slice(at, (at += size)));
  }

  /** @param {number} count */
  async readStamps(count) {
    this.#alive();
    checkStamps(count, this.timestamps);
    const { blobs } = await this.#wait({ type: "stamps", count });
    return new BigInt64Array(blobs[0].slice().buffer);
  }

  async done() {
    this.#alive();
    await this.#wait({ type: "done" });
  }

  lose() {
    this.flush();
    if (!this.#link.gone) this.#link.tell({ type: "lose" });
  }

  destroy() {
    this.#link.leave();
  }

  #alive() {
    if (this.#link.gone) throw this.#link.gone;
  }

  /** @param {PipelineSpec} spec @returns {Promise<Pipeline>} */
  async #compile(spec) {
    const { access, entry, code } = spec;
    checkAccess(access, this.limits);
    const id = ++this.#ids;
    const request = { type: "compile", pipeline: id, entry, access: [...access] };
    const { header } = await this.#link.ask(request, [new TextEncoder().encode(code)]);
    this.counters.pipelines_made++;
    this.counters.pipelines_ms += header.ms;
    return { id, spec, ms: header.ms };
  }

  /** @param {Dispatch} dispatch */
  #dispatch({ pipeline, bindings, workgroups }) {
    const { id, spec } = /** @type {Pipeline} */ (pipeline);
    checkWorkgroups(workgroups, this.limits);
    let packed = this.#packed.get(bindings);
    if (packed?.access !== spec.access || !bindings.every(({ buffer }) => own(buffer).alive)) {
      checkBindings(bindings, spec.access, this.limits);
      this.#packed.set(bindings, (packed = { access: spec.access, words: packBindings(bindings) }));
    }
    this.#batch.dispatch(id, workgroups, packed.words);
    this.counters.dispatches++;
  }

  /** @param {Header} request what answers it knows what the process counted */
  async #wait(request) {
    this.flush();
    this.#waits.begin();
    try {
      const reply = await this.#link.ask(request);
      Object.assign(this.counters, reply.header.counters);
      return reply;
    } finally {
      this.#waits.end();
    }
  }
}

/** @param {GpuBuf} buffer of this layer */
const own = (buffer) => /** @type {Buf} */ (buffer);
