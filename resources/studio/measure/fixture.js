/** Memory for one workload's measurements: seeded arguments between red zones. */
import { EngineError } from "../../engine/errors.js";
import { aligned, DTYPE_BYTES, PAGE_BYTES, WEIGHTS_BASE } from "../../engine/plan.js";
import { layoutBytes, pack, WORD_BYTES, wordsAt } from "../../engine/repack.js";

/** @typedef {{role: string, dtype: string, nbytes: number, pack: [number, number] | null, blob: number | null}} FixtureArg */
/** @typedef {{workload: string, args: FixtureArg[], outputs: {expected: number, bound: number}[]}} FixtureHeader */
/** @typedef {{arg: number, address: number, nbytes: number, source: Uint8Array | null}} Region */

export const RED_ZONE_BYTES = 64;
const MAX_PAGES = 65536;
const GUARD = 0xa5;
const POISON = 0xff;

export class FixtureMemory {
  /** @type {Map<string, Region>} by argument and panel width, in order of address */ #regions = new Map();
  #end = WEIGHTS_BASE;

  /**
   * @param {FixtureHeader} header
   * @param {Uint8Array[]} blobs
   * @param {boolean} [shared] memory that a team can run in
   */
  constructor(header, blobs, shared = false) {
    this.workload = header.workload;
    this.args = header.args;
    this.blobs = blobs;
    this.memory = new WebAssembly.Memory(shared ? { initial: 1, maximum: MAX_PAGES, shared } : { initial: 1 });
    new Uint8Array(this.memory.buffer).fill(GUARD);
    const outputs = header.args.flatMap((a, i) => (a.role === "output" ? [i] : []));
    if (outputs.length !== header.outputs.length)
      throw new EngineError(`The fixture of ${header.workload} has ${outputs.length} outputs and ${header.outputs.length} references.`);
    this.outputs = header.outputs.map(({ expected, bound }, i) => ({ arg: outputs[i], expected: blobs[expected], bound: blobs[bound] }));
    header.args.forEach((a, i) => {
      if ((a.role === "input") !== (a.blob !== null) || !(a.dtype in DTYPE_BYTES))
        throw new EngineError(`Argument ${i} of the fixture of ${header.workload} is not as docs/protocol.md says.`);
      this.#region(i, 0);
    });
  }

  /**
   * Addresses of the arguments for a kernel; a weight that it wants in panels
   * is packed once per width.
   * @param {[number, number][]} panels
   * @returns {number[]}
   */
  pointers(panels) {
    const widths = new Map(panels);
    for (const arg of widths.keys())
      if (!this.args[arg]?.pack) throw new EngineError(`The kernel wants panels in argument ${arg}, which is no packable weight.`);
    return this.args.map((_, i) => this.#region(i, widths.get(i) ?? 0).address);
  }

  /** Fills outputs and workspaces with 0xFF: NaN as a float, and no output anyone expects. */
  poison() {
    for (const r of this.#regions.values()) if (!r.source) this.#bytes(r).fill(POISON);
  }

  /** Makes good what a kernel did to inputs and guards, for the next one. */
  restore() {
    new Uint8Array(this.memory.buffer).fill(GUARD);
    for (const r of this.#regions.values()) if (r.source) this.#bytes(r).set(r.source);
  }

  /** @param {number} arg an output */
  output(arg) {
    return this.#bytes(this.#region(arg, 0));
  }

  /** Whether inputs and everything around the arguments are as they were. */
  intact() {
    const bytes = new Uint8Array(this.memory.buffer);
    let at = 0;
    for (const r of this.#regions.values()) {
      if (!isFilled(bytes, at, r.address)) return false;
      if (r.source && !isEqual(this.#bytes(r), r.source)) return false;
      at = r.address + r.nbytes;
    }
    return isFilled(bytes, at, bytes.length);
  }

  /** @param {Region} r */
  #bytes(r) {
    return new Uint8Array(this.memory.buffer, r.address, r.nbytes);
  }

  /**
   * @param {number} arg
   * @param {number} width
   * @returns {Region}
   */
  #region(arg, width) {
    const key = `${arg}:${width}`;
    const known = this.#regions.get(key);
    if (known) return known;
    const source = this.#source(arg, width);
    // a packable input may have room for panels behind its data; that room is a red zone here
    const nbytes = source ? source.length : this.args[arg].nbytes;
    const address = aligned(this.#end + RED_ZONE_BYTES);
    this.#end = address + nbytes;
    this.#reserve(this.#end + RED_ZONE_BYTES);
    const region = { arg, address, nbytes, source };
    if (source) this.#bytes(region).set(source);
    this.#regions.set(key, region);
    return region;
  }

  /**
   * @param {number} arg
   * @param {number} width
   * @returns {Uint8Array | null} null for outputs and workspaces
   */
  #source(arg, width) {
    const { blob, dtype, pack: shape } = this.args[arg];
    if (blob === null) return null;
    const rows = this.blobs[blob];
    if (!shape) return rows;
    const [K, N] = shape;
    const unit = unitOf(dtype);
    const dense = layoutBytes(K, N, 0, unit);
    if (rows.length < dense) throw new EngineError(`The data of argument ${arg} is smaller than its ${K} x ${N} weight.`);
    if (!width) return rows.subarray(0, dense);
    const panels = new Uint8Array(layoutBytes(K, N, width, unit));
    panels.set(rows.subarray(0, dense));
    pack(wordsAt(panels.buffer, 0, panels.length, unit), K, N, width);
    return panels;
  }

  /** @param {number} nbytes */
  #reserve(nbytes) {
    const have = this.memory.buffer.byteLength;
    if (nbytes <= have) return;
    this.memory.grow(Math.ceil((nbytes - have) / PAGE_BYTES));
    new Uint8Array(this.memory.buffer, have).fill(GUARD);
  }
}

/** Bytes of a packable weight's elements: bytes and nibbles go four and eight to a word. @param {string} dtype */
export const unitOf = (dtype) => (dtype === "f16" ? DTYPE_BYTES.f16 : WORD_BYTES);

/**
 * @param {Uint8Array} bytes
 * @param {number} from
 * @param {number} to
 */
function isFilled(bytes, from, to) {
  for (let i = from; i < to; i++) if (bytes[i] !== GUARD) return false;
  return true;
}

/**
 * @param {Uint8Array} a
 * @param {Uint8Array} b
 */
function isEqual(a, b) {
  if (a.length !== b.length) return false;
  const words = a.byteOffset % 4 || b.byteOffset % 4 ? 0 : a.length >> 2;
  const aw = new Uint32Array(words ? a.buffer : new ArrayBuffer(0), words ? a.byteOffset : 0, words);
  const bw = new Uint32Array(words ? b.buffer : new ArrayBuffer(0), words ? b.byteOffset : 0, words);
  for (let i = 0; i < words; i++) if (aw[i] !== bw[i]) return false;
  for (let i = words * 4; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
