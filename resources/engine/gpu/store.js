/** Buffers with contents of their own on the GPU: weights and state, one for each range of the plans. */
import { EngineError } from "../errors.js";
import { unitOf } from "../plan.js";
import { layoutBytes } from "../repack.js";
import { words } from "./commands.js";

/** @import { Plan, PlanBuffer } from "../../types/engine.js" */
/** @import { GpuBuf, GpuDevice } from "../../types/gpu.js" */

const ZEROS_BYTES = 4 * 2 ** 20;

/** Bytes of a weight, which are fewer than its room for panels. @param {PlanBuffer} buffer */
const sizeOf = (buffer) => {
  const { nbytes, pack } = buffer;
  return pack ? Math.min(nbytes, layoutBytes(...pack, 0, unitOf(buffer))) : nbytes;
};

/** @param {PlanBuffer} buffer */
const keyOf = (buffer) => `${buffer.offset}:${sizeOf(buffer)}`;

export class Store {
  /** @type {Map<string, {buffer: GpuBuf, offset: number, nbytes: number}>} */ #ranges = new Map();
  /** @type {GpuBuf | null} */ #zeros = null;

  /** @param {GpuDevice} device @param {string} region @param {readonly Plan[]} plans */
  constructor(device, region, plans) {
    this.device = device;
    for (const plan of plans)
      for (const buffer of plan.buffers) {
        if (buffer.region !== region || this.#ranges.has(keyOf(buffer))) continue;
        const nbytes = sizeOf(buffer);
        this.#ranges.set(keyOf(buffer), { buffer: device.createBuffer(nbytes, `${region} ${buffer.offset}`), offset: buffer.offset, nbytes });
      }
    const sorted = [...this.#ranges.values()].sort((a, b) => a.offset - b.offset);
    if (region === "state" && sorted.some((r, i) => i && sorted[i - 1].offset + sorted[i - 1].nbytes > r.offset))
      throw new EngineError(`The state of ${plans[0].name} has several names for one place.`, "Run this model on the Wasm backend.");
  }

  /**
   * The buffer of a range.
   * @param {PlanBuffer} buffer
   */
  find(buffer) {
    return /** @type {{buffer: GpuBuf}} */ (this.#ranges.get(keyOf(buffer))).buffer;
  }

  /**
   * Writes a part of the region where it belongs, nothing of it is kept here.
   * @param {number} offset in the region, a multiple of 4
   * @param {Uint8Array} bytes
   */
  write(offset, bytes) {
    if (offset % 4) throw new EngineError(`Weights at ${offset} are no whole words.`, "Send parts that begin at multiples of 4.");
    const end = offset + bytes.length;
    for (const { buffer, offset: at, nbytes } of this.#ranges.values()) {
      const [from, to] = [Math.max(offset, at), Math.min(end, at + nbytes)];
      if (from >= to) continue;
      const part = bytes.subarray(from - offset, to - offset);
      if (part.length % 4 && to !== at + nbytes) throw new EngineError(`Weights up to ${end} are no whole words.`, "Send parts that end at multiples of 4.");
      this.device.write(buffer, from - at, padded(part));
    }
  }

  /** Zeroes all of it, in its place among the commands. */
  clear() {
    if (!this.#ranges.size) return;
    this.#zeros ??= this.device.createBuffer(ZEROS_BYTES, "zeros");
    for (const { buffer } of this.#ranges.values())
      for (let at = 0; at < buffer.nbytes; at += ZEROS_BYTES) {
        const nbytes = Math.min(ZEROS_BYTES, buffer.nbytes - at);
        this.device.encode([{ op: "copy", from: this.#zeros, fromOffset: 0, to: buffer, toOffset: at, nbytes }]);
      }
  }
}

/** @param {Uint8Array} bytes */
export function padded(bytes) {
  if (bytes.length % 4 === 0) return bytes;
  const whole = new Uint8Array(words(bytes.length));
  whole.set(bytes);
  return whole;
}
