/** What readbacks need: buffers that bring bytes back, used again, and arrays to bring them to. */

/** @import { GpuCounters } from "../../../types/gpu.js" */

const SMALLEST_BYTES = 256;
const KEPT_BYTES = 64 * 2 ** 20;

const PAGE_BYTES = 4096;

/**
 * A new array whose memory is there: the system gives a page when it is first written, which takes
 * ten times as long as copying into it.
 * @param {number} nbytes
 */
export function touched(nbytes) {
  const bytes = new Uint8Array(nbytes);
  for (let at = 0; at < nbytes; at += PAGE_BYTES) bytes[at] = 0;
  return bytes;
}

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
