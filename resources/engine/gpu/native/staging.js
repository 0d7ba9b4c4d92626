/** Buffers that bring bytes back, used again by later readbacks. */

/** @import { GpuCounters } from "../../../types/gpu.js" */

const SMALLEST_BYTES = 256;
const KEPT_BYTES = 64 * 2 ** 20;

/** @param {number} nbytes */
const sizeClass = (nbytes) => Math.max(SMALLEST_BYTES, 2 ** Math.ceil(Math.log2(nbytes)));

export class StagingPool {
  /** @type {Map<number, GPUBuffer[]>} by size */ #free = new Map();
  #kept = 0;

  /**
   * @param {(size: number) => GPUBuffer} make
   * @param {GpuCounters} counters
   * @param {number} largest size of a buffer
   */
  constructor(make, counters, largest) {
    this.make = make;
    this.counters = counters;
    this.largest = largest;
  }

  /** @param {number} nbytes at most `largest` */
  take(nbytes) {
    const size = Math.min(sizeClass(nbytes), Math.floor(this.largest / 4) * 4);
    const free = this.#free.get(size)?.pop();
    if (!free) {
      this.counters.staging_made++;
      return this.make(size);
    }
    this.counters.staging_reused++;
    this.#kept -= size;
    return free;
  }

  /** @param {GPUBuffer} buffer unmapped; one that is too much goes */
  give(buffer) {
    if (this.#kept + buffer.size > KEPT_BYTES) return buffer.destroy();
    this.#kept += buffer.size;
    const free = this.#free.get(buffer.size);
    if (free) free.push(buffer);
    else this.#free.set(buffer.size, [buffer]);
  }
}
