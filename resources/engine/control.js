/**
 * The shared words by which a team of threads works off one kernel together.
 *
 * The caller writes a command (kernel, arguments, extent, chunks), then sets
 * LEFT to the number of chunks. Whoever takes LEFT from n to n - 1 owns that
 * chunk, and with it the right to read the command: the caller changes it only
 * when PENDING says that every chunk is done. So nobody waits for a helper
 * that sleeps or has no core, and a helper that is late takes part in whatever
 * command there is by then.
 */

import { MAX_THREADS } from "./features.js";

// the words that many threads write stand on cache lines of their own
const LEFT = 0; // chunks that nobody has taken yet
const PENDING = 16; // chunks that are not done yet
const WAKE = 32; // changes when there is something to do
const SLEEPERS = 48; // helpers in Atomics.wait
export const MAIL = 49; // messages posted to each helper
const CALLER_SLEEPS = 50;
const FAILED = 51; // 1 when a chunk trapped in a helper
const TEXT_LENGTH = 52;
const KERNEL = 64;
const EXTENT = 65;
const CHUNKS = 66;
const POINTERS = 67;
const ARGS = 68;
export const MAX_POINTERS = 120;
const TEXT = ARGS + MAX_POINTERS;
const MAX_TEXT = 200;
const TOOK = TEXT + MAX_TEXT; // chunks that each thread has taken, the caller first
const LINE = 16; // words between those of two threads

export const CONTROL_BYTES = 4 * (TOOK + MAX_THREADS * LINE);

/** More chunks than threads, so that a thread which loses its core holds up little. */
const CHUNKS_PER_THREAD = 4;
/** How long to look for work before sleeping: about what going to sleep and waking up costs. */
const SPIN_MS = 0.2;
const LOOKS_PER_CLOCK = 64;

/** @import { Run } from "../types/engine.js" */
/** @typedef {Int32Array<SharedArrayBuffer>} Control */

/** Gives the core's other thread a moment, where the engine can say so. @type {() => void} */
const pause = /** @type {any} */ (Atomics).pause ?? (() => {});

/**
 * Puts a command up and wakes who sleeps.
 * @param {Control} control
 * @param {number} kernel
 * @param {number[]} pointers
 * @param {number} extent
 * @param {number} threads
 */
export function publish(control, kernel, pointers, extent, threads) {
  const chunks = Math.min(extent, threads * CHUNKS_PER_THREAD);
  control[KERNEL] = kernel;
  control[EXTENT] = extent;
  control[CHUNKS] = chunks;
  control[POINTERS] = pointers.length;
  for (let i = 0; i < pointers.length; i++) control[ARGS + i] = pointers[i];
  Atomics.store(control, PENDING, chunks);
  Atomics.store(control, LEFT, chunks);
  wake(control);
}

/** @param {Control} control */
export function wake(control) {
  Atomics.add(control, WAKE, 1);
  if (Atomics.load(control, SLEEPERS) > 0) Atomics.notify(control, WAKE);
}

/**
 * Takes a chunk of the present command.
 * @param {Control} control
 * @returns {number} how many were left, this one included; 0 when there is none
 */
function take(control) {
  let left = Atomics.load(control, LEFT);
  while (left > 0) {
    const found = Atomics.compareExchange(control, LEFT, left, left - 1);
    if (found === left) return left;
    left = found;
  }
  return 0;
}

/**
 * The caller's share of its own command.
 * @param {Control} control
 * @param {Run} run
 * @param {number[]} args pointers, then two places for begin and end
 */
export function workOff(control, run, args) {
  for (let left = take(control); left; left = take(control)) {
    control[TOOK]++;
    runChunk(control, left, run, args);
  }
}

/**
 * How many chunks each thread has taken since the start; read when no command is up.
 * @param {Control} control
 * @param {number} threads
 */
export const taken = (control, threads) => Array.from({ length: threads }, (_, i) => control[TOOK + i * LINE]);

/**
 * @param {Control} control
 * @param {number} left
 * @param {Run} run
 * @param {number[]} args
 */
