/** Parts of many buffers, brought back in one readback. */

/** @import { Binding, GpuBuf, GpuDevice } from "../../types/gpu.js" */

export class Gather {
  /** @type {GpuBuf | null} grows and stays */ #buffer = null;

  /** @param {GpuDevice} device */
  constructor(device) {
    this.device = device;
  }

  /** Has room for so many bytes from now on. @param {number} nbytes */
  reserve(nbytes) {
    if (this.#buffer && this.#buffer.nbytes >= nbytes) return;
    if (this.#buffer) this.device.destroyBuffer(this.#buffer);
    this.#buffer = this.device.createBuffer(nbytes, "outputs");
  }

  /**
   * @param {readonly Binding[]} parts
   * @returns {{copy: (part: number) => void, bytes: () => Promise<Uint8Array<ArrayBuffer>[]>}} `copy` takes a part as it is
   * then, `bytes` brings all back, in their order
   */
  start(parts) {
    const { device } = this;
    const starts = [0];
    for (const { size } of parts) starts.push(starts[starts.length - 1] + size);
    this.reserve(starts[parts.length]);
    const to = /** @type {GpuBuf} */ (this.#buffer);
    const copy = (/** @type {number} */ part) => {
      const { buffer: from, offset: fromOffset, size: nbytes } = parts[part];
      device.encode([{ op: "copy", from, fromOffset, to, toOffset: starts[part], nbytes }]);
    };
    const bytes = () => device.readParts(to, 0, parts.map((part) => part.size));
    return { copy, bytes };
  }
}
