/**
 * The GPU layer on wgpu-native, in a process behind the hub (types/gpu.js says what it promises).
 * Buffers and pipelines live there, under numbers that are given here; commands go in batches.
 */
import { decodeFrame, encodeFrame } from "../frames.js";
import { Batch, packBindings } from "./batch.js";
import { checkBindings, checkCopy, checkRange, checkStamp, checkWorkgroups } from "../../engine/gpu/commands.js";
import { newCounters, Waits } from "../../engine/gpu/counters.js";
import { GpuError, lostError } from "../../engine/gpu/errors.js";
import { timestampQuantum } from "../../engine/gpu/quantum.js";

/** @typedef {import("../frames.js").Header} Header */
/** @typedef {import("../../types/gpu.js").Command} Command */
/** @typedef {import("../../types/gpu.js").GpuBuf} GpuBuf */
/** @typedef {import("../../types/gpu.js").GpuDevice} GpuDevice */
/** @typedef {import("../../types/gpu.js").PipelineSpec} PipelineSpec */
/** @typedef {{id: number, nbytes: number, label: string, alive: boolean}} Buf */
/** @typedef {{id: number, spec: PipelineSpec, ms: number}} Pipeline */
/** @typedef {{header: Header, blobs: Uint8Array<ArrayBuffer>[]}} Reply */
/** @typedef {{resolve: (reply: Reply) => void, reject: (error: GpuError) => void}} Waiting */

/** Of one write; a frame to the hub holds 128 MiB. */
const WRITE_BYTES = 32 * 2 ** 20;
const NO_BRIDGE = "Look at what `nnjit doctor` says of wgpu, or use the Wasm backend.";

/**
 * @param {string} address of the hub's WebSocket for a GPU
 * @returns {Promise<BridgeDevice>} rejects with a GpuError "gpu-unavailable"
 */
export async function openBridge(address) {
  const link = new Link(address);
  const { header: facts } = await link.opened();
  const device = new BridgeDevice(link, facts);
  if (device.timestamps.available) {
    const quantum_ns = await timestampQuantum(device);
    device.timestamps = { ...device.timestamps, available: quantum_ns > 0, quantum_ns };
  }
  return device;
}

/** The WebSocket: requests find their replies, and its end is the end of the device. */
class Link {
  /** @type {Map<number, Waiting>} */ #waiting = new Map();
  #ids = 0;
  #reason = "";
  #socket;
  /** @type {GpuError | null} why every call fails from now on */ gone = null;
  /** Whether it is we who hung up. */ left = false;

