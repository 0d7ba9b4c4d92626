/** The likeliest token of a step's logits, found on the GPU and kept there for the next step. */
import { whole } from "../commands.js";

/** @import { Binding, Command, GpuDevice, GpuPipeline } from "../../../types/gpu.js" */
/** What a step chose, and how much its logit is above the second. @typedef {{id: number, margin: number}} Choice */

const THREADS = 256;
/** Logits of a thread, at least: below, more workgroups only make the second dispatch longer. */
const LEAST_EACH = 4;
const MOST_GROUPS = 64;
/** Steps whose choices are brought back together, at most. */
export const MOST_STEPS = 16;
const CHOICE_BYTES = 16;
const NOT_A_NUMBER = 0xffffffff;

/**
 * Floats are compared as integers in their order, so that no compiler's rules for NaN or denormal
 * numbers play a part: 0 and -0 are equal, anything that is no number is above all. 0 is none.
 */
const KEY = `fn key(bits: u32) -> u32 {
  if ((bits & 0x7fffffffu) > 0x7f800000u) { return 0xffffffffu; }
  if ((bits & 0x7fffffffu) == 0u) { return 0x80000000u; }
  return select(bits | 0x80000000u, ~bits, (bits >> 31u) == 1u);
}`;

/**
 * The best of candidates: id, 0 (with the id an i64), its key and the second one's. Of equal ones the lowest id wins.
 * @param {string} element type of what is read
 * @param {string} candidate of `i`, in what is read
 */
const best = (element, candidate) => `@group(0) @binding(0) var<storage, read> given: array<${element}>;
@group(0) @binding(1) var<storage, read_write> found: array<vec4u>;
var<workgroup> kept: array<vec4u, ${THREADS}>;
${KEY}
fn better(a: vec4u, b: vec4u) -> vec4u {
  let first = a.z > b.z || (a.z == b.z && a.x < b.x);
  let won = select(b, a, first);
  return vec4u(won.x, 0u, won.z, max(won.w, select(a.z, b.z, first)));
}
@compute @workgroup_size(${THREADS})
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) local: u32) {
  var mine = vec4u(0xffffffffu, 0u, 0u, 0u);
  for (var i = group.x * ${THREADS}u + local; i < arrayLength(&given); i += groups.x * ${THREADS}u) { mine = better(mine, ${candidate}); }
  kept[local] = mine;
  for (var half = ${THREADS / 2}u; half > 0u; half >>= 1u) {
    workgroupBarrier();
    if (local < half) { kept[local] = better(kept[local], kept[local + half]); }
  }
  if (local == 0u) { found[group.x] = kept[0]; }
}`;

/** Shaders of all logits, and of the best of their parts. */
export const CODES = [best("u32", "vec4u(i, 0u, key(given[i]), 0u)"), best("vec4u", "given[i]")];

/** Workgroups that look through so many logits. @param {number} count */
export const groupsOf = (count) => Math.max(1, Math.min(MOST_GROUPS, Math.ceil(count / (THREADS * LEAST_EACH))));

export class Likeliest {
  #device;
  #pipelines;
  #groups;
  #parts;
  #best;
  #kept;

  /** @param {GpuDevice} device @param {number} count of logits @param {GpuPipeline[]} pipelines of all logits, and of those that are left */
  constructor(device, count, pipelines) {
    this.#device = device;
    this.#pipelines = pipelines;
    this.#groups = groupsOf(count);
    this.#parts = device.createBuffer(this.#groups * CHOICE_BYTES, "likeliest of parts");
    this.#best = device.createBuffer(CHOICE_BYTES, "likeliest");
    this.#kept = device.createBuffer(MOST_STEPS * CHOICE_BYTES, "tokens");
  }

  /** @param {GpuDevice} device @param {number} count of logits */
  static async open(device, count) {
    const access = /** @type {const} */ (["read", "read_write"]);
    return new Likeliest(device, count, await Promise.all(CODES.map((code) => device.pipeline({ code, entry: "main", access }))));
  }

  /**
   * The last choice as an input.
   * @param {Binding} to @param {number} nbytes 8 of an i64, 4 of an i32
   * @returns {Command}
   */
  give({ buffer: to, offset: toOffset }, nbytes) {
    return { op: "copy", from: this.#best, fromOffset: 0, to, toOffset, nbytes };
  }

  /**
   * Chooses; the choice stays until `index` is chosen again.
   * @param {Binding} logits @param {number} index below `MOST_STEPS`
   * @returns {Command[]}
   */
  choose(logits, index) {
    const [all, left] = this.#pipelines;
    const [parts, chosen] = [whole(this.#parts), whole(this.#best)];
    return [
      { op: "dispatch", pipeline: all, bindings: [logits, parts], workgroups: [this.#groups, 1, 1] },
      { op: "dispatch", pipeline: left, bindings: [parts, chosen], workgroups: [1, 1, 1] },
      { op: "copy", from: this.#best, fromOffset: 0, to: this.#kept, toOffset: index * CHOICE_BYTES, nbytes: CHOICE_BYTES },
    ];
  }

  /** @param {number} count @param {boolean} hurried where no other steps are queued @returns {Promise<Choice[]>} the first choices, as they are in the order of the commands */
  async read(count, hurried) {
    const words = new Uint32Array((await this.#device.read(this.#kept, 0, count * CHOICE_BYTES, hurried)).buffer);
    return Array.from({ length: count }, (_, i) => choiceOf(words[4 * i], words[4 * i + 2], words[4 * i + 3]));
  }

  close() {
    for (const buffer of [this.#parts, this.#best, this.#kept]) this.#device.destroyBuffer(buffer);
  }
}

/**
 * A choice as the GPU wrote it.
 * @param {number} id @param {number} largest as a key @param {number} second as a key
 * @returns {Choice} no number is a margin of what holds one that is none
 */
export function choiceOf(id, largest, second) {
  if (largest === NOT_A_NUMBER) return { id, margin: NaN };
  return { id, margin: second === 0 ? Infinity : valueOf(largest) - valueOf(second) };
}

/** @param {number} key */
function valueOf(key) {
  const bits = new Uint32Array([key >>> 31 ? key & 0x7fffffff : ~key]);
  return new Float32Array(bits.buffer)[0];
}
