/** Buffers for one workload's measurements on a GPU: seeded arguments between red zones. */
import { errorRatio } from "../measure/compare.js";
import { EngineError } from "../../engine/errors.js";
import { unitOf } from "../measure/fixture.js";
import { DTYPE_BYTES } from "../../engine/plan.js";
import { layoutBytes } from "../../engine/repack.js";
import { words } from "../../engine/gpu/kernels.js";
import { padded } from "../../engine/gpu/store.js";

/** @typedef {import("../../types/gpu.js").Binding} Binding */
/** @typedef {import("../../types/gpu.js").GpuBuf} GpuBuf */
/** @typedef {import("../measure/fixture.js").FixtureHeader} FixtureHeader */
/** `source` is null for what kernels write. @typedef {{buffer: GpuBuf, offset: number, size: number, nbytes: number, source: Uint8Array | null}} Region */

export const RED_ZONE_BYTES = 256;
const GUARD = 0xa5;
const POISON = 0xff;
const FILLER_BYTES = 2 ** 20;
/** Inputs are bound for reading, which the GPU enforces; they are looked at where that is cheap. */
const COMPARED_BYTES = 32 * 2 ** 20;

export class GpuFixture {
  /** @type {Region[]} */ #regions;
  #filler;

  /**
   * @param {import("../../types/gpu.js").GpuDevice} device
   * @param {FixtureHeader} header
   * @param {Uint8Array[]} blobs
   */
  constructor(device, header, blobs) {
    this.device = device;
    this.workload = header.workload;
    this.args = header.args;
    const outputs = header.args.flatMap((a, i) => (a.role === "output" ? [i] : []));
    if (outputs.length !== header.outputs.length)
      throw new EngineError(`The fixture of ${header.workload} has ${outputs.length} outputs and ${header.outputs.length} references.`);
    this.outputs = header.outputs.map(({ expected, bound }, i) => ({ arg: outputs[i], expected: blobs[expected], bound: blobs[bound] }));
    this.written = new Set(header.args.flatMap((a, i) => (a.role === "input" ? [] : [i])));
    // zones keep the offsets that every GPU allows
    const zone = Math.max(RED_ZONE_BYTES, device.limits.minStorageBufferOffsetAlignment);
    this.zone = zone;
    this.#filler = device.createBuffer(FILLER_BYTES, "poison");
    device.write(this.#filler, 0, new Uint8Array(FILLER_BYTES).fill(POISON));
    this.#regions = header.args.map((a, i) => {
      if ((a.role === "input") !== (a.blob !== null) || !(a.dtype in DTYPE_BYTES))
        throw new EngineError(`Argument ${i} of the fixture of ${header.workload} is not as docs/protocol.md says.`);
      const data = a.blob === null ? null : blobs[a.blob];
      const source = data && a.pack ? data.subarray(0, layoutBytes(...a.pack, 0, unitOf(a.dtype))) : data;
      const nbytes = source?.length ?? a.nbytes;
      const size = words(nbytes);
      return { buffer: device.createBuffer(zone + size + zone, `${a.role} ${i}`), offset: zone, size, nbytes, source };
    });
    this.restore();
  }

  /** @returns {Binding[]} of the arguments */
  get bindings() {
    return this.#regions.map(({ buffer, offset, size }) => ({ buffer, offset, size }));
  }

  /** Fills outputs and workspaces with 0xFF: NaN as a float, and no output anyone expects. */
  poison() {
    for (const { buffer, offset, size, source } of this.#regions) {
      if (source) continue;
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
   * @returns {Promise<{outputs: Uint8Array[], error_ratio: number, guard_ok: boolean}>}
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
      if (!isFilled(bytes, 0, this.zone) || !isFilled(bytes, tail, bytes.length)) return false;
      return !region.source || isEqual(bytes.subarray(this.zone, this.zone + region.nbytes), region.source);
    });
    const outputs = this.outputs.map(({ arg }) => {
      const bytes = /** @type {Uint8Array} */ (all[arg]);
      return bytes.slice(this.zone, this.zone + this.#regions[arg].nbytes);
    });
    const ratios = this.outputs.map(({ arg, expected, bound }, i) => {
      const bounds = new Float32Array(bound.buffer, bound.byteOffset, bound.byteLength / 4);
      return errorRatio(this.args[arg].dtype, outputs[i], expected, bounds);
    });
    return { outputs, error_ratio: Math.max(0, ...ratios), guard_ok };
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

/**
 * @param {Uint8Array} bytes
 * @param {number} from
 * @param {number} to
 */
const isFilled = (bytes, from, to) => bytes.subarray(from, to).every((b) => b === GUARD);

/**
 * @param {Uint8Array} a
 * @param {Uint8Array} b of the same length
 */
function isEqual(a, b) {
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