  /** @param {string} address */
  constructor(address) {
    const socket = (this.#socket = new WebSocket(address));
    socket.binaryType = "arraybuffer";
    socket.addEventListener("message", ({ data }) => this.#receive(decodeFrame(data)));
    /** @type {Promise<{reason: string, message: string}>} */
    this.lost = new Promise((resolve) => {
      socket.addEventListener("close", () => {
        const how = { reason: this.left ? "destroyed" : "unknown", message: this.#reason };
        this.#end(lostError(how));
        resolve(how);
      });
    });
  }

  /** @returns {Promise<Reply>} the facts of the device */
  async opened() {
    const open = new Promise((resolve) => this.#socket.addEventListener("open", () => resolve(null)));
    try {
      await Promise.race([open, this.lost]);
      return await this.ask({ type: "open" });
    } catch (e) {
      const { error, hint, code } = /** @type {GpuError} */ (e);
      if (code !== "gpu-lost") {
        this.leave();
        throw new GpuError("gpu-unavailable", error, hint || NO_BRIDGE);
      }
      throw new GpuError("gpu-unavailable", `The GPU bridge does not start: ${this.#reason || "the Studio does not answer"}.`, NO_BRIDGE);
    }
  }

  /**
   * @param {Header} header
   * @param {Uint8Array[]} [blobs]
   * @returns {Promise<Reply>}
   */
  ask(header, blobs) {
    if (this.gone) return Promise.reject(this.gone);
    const id = ++this.#ids;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.tell({ ...header, id }, blobs);
    });
  }

  /**
   * @param {Header} header
   * @param {Uint8Array[]} [blobs]
   */
  tell(header, blobs) {
    this.#socket.send(encodeFrame(header, blobs));
  }

  leave() {
    this.left = true;
    this.#end(lostError({ reason: "destroyed", message: "" }));
    this.#socket.close();
  }

  /** @param {Reply} reply */
  #receive(reply) {
    const { header } = reply;
    if (header.type === "ended") {
      this.#reason ||= header.reason;
      return;
    }
    const waiting = this.#waiting.get(/** @type {number} */ (header.id));
    this.#waiting.delete(/** @type {number} */ (header.id));
    if (header.type === "error") waiting?.reject(new GpuError(header.code, header.error, header.hint));
    else waiting?.resolve(reply);
  }

  /** @param {GpuError} error */
  #end(error) {
    this.gone ??= error;
    for (const { reject } of this.#waiting.values()) reject(this.gone);
    this.#waiting.clear();
  }
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

  /**
   * @param {Link} link
   * @param {Header} facts
   */
  constructor(link, facts) {
    this.#link = link;
    this.#readBytes = facts.max_read_bytes;
    const { vendor, architecture, device, description, driver, is_fallback, language_features, subgroup_min, subgroup_max } = facts;
    /** @type {import("../../types/gpu.js").GpuInfo} */
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
    const { maxBufferSize } = this.limits;
    if (!(nbytes >= 0 && nbytes <= maxBufferSize))
      throw new GpuError("gpu-memory", `A buffer of ${nbytes} bytes is over this GPU's limit of ${maxBufferSize}.`, "Use a smaller model, or the Wasm backend.");
    /** @type {Buf} */
    const buf = { id: ++this.#ids, nbytes: Math.max(4, Math.ceil(nbytes / 4) * 4), label, alive: true };
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

  /**
   * @param {GpuBuf} buffer
   * @param {number} offset
   * @param {Uint8Array} bytes
   */
  write(buffer, offset, bytes) {
    this.#alive();
    checkRange(buffer, offset, bytes.length);
    this.counters.up_bytes += bytes.length;
    for (let at = 0; at < bytes.length; at += WRITE_BYTES) {
      this.#batch.write(own(buffer).id, offset + at, bytes.slice(at, at + WRITE_BYTES));
      if (this.#batch.isLong) this.flush();
    }
  }

  /**
   * @param {PipelineSpec} spec
   * @returns {Promise<Pipeline>}
   */
  async pipeline(spec) {
    this.#alive();
    const key = `${spec.access.join()};${spec.entry};${spec.code}`;
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

  /** @param {number} count */
  async readStamps(count) {
    this.#alive();
    const { slots, available } = this.timestamps;
    if (!available) throw new GpuError("", "This GPU has no timestamps.");
    if (!(count >= 1 && count <= slots)) throw new GpuError("", `There are ${slots} stamps, not ${count}.`);
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

  /**
   * @param {PipelineSpec} spec
   * @returns {Promise<Pipeline>}
   */
  async #compile(spec) {
    const { access, entry, code } = spec;
    const { maxStorageBuffersPerShaderStage: most = Infinity } = this.limits;
    if (access.length > most)
      throw new GpuError("gpu-kernel", `The kernel binds ${access.length} buffers, this GPU allows ${most}.`);
    const id = ++this.#ids;
    const request = { type: "compile", pipeline: id, entry, access: [...access] };
    const { header } = await this.#link.ask(request, [new TextEncoder().encode(code)]);
    this.counters.pipelines_made++;
    this.counters.pipelines_ms += header.ms;
    return { id, spec, ms: header.ms };
  }

  /** @param {import("../../types/gpu.js").Dispatch} dispatch */
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
