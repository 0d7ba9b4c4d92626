/** The instruction `append` on a GPU: a kernel that copies new rows of a cache into their slots. */
import { EngineError } from "../errors.js";

/** @import { Append, Plan, PlanStep } from "../../types/engine.js" */
/** @import { Access } from "../../types/gpu.js" */

const GROUP = 64;
const MOST_GROUPS = 65535;
/** Appends of one kernel: rows and cache of each and the slot are within the storage buffers that every device has. */
const MOST_TOGETHER = 3;

/**
 * The appends of a plan; neighbouring ones at one slot, which write caches alone, are one dispatch.
 * @param {PlanStep[]} steps
 * @returns {PlanStep[][]} those of each dispatch, in order
 */
export function appendRuns(steps) {
  /** @type {PlanStep[][]} */
  const runs = [];
  steps.forEach((step, at) => {
    if (!step.append) return;
    const run = runs.at(-1);
    if (run && run.at(-1) === steps[at - 1] && joins(run, step)) run.push(step);
    else runs.push([step]);
  });
  return runs;
}

/** @param {PlanStep[]} run @param {PlanStep} step */
function joins(run, { append, args }) {
  const [first] = run;
  const alike = append && args.length === first.args.length && args[2] === first.args[2];
  return alike && run.length < MOST_TOGETHER && run.every((other) => other.args[1] !== args[1]);
}

/** The kernel of a run. @param {PlanStep[]} run */
export const kernelOfRun = (run) => appendKernel(run.map(({ append }) => /** @type {Append} */ (append)), run[0].args.length > 2);

/**
 * For each append its rows and its cache; behind them, with `slotted`, the first slot as i64. A slot
 * out of range writes nothing; the engine refuses it before where it knows it.
 *
 * @param {Append[]} appends
 * @param {boolean} slotted
 * @returns {{code: string, entry: string, access: Access[], workgroups: [number, number, number]}}
 */
function appendKernel(appends, slotted) {
  let total = 0;
  const bodies = appends.map((append, n) => {
    const { count, body } = bodyOf(append, n, slotted);
    const first = total;
    total += count;
    return `if (whole >= ${first}u && whole < ${total}u) { let id = whole - ${first}u; ${body} }`;
  });
  const groups = Math.ceil(total / GROUP);
  const bound = (/** @type {number} */ n) => `@group(0) @binding(${2 * n}) var<storage, read> fresh${n}: array<u32>;
@group(0) @binding(${2 * n + 1}) var<storage, read_write> cache${n}: array<u32>;`;
  const code = `${appends.map((_, n) => bound(n)).join("\n")}
${slotted ? `@group(0) @binding(${2 * appends.length}) var<storage, read> at: array<u32>;` : ""}
@compute @workgroup_size(${GROUP})
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) local: u32) {
  let whole = (group.y * ${MOST_GROUPS}u + group.x) * ${GROUP}u + local;
  ${slotted ? "let slot = at[0]; if (at[1] != 0u) { return; }" : "let slot = 0u;"}
  ${bodies.join("\n  ")}
}`;
  const access = /** @type {Access[]} */ ([...appends.flatMap(() => ["read", "read_write"]), ...(slotted ? ["read"] : [])]);
  return { code, entry: "main", access, workgroups: [Math.min(groups, MOST_GROUPS), Math.ceil(groups / MOST_GROUPS), 1] };
}

/**
 * @param {Append} append
 * @param {number} n its number in the kernel
 * @param {boolean} slotted
 * @returns {{count: number, body: string}} threads, and what the one of number `id` does
 */
function bodyOf(append, n, slotted) {
  const { heads, rows, capacity, columns } = append;
  const words = !columns && (append.width * append.nbytes) % 4 === 0;
  const width = words ? (append.width * append.nbytes) / 4 : append.width;
  const nbytes = words ? 4 : append.nbytes;
  const lines = columns ? heads * width : heads;
  const each = columns ? rows : rows * width;
  const from = columns ? `line / ${width}u * ${rows * width}u + i * ${width}u + line % ${width}u` : `line * ${each}u + i`;
  const first = columns ? `line * ${capacity}u + slot` : `(line * ${capacity}u + slot) * ${width}u`;
  const guarded = (/** @type {string} */ copies) => (slotted ? `if (slot <= ${capacity - rows}u) { ${copies} }` : copies);
  if (nbytes === 4) {
    const copies = `let line = id / ${each}u; let i = id % ${each}u; cache${n}[${first} + i] = fresh${n}[${from}];`;
    return { count: lines * each, body: guarded(copies) };
  }
  // Elements smaller than a word: a thread has a word, all of them where two lines share one.
  const per = 4 / nbytes;
  const most = Math.ceil((each + per - 1) / per);
  const apart = ((columns ? capacity : capacity * width) * nbytes) % 4 === 0;
  const copies = `let first = ${first}; let word = first / ${per}u + at;
    if (word * ${per}u < first + ${each}u) { ${oneWord(n, nbytes, each, from)} }`;
  const loop = `for (var line = 0u; line < ${lines}u; line++) { for (var at = 0u; at < ${most}u; at++) { ${copies} } }`;
  const alone = `let line = id / ${most}u; let at = id % ${most}u; ${copies}`;
  return { count: apart ? lines * most : 1, body: guarded(apart ? alone : loop) };
}

/**
 * New elements in `word`, of a line's `each` from `first` on; the others stay.
 * @param {number} n
 * @param {number} nbytes of an element, 1 or 2
 * @param {number} each
 * @param {string} from where the line's element `i` comes from
 */
function oneWord(n, nbytes, each, from) {
  const per = 4 / nbytes;
  const bits = 8 * nbytes;
  const mask = `${2 ** bits - 1}u`;
  return `var value = cache${n}[word];
    for (var e = 0u; e < ${per}u; e++) {
      let i = word * ${per}u + e - first;
      if (i < ${each}u) {
        let source = ${from};
        let element = (fresh${n}[source / ${per}u] >> (source % ${per}u * ${bits}u)) & ${mask};
        value = (value & ~(${mask} << (e * ${bits}u))) | (element << (e * ${bits}u));
      }
    }
    cache${n}[word] = value;`;
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
