/** Alone or on the team, where the extent of a kernel's outer loop follows from sizes. */
import { Choice } from "../choice.js";

/** @import { Registered } from "../../types/engine.js" */

export class Choices {
  /** @type {WeakMap<Registered, Choice[]>} of each kernel by power of two, with holes */ #made = new WeakMap();

  /**
   * Extents of one power of two share a choice. A new one is settled from the start where a smaller
   * extent is worth a team, or a larger one is not: the first run of a size is like those of others.
   * @param {Registered} kernel
   * @param {number} extent
   */
  of(kernel, extent) {
    const made = this.#made.get(kernel) ?? [];
    this.#made.set(kernel, made);
    const power = 31 - Math.clz32(extent);
    if (!made[power]) {
      const known = made.find((choice, at) => choice?.settled && choice.team === at < power);
      const { team, settled } = known ?? { team: false, settled: false };
      made[power] = Object.assign(new Choice(), { team, settled });
    }
    return made[power];
  }
}
