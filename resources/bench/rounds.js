/** Timing of several contenders in turns, so that a drift of the machine meets all alike. */

/**
 * One way to compute the same thing.
 * @typedef {object} Contender
 * @property {string} name
 * @property {number} threads that it really runs on
 * @property {() => Promise<number>} call what a page would write: run, read, dispose
 * @property {() => Promise<Float32Array>} output of one call, whole
 * @property {() => void | Promise<void>} release
 */
/** @typedef {{rounds: number, min_sample_ms: number, warmup_ms: number, max_warmup_ms: number}} Policy */
/** @typedef {() => number} Clock milliseconds */
/** @callback OnRound @param {Record<string, number[]>} samples until now @returns {Promise<unknown> | unknown} false ends the rounds */

const STABLE = 0.05;

/**
 * How long a peer's threads may look for work after a call, with room to spare: meanwhile the next contender has not
 * got their cores. Two threads of ONNX Runtime Web take 16 ms or more. Of four, 40 ms are too few: the next one then
 * took 24 to 74 ms where it takes 10 to 30 after 200 ms (two models, four cores).
 * @param {number} threads
 */
const restMs = (threads) => (threads > 1 ? 12.5 * threads ** 2 : 0);

/** Lets the page breathe between samples: timers, garbage, the peers' workers. */
const breathe = (ms = 0) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * @param {Contender} contender
 * @param {number} calls
 * @param {Clock} now
 * @returns {Promise<number>} ms of one call
 */
export async function sample(contender, calls, now) {
  const start = now();
  for (let i = 0; i < calls; i++) await contender.call();
  return (now() - start) / calls;
}

/**
 * Runs until two batches in a row agree within 5 %, for at least `warmup_ms`.
 * @param {Contender} contender
 * @param {Policy} policy
 * @param {Clock} now
 * @returns {Promise<number>} calls that fill a sample
 */
export async function warmUp(contender, policy, now) {
  const start = now();
  let before = Infinity;
  let calls = 1;
  for (;;) {
    const ms = await sample(contender, calls, now);
    const spent = now() - start;
    const stable = Math.abs(ms - before) <= STABLE * ms;
    calls = Math.max(1, Math.ceil(policy.min_sample_ms / Math.max(ms, 1e-3)));
    if ((stable && spent >= policy.warmup_ms) || spent >= policy.max_warmup_ms) return calls;
    before = ms;
    await breathe();
  }
}

/**
 * Samples of every contender, interleaved; who begins changes each round.
 * @param {Contender[]} contenders
 * @param {Policy} policy
 * @param {Clock} [now]
 * @param {OnRound} [onRound]
 * @returns {Promise<Record<string, number[]>>} ms of one call, by name
 */
export async function interleave(contenders, policy, now = () => performance.now(), onRound = () => true) {
  const calls = [];
  const rest_ms = restMs(Math.max(...contenders.map(({ threads }) => threads)));
  for (const contender of contenders) {
    await breathe(rest_ms);
    calls.push(await warmUp(contender, policy, now));
  }
  /** @type {Record<string, number[]>} */
  const samples = Object.fromEntries(contenders.map((c) => [c.name, []]));
  for (let round = 0; round < policy.rounds; round++) {
    for (let turn = 0; turn < contenders.length; turn++) {
      const i = (round + turn) % contenders.length;
      await breathe(rest_ms);
      samples[contenders[i].name].push(await sample(contenders[i], calls[i], now));
    }
    if ((await onRound(samples)) === false) break;
  }
  return samples;
}
