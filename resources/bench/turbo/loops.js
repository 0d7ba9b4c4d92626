/** Loops of a module and their other bodies: compared on random memory, and timed in turns. */
import { interleave } from "../rounds.js";
import { address, fill, randomOf, whole } from "./random.js";

/** @import { Policy } from "../rounds.js" */
/** @import { Random } from "./random.js" */
/**
 * @typedef {object} LoopJob a loop of `loop_module.py`
 * @property {number} first
 * @property {number[]} given types of the locals that it reads
 * @property {number[]} results types of the locals that it writes
 * @property {boolean[]} rounds_twice for each variant: whether it gives every bit of the original
 */
/** @typedef {{file: string, shared: boolean, loops: LoopJob[]}} FunctionJob */
/** @typedef {{seed: number, cases: number, policy: Policy}} Settings */
/** @typedef {() => void} Run */

const PAGES = 16;
const GIVEN = 64;
const RESULTS = 32768;
const SLOT = 16;
const I32 = 0x7f;
const I64 = 0x7e;
const ATTEMPTS = 400;
const TRIPS = 64;
const CALL_MS = 0.2;
/** Of the largest result: by how much a body with fused multiply-adds may differ here. */
const TOLERANCE = 1e-4;

/** One loop's functions and the memory that they run on. */
class Laboratory {
  /** @param {WebAssembly.Instance} instance @param {WebAssembly.Memory} memory @param {LoopJob} loop @param {Random} random */
  constructor(instance, memory, loop, random) {
    const { exports } = instance;
    this.original = /** @type {Run} */ (exports[`o${loop.first}`]);
    this.variants = loop.rounds_twice.map((_, n) => /** @type {Run} */ (exports[`v${loop.first}_${n}`]));
    this.loop = loop;
    this.random = random;
    this.view = new DataView(memory.buffer);
    this.words = new Uint32Array(memory.buffer);
    this.image = new Uint32Array(this.words.length);
  }

  /** Locals as they are before; pointers are multiples of `step`. @param {number} step */
  drawLocals(step) {
    const view = new DataView(this.image.buffer);
    this.loop.given.forEach((type, n) => {
      const at = GIVEN + SLOT * n;
      if (type === I32) view.setInt32(at, address(this.random, step), true);
      else if (type === I64) view.setBigInt64(at, BigInt(address(this.random, step)), true);
      else for (let lane = 0; lane < SLOT; lane += 4) view.setFloat32(at + lane, 2 * this.random() - 1, true);
    });
  }

  /** @param {number} trips @param {number} runs @param {boolean} freely without asking the condition */
  setHeader(trips, runs, freely) {
    this.view.setInt32(0, trips, true);
    this.view.setInt32(4, runs, true);
    this.view.setInt32(8, Number(freely), true);
  }

  /** Whether a run on the image ends without a trap. @param {Run} run @param {() => void} header */
  ends(run, header) {
    this.words.set(this.image);
    header();
    try {
      run();
      return true;
    } catch (e) {
      if (e instanceof WebAssembly.RuntimeError) return false;
      throw e;
    }
  }
}

/** @param {Laboratory} lab @param {number} cases */
function prove(lab, cases) {
  const { random, loop } = lab;
  const equal = loop.rounds_twice.map(() => true);
  let ended = 0;
  for (let n = 0; n < cases; n++) {
    fill(random, lab.image.buffer, false);
    lab.drawLocals(whole(random, 1, 16));
    const trips = whole(random, 1, 40);
    const freely = random() < 0.7;
    const header = () => lab.setHeader(trips, 1, freely);
    const first = lab.ends(lab.original, header);
    ended += Number(first);
    const expected = lab.words.slice();
    lab.variants.forEach((run, v) => {
      const second = lab.ends(run, header);
      const same = first === second && (loop.rounds_twice[v] ? identical(expected, lab.words) : close(expected, lab.words, loop));
      equal[v] &&= same;
    });
  }
  return { cases, ended, equal };
}

/** @param {Uint32Array} a @param {Uint32Array} b */
export function identical(a, b) {
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** All but the vector results bit for bit, these within a tolerance. @param {Uint32Array} a @param {Uint32Array} b @param {LoopJob} loop */
function close(a, b, { results }) {
  const [x, y] = [new Float32Array(a.buffer), new Float32Array(b.buffer, b.byteOffset, b.length)];
  const first = RESULTS / 4;
  const last = first + (SLOT / 4) * results.length;
  let largest = 1;
  for (let i = first; i < last; i++) if (Number.isFinite(x[i])) largest = Math.max(largest, Math.abs(x[i]));
  for (let i = 0; i < a.length; i++) {
    if (a[i] === b[i]) continue;
    const vector = i >= first && i < last && results[(i - first) >> 2] === 0x7b;
    const unlike = Number.isFinite(x[i]) && Number.isFinite(y[i]) && Math.abs(x[i] - y[i]) > TOLERANCE * largest;
    if (!vector || unlike) return false;
  }
  return true;
}

/** Milliseconds of a call by contender, or why there are none. @param {Laboratory} lab @param {Policy} policy */
async function time(lab, policy) {
  fill(lab.random, lab.image.buffer, true);
  const runs = [lab.original, ...lab.variants];
  if (!drawn(lab, runs)) return { samples_ms: {}, error: "no arguments were found that it runs on" };
  let count = 8;
  for (let ms = 0; ms < CALL_MS && count < 1 << 20; count *= 2) {
    const start = performance.now();
    lab.ends(lab.original, () => lab.setHeader(TRIPS, 2 * count, true));
    ms = performance.now() - start;
  }
  const contenders = runs.map((run, n) => ({
    name: n ? `v${n - 1}` : "o",
    threads: 1,
    call: async () => {
      run();
      return 0;
    },
    output: async () => new Float32Array(),
    release: () => {},
  }));
  lab.words.set(lab.image);
  lab.setHeader(TRIPS, count, true);
  return { samples_ms: await interleave(contenders, policy) };
}

/** Finds locals that no body traps on. @param {Laboratory} lab @param {Run[]} runs */
function drawn(lab, runs) {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    lab.drawLocals(16);
    if (runs.every((run) => lab.ends(run, () => lab.setHeader(TRIPS, 1, true)))) return true;
  }
  return false;
}

/**
 * A row for each loop of a function.
 * @param {FunctionJob} job
 * @param {Settings} settings
 * @param {(path: string) => Promise<BufferSource>} fetchBytes
 */
export async function* rows(job, { seed, cases, policy }, fetchBytes) {
  const memory = new WebAssembly.Memory({ initial: PAGES, maximum: 65536, shared: job.shared });
  const { instance } = await WebAssembly.instantiate(await fetchBytes(job.file), { e: { m: memory } });
  for (const loop of job.loops) {
    const lab = new Laboratory(instance, memory, loop, randomOf(seed + loop.first));
    const proof = prove(lab, cases);
    yield { file: job.file, first: loop.first, proof, ...(await time(lab, policy)) };
  }
}