function runChunk(control, left, run, args) {
  const [extent, chunks] = [control[EXTENT], control[CHUNKS]];
  args[args.length - 2] = Math.floor(((chunks - left) * extent) / chunks);
  args[args.length - 1] = Math.floor(((chunks - left + 1) * extent) / chunks);
  try {
    run(...args);
  } catch (e) {
    settle(control, Atomics.exchange(control, LEFT, 0)); // nobody starts what is left of it
    throw e;
  } finally {
    settle(control, 1);
  }
}

/**
 * @param {Control} control
 * @param {number} chunks that are done, or never will be
 */
function settle(control, chunks) {
  if (chunks && Atomics.sub(control, PENDING, chunks) === chunks && Atomics.load(control, CALLER_SLEEPS))
    Atomics.notify(control, PENDING);
}

/**
 * A helper's life between two messages.
 * @param {Control} control
 * @param {Map<number, Run>} kernels
 * @param {number} mail messages that it has seen
 * @param {number} number of the helper, from 1
 */
export function help(control, kernels, mail, number) {
  let looks = 0;
  let since = performance.now();
  for (;;) {
    const signal = Atomics.load(control, WAKE); // before looking: what comes later wakes us
    if (Atomics.load(control, MAIL) !== mail) return;
    const left = take(control);
    if (left) {
      control[TOOK + number * LINE]++; // before the chunk is done, so that who joins sees it
      helpWith(control, kernels, left);
      [looks, since] = [0, performance.now()];
    } else if (++looks % LOOKS_PER_CLOCK === 0 && performance.now() - since > SPIN_MS) {
      Atomics.add(control, SLEEPERS, 1);
      Atomics.wait(control, WAKE, signal);
      Atomics.sub(control, SLEEPERS, 1);
      [looks, since] = [0, performance.now()];
    } else pause();
  }
}

/** @param {Control} control @param {Map<number, Run>} kernels @param {number} left */
function helpWith(control, kernels, left) {
  const run = kernels.get(control[KERNEL]) ?? unknown;
  const args = [...control.subarray(ARGS, ARGS + control[POINTERS]), 0, 0];
  try {
    runChunk(control, left, (...given) => report(control, run, given), args);
  } catch {
    // it is reported
  }
}

/** @type {Run} */
const unknown = () => {
  throw new Error("the thread has no such kernel");
};

/**
 * Runs a chunk; what it throws is written down before the chunk counts as done.
 * @param {Control} control
 * @param {Run} run
 * @param {number[]} args
 */
function report(control, run, args) {
  try {
    run(...args);
  } catch (e) {
    if (Atomics.compareExchange(control, FAILED, 0, 1) === 0) {
      const text = String(e).slice(0, MAX_TEXT);
      for (let i = 0; i < text.length; i++) control[TEXT + i] = text.charCodeAt(i);
      control[TEXT_LENGTH] = text.length;
    }
    throw e;
  }
}

/**
 * Waits for the helpers' chunks: awake at first, then asleep where that is
 * allowed (a page's main thread has to stay awake).
 *
 * @param {Control} control
 * @param {boolean} may_sleep
 * @param {number} limit_ms
 * @returns {boolean} whether all chunks are done
 */
export function join(control, may_sleep, limit_ms) {
  let looks = 0;
  let start = 0;
  for (let pending = Atomics.load(control, PENDING); pending > 0; pending = Atomics.load(control, PENDING)) {
    if (++looks % LOOKS_PER_CLOCK) {
      pause();
      continue;
    }
    const now = performance.now();
    start ||= now;
    if (now - start > limit_ms) return false;
    if (!may_sleep || now - start <= SPIN_MS) continue;
    Atomics.store(control, CALLER_SLEEPS, 1);
    const still = Atomics.load(control, PENDING);
    if (still > 0) Atomics.wait(control, PENDING, still, limit_ms);
    Atomics.store(control, CALLER_SLEEPS, 0);
  }
  return true;
}

/**
 * What a helper's chunk threw, once; empty when all went well.
 * @param {Control} control
 */
export function takeFailure(control) {
  if (!Atomics.load(control, FAILED)) return "";
  Atomics.store(control, FAILED, 0);
  return String.fromCharCode(...control.subarray(TEXT, TEXT + control[TEXT_LENGTH]));
}
