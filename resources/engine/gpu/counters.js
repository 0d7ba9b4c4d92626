/** Counters of a device, and the clock of those that wait for it. */

/** @import { GpuCounters } from "../../types/gpu.js" */

/** @returns {GpuCounters} */
export const newCounters = () => ({
  flushes: 0,
  passes: 0,
  dispatches: 0,
  copies: 0,
  bind_groups_made: 0,
  bind_groups_hit: 0,
  staging_made: 0,
  staging_reused: 0,
  pipelines_made: 0,
  pipelines_hit: 0,
  pipelines_ms: 0,
  buffers_made: 0,
  buffer_bytes: 0,
  up_bytes: 0,
  down_bytes: 0,
  waits: 0,
  waited_ms: 0,
});

/** Waits that overlap count once in `waited_ms`. */
export class Waits {
  #depth = 0;
  #start = 0;

  /** @param {GpuCounters} counters */
  constructor(counters) {
    this.counters = counters;
  }

  begin() {
    this.counters.waits++;
    if (this.#depth++ === 0) this.#start = performance.now();
  }

  end() {
    if (--this.#depth === 0) this.counters.waited_ms += performance.now() - this.#start;
  }
}
