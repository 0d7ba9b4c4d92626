/** The instruction `append` on a GPU: a kernel that copies new rows of a cache into their slots. */
import { EngineError } from "../errors.js";

/** @import { Append, Plan } from "../../types/engine.js" */
/** @import { Access } from "../../types/gpu.js" */

const GROUP = 64;
const MOST_GROUPS = 65535;

/**
 * Rows, cache and, with `slotted`, the first slot as i64. A slot out of range writes nothing;
 * the engine refuses it before where it knows it.
 *
 * @param {Append} append
 * @param {boolean} slotted
 * @returns {{code: string, entry: string, access: Access[], workgroups: [number, number, number]}}
 */
export function appendKernel(append, slotted) {
  const { heads, rows, capacity, columns } = append;
  const whole = !columns && (append.width * append.nbytes) % 4 === 0;
  const width = whole ? (append.width * append.nbytes) / 4 : append.width;
  const nbytes = whole ? 4 : append.nbytes;
  const lines = columns ? heads * width : heads;
  const each = columns ? rows : rows * width;
  const from = columns ? `line / ${width}u * ${rows * width}u + i * ${width}u + line % ${width}u` : `line * ${each}u + i`;
  const to = columns ? `line * ${capacity}u + slot + i` : `(line * ${capacity}u + slot) * ${width}u + i`;
  const stride = (columns ? capacity : capacity * width) * nbytes;
  // elements smaller than a word: who writes one must be alone in its word
  const count = nbytes === 4 ? lines * each : stride % 4 === 0 ? lines : 1;
  const loop = (/** @type {string} */ name, /** @type {number} */ end) => `for (var ${name} = 0u; ${name} < ${end}u; ${name}++) {`;
  const body =
    nbytes === 4
      ? `let line = id / ${each}u; let i = id % ${each}u; cache[${to}] = fresh[${from}];`
      : `${count === 1 ? loop("line", lines) : "{ let line = id;"} ${loop("i", each)} put(${to}, ${element(nbytes)}(${from})); } }`;
  const groups = Math.ceil(count / GROUP);
  const code = `@group(0) @binding(0) var<storage, read> fresh: array<u32>;
@group(0) @binding(1) var<storage, read_write> cache: array<u32>;
${slotted ? "@group(0) @binding(2) var<storage, read> at: array<u32>;" : ""}
${nbytes === 4 ? "" : parts(nbytes)}
@compute @workgroup_size(${GROUP})
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) local: u32) {
  let id = (group.y * ${MOST_GROUPS}u + group.x) * ${GROUP}u + local;
  ${slotted ? `let slot = at[0]; if (at[1] != 0u || slot > ${capacity - rows}u) { return; }` : "let slot = 0u;"}
  if (id >= ${count}u) { return; }
  ${body}
}`;
  const access = /** @type {Access[]} */ (["read", "read_write", ...(slotted ? ["read"] : [])]);
  return { code, entry: "main", access, workgroups: [Math.min(groups, MOST_GROUPS), Math.ceil(groups / MOST_GROUPS), 1] };
}

/** @param {number} nbytes */
const element = (nbytes) => `element${nbytes}`;

/** @param {number} nbytes of an element, 1 or 2 */
function parts(nbytes) {
  const per = 4 / nbytes;
  const bits = 8 * nbytes;
  const mask = `${2 ** bits - 1}u`;
  return `fn ${element(nbytes)}(i: u32) -> u32 { return (fresh[i / ${per}u] >> (i % ${per}u * ${bits}u)) & ${mask}; }
fn put(i: u32, value: u32) {
  let shift = i % ${per}u * ${bits}u;
  cache[i / ${per}u] = (cache[i / ${per}u] & ~(${mask} << shift)) | (value << shift);
}`;
}

/**
 * Refuses slots that the cache has not, where an input of the model names them.
 * @param {Plan} plan
 * @param {readonly {buffer: number, data: Uint8Array}[]} feeds
 */
export function checkSlots(plan, feeds) {
  for (const { append, args } of plan.steps) {
    const feed = append && feeds.find(({ buffer }) => buffer === args[2]);
    if (!append || !feed) continue;
    const slot = Number(new DataView(feed.data.buffer, feed.data.byteOffset).getBigInt64(0, true));
    if (!(slot >= 0 && slot + append.rows <= append.capacity))
      throw new EngineError(`The cache has ${append.capacity} slots; ${append.rows} rows at slot ${slot} do not fit.`);
  }
}
