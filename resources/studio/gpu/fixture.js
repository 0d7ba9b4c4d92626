/** Buffers for one workload's measurements on a GPU: seeded arguments between red zones. */
import { words } from "../../engine/gpu/commands.js";
import { padded } from "../../engine/gpu/store.js";
import { GUARD, isEqual, isGuard, POISON, worstRatio } from "../../engine/tuning/compare.js";
import { readFixture } from "../../engine/tuning/fixture.js";

/** @import { Binding, GpuBuf, GpuDevice } from "../../types/gpu.js" */
/** @import { FixtureHeader } from "../../engine/tuning/fixture.js" */
/** `source` is null for what kernels write. @typedef {{buffer: GpuBuf, offset: number, size: number, nbytes: number, source: Uint8Array | null}} Region */

export const RED_ZONE_BYTES = 256;
const FILLER_BYTES = 2 ** 20;
/** Inputs are bound for reading, which the GPU enforces; they are looked at where that is cheap. */
const COMPARED_BYTES = 32 * 2 ** 20;

export class GpuFixture {
  /** @type {Region[]} */ #regions;
  #filler;

  /** @param {GpuDevice} device @param {FixtureHeader} header @param {Uint8Array[]} blobs */
  constructor(device, header, blobs) {
    this.device = device;
    const { workload, args, outputs, sources } = readFixture(header, blobs);
    this.workload = workload;
    this.args = args;
    this.outputs = outputs;
    this.written = new Set(sources.flatMap((source, i) => (source ? [] : [i])));
    // zones keep the offsets that every GPU allows
    const zone = Math.max(RED_ZONE_BYTES, device.limits.minStorageBufferOffsetAlignment);
    this.zone = zone;
    this.#filler = device.createBuffer(FILLER_BYTES, "poison");
    device.write(this.#filler, 0, new Uint8Array(FILLER_BYTES).fill(POISON));
    this.#regions = args.map(({ role, nbytes: room }, i) => {
      const source = sources[i];
      const nbytes = source?.length ?? room;
      const size = words(nbytes);
      return { buffer: device.createBuffer(zone + size + zone, `${role} ${i}`), offset: zone, size, nbytes, source };
    });
    this.restore();
  }

  /** @returns {Binding[]} of the arguments */
  get bindings() {
    return this.#regions.map(({ buffer, offset, size }) => ({ buffer, offset, size }));
  }

  /** Fills outputs and workspaces with 0xFF: NaN as a float, and no output anyone expects. */
  poison() {
    this.#fill(this.#regions.filter(({ source }) => !source));
  }

  /** As that of Wasm. */
  poisonOutputs() {
    this.#fill(this.outputs.map(({ arg }) => this.#regions[arg]));
  }

  /** @param {Region[]} regions */
  #fill(regions) {
    for (const { buffer, offset, size } of regions) {
      for (let at = 0; at < size; at += FILLER_BYTES)
        this.device.encode([
          { op: "copy", from: this.#filler, fromOffset: 0, to: buffer, toOffset: offset + at, nbytes: Math.min(FILLER_BYTES, size - at) },
        ]);
    }
  }

  /** Makes good what a kernel did to inputs and guards, for the next one. */
  restore() {
    const guard = new Uint8Array(this.zone).fill(GUARD);
    for (const { buffer, offset, size, source } of this.#regions) {
      this.device.write(buffer, 0, guard);
      this.device.write(buffer, offset + size, guard);
      if (source) this.device.write(buffer, offset, padded(source));
    }
  }

  /**
   * What a kernel left behind: its outputs, how wrong the worst of them is (at most 1 is right),
   * and whether everything else is as it was.
   * @returns {Promise<{outputs: Uint8Array[], ratio: number, guard_ok: boolean}>}
   */
  async result() {
    const all = await Promise.all(
      this.#regions.map(({ buffer, source }, i) =>
        source ? (source.length <= COMPARED_BYTES ? this.device.read(buffer, 0, buffer.nbytes) : null) : this.#ends(i),
      ),
    );
    const guard_ok = this.#regions.every((region, i) => {
      const bytes = all[i];
      if (!bytes) return true;
      const tail = bytes.length - this.zone;
      if (!isGuard(bytes, 0, this.zone) || !isGuard(bytes, tail, bytes.length)) return false;
      return !region.source || isEqual(bytes.subarray(this.zone, this.zone + region.nbytes), region.source);
    });
    /** @type {Map<number, Uint8Array>} */
    const outputs = new Map();
    for (const { arg } of this.outputs) outputs.set(arg, /** @type {Uint8Array} */ (all[arg]).slice(this.zone, this.zone + this.#regions[arg].nbytes));
    const ratio = worstRatio(this.outputs, (arg) => /** @type {Uint8Array} */ (outputs.get(arg)));
    return { outputs: [...outputs.values()], ratio, guard_ok };
  }

  destroy() {
    this.device.destroyBuffer(this.#filler);
    for (const { buffer } of this.#regions) this.device.destroyBuffer(buffer);
  }

  /**
   * An output whole, of a workspace its red zones alone.
   * @param {number} i
   */
  async #ends(i) {
    const { buffer, offset, size } = this.#regions[i];
    if (this.args[i].role === "output") return this.device.read(buffer, 0, buffer.nbytes);
    const zones = await Promise.all([this.device.read(buffer, 0, this.zone), this.device.read(buffer, offset + size, this.zone)]);
    const both = new Uint8Array(2 * this.zone);
    zones.forEach((zone, n) => both.set(zone, n * this.zone));
    return both;
  }
}
