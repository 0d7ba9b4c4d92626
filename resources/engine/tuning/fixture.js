/** Memory for one workload's measurements: seeded arguments between red zones. */
import { EngineError } from "../errors.js";
import { aligned, ARRAYS, PAGE_BYTES, WEIGHTS_BASE } from "../plan.js";
import { layoutBytes, pack, WORD_BYTES, wordsAt } from "../repack.js";
import { GUARD, isEqual, isGuard, POISON } from "./compare.js";

/** @typedef {{role: string, dtype: string, nbytes: number, pack: [number, number] | null, blob: number | null}} FixtureArg */
/** @typedef {{workload: string, args: FixtureArg[], outputs: {expected: number, bound: number}[]}} FixtureHeader */
/** @typedef {{arg: number, address: number, nbytes: number, source: Uint8Array | null}} Region */

export const RED_ZONE_BYTES = 64;
const MAX_PAGES = 65536;

export class FixtureMemory {
  /** @type {Map<string, Region>} by argument and panel width, in order of address */ #regions = new Map();
  #end = WEIGHTS_BASE;
  #sources;

  /**
   * @param {FixtureHeader} header
   * @param {Uint8Array[]} blobs
   * @param {boolean} [shared] memory that a team can run in
   */
  constructor(header, blobs, shared = false) {
    const { workload, args, outputs, sources } = readFixture(header, blobs);
    this.workload = workload;
    this.args = args;
    this.outputs = outputs;
    this.#sources = sources;
    this.memory = new WebAssembly.Memory(shared ? { initial: 1, maximum: MAX_PAGES, shared } : { initial: 1 });
    new Uint8Array(this.memory.buffer).fill(GUARD);
    args.forEach((_, i) => this.#region(i, 0));
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

  /**
   * Fills the outputs alone: a kernel that has left itself a note in a workspace, that its work is
   * done, finds it again.
   */
  poisonOutputs() {
    for (const { arg } of this.outputs) this.output(arg).fill(POISON);
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
      if (!isGuard(bytes, at, r.address)) return false;
      if (r.source && !isEqual(this.#bytes(r), r.source)) return false;
      at = r.address + r.nbytes;
    }
    return isGuard(bytes, at, bytes.length);
  }

  /** @param {Region} r */
  #bytes(r) {
    return new Uint8Array(this.memory.buffer, r.address, r.nbytes);
  }

  /** @param {number} arg @param {number} width @returns {Region} */
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
    const { dtype, pack: shape } = this.args[arg];
    const rows = this.#sources[arg];
    if (!rows || !shape || !width) return rows;
    const unit = unitOf(dtype);
    const panels = new Uint8Array(layoutBytes(...shape, width, unit));
    panels.set(rows);
    pack(wordsAt(panels.buffer, 0, panels.length, unit), ...shape, width);
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
const unitOf = (dtype) => (dtype === "f16" ? ARRAYS.f16.BYTES_PER_ELEMENT : WORD_BYTES);

/**
 * The arguments, with the data of each input (a packable weight without the room for its panels),
 * and the outputs with their references.
 * @param {FixtureHeader} header
 * @param {Uint8Array[]} blobs
 */
export function readFixture({ workload, args, outputs: references }, blobs) {
  const sources = args.map(({ role, blob, dtype, pack: shape }, i) => {
    if ((role === "input") !== (blob !== null) || !(dtype in ARRAYS))
      throw new EngineError(`Argument ${i} of the fixture of ${workload} is not as docs/protocol.md says.`);
    if (blob === null || !shape) return blob === null ? null : blobs[blob];
    const dense = layoutBytes(...shape, 0, unitOf(dtype));
    if (blobs[blob].length < dense) throw new EngineError(`The data of argument ${i} is smaller than its ${shape.join(" x ")} weight.`);
    return blobs[blob].subarray(0, dense);
  });
  const written = args.flatMap(({ role, dtype }, arg) => (role === "output" ? [{ arg, dtype }] : []));
  if (written.length !== references.length)
    throw new EngineError(`The fixture of ${workload} has ${written.length} outputs and ${references.length} references.`);
  const outputs = references.map(({ expected, bound: at }, i) => {
    const { buffer, byteOffset, byteLength } = blobs[at];
    return { ...written[i], expected: blobs[expected], bound: new Float32Array(buffer, byteOffset, byteLength / 4) };
  });
  return { workload, args, outputs, sources };
}
