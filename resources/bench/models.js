/**
 * The page of `nnjit bench models` and of verdicts: one model in several sessions, in turns;
 * with `?cold=NAME`, one of them from navigation to its first output; with `?nodes=NAME`, the time
 * of each node of one of ONNX Runtime Web.
 */
import { openLiteRt } from "./litert.js";
import { memoryBytes, watchMemories } from "./memories.js";
import { catchLines, nodeTimes } from "./nodes.js";
import { conduct, fetchInputs, fetchJob, file, post, report } from "./page.js";
import { interleave } from "./rounds.js";
import { sentinel } from "./sentinel.js";
import { openOnnxRuntime, openOurs } from "./sessions.js";

/** @import { Contender, Policy } from "./rounds.js" */
/** @import { Input, Opened } from "./sessions.js" */
/** @typedef {{name: string, type: string, dims: number[], file: string}} Given */
/**
 * @typedef {object} Entry
 * @property {string} name
 * @property {"nnjit" | "ort" | "litert"} engine
 * @property {string} source
 * @property {string[]} external
 * @property {number} [threads] the job's without it
 * @property {string} [provider] `wasm` without it, or `webgpu`
 * @property {string} [build] the file of ONNX Runtime Web's package
 * @property {string} [wasm] the module in the place of the package's own
 * @property {Given[]} [inputs] the job's without them
 */
/**
 * @typedef {object} Job
 * @property {number} threads
 * @property {Entry[]} contenders
 * @property {Policy} policy
 * @property {number | null} budget_ms the rounds end after it; null for all of them
 * @property {boolean} watched whether a sentinel takes part, and each round is reported
 * @property {Given[]} inputs
 * @property {{name: string, dims: number[]}[]} outputs
 */
/** @typedef {{create_ms: number, first_run_ms: number, memory_bytes: number, threads: number, tier?: string}} Facts */

/** So many pairs have an interval; a slow model gets up to three times its budget for them. */
const [LEAST_ROUNDS, LONGEST] = [12, 3];

/** @param {Entry} entry */
const ortOptions = ({ external, provider, build, wasm }) => ({
  externalData: external.map((path) => ({ path, data: file(`model/${path}`) })),
  provider,
  build,
  wasm: wasm && file(wasm),
});

const OPEN = {
  nnjit: (/** @type {Entry} */ { source, provider }, /** @type {number} */ threads) => openOurs(file(source), threads, provider),
  ort: (/** @type {Entry} */ entry, /** @type {number} */ threads) => openOnnxRuntime(file(entry.source), threads, ortOptions(entry)),
  litert: (/** @type {Entry} */ { source }, /** @type {number} */ threads, /** @type {Job} */ { outputs }) => openLiteRt(file(source), threads, outputs),
};

/** @param {Job} job @param {Entry} entry @returns {Promise<Opened>} */
const open = (job, entry) => OPEN[entry.engine](entry, entry.threads || job.threads, job);

/**
 * Runs, reads the first value of every output, gives the outputs up.
 * @param {Opened} opened
 * @param {Record<string, any>} feeds
 */
async function runAndRead({ session }, feeds) {
  let read = 0;
  for (const output of Object.values(await session.run(feeds))) {
    read += Number(output.data[0]);
    output.dispose();
  }
  return read;
}

/**
 * Opens a session, runs it once, and hands its outputs in.
 * @param {Job} job
 * @param {Entry} entry
 * @param {Input[]} inputs
 * @returns {Promise<[Contender, Facts]>}
 */
async function enter(job, entry, inputs) {
  const before = memoryBytes();
  const start = performance.now();
  const opened = await open(job, entry);
  const created = performance.now();
  const feeds = opened.feeds(inputs);
  const outputs = await opened.session.run(feeds);
  const facts = {
    create_ms: created - start,
    first_run_ms: performance.now() - created,
    memory_bytes: memoryBytes() - before,
    threads: opened.threads,
    tier: opened.tier,
  };
  for (const [output, tensor] of Object.entries(outputs)) {
    await post(`upload/${entry.name}-${encodeURIComponent(output)}`, tensor.data);
    tensor.dispose();
  }
  const contender = {
    name: entry.name,
    threads: opened.threads,
    call: () => runAndRead(opened, feeds),
    output: async () => new Float32Array(),
    release: () => opened.session.release(),
  };
  return [contender, facts];
}

/** @param {Job} job */
async function measure(job) {
  const inputs = await fetchInputs(job);
  /** @type {Contender[]} */
  const contenders = job.watched ? [sentinel()] : [];
  /** @type {Record<string, Facts>} */
  const facts = {};
  /** @type {Record<string, string>} of sessions that do not open, the reasons */
  const refused = {};
  for (const entry of job.contenders) {
    if (job.watched) await report({ type: "opening", name: entry.name });
    try {
      const given = entry.inputs ? await fetchInputs({ inputs: entry.inputs }) : inputs;
      const [contender, found] = await enter(job, entry, given);
      contenders.push(contender);
      facts[entry.name] = found;
    } catch (/** @type {any} */ e) {
      if (!job.watched) throw e;
      refused[entry.name] = String(e?.message ?? e);
    }
  }
  const about = { facts, refused, user_agent: navigator.userAgent };
  let began = 0;
  const onRound = async (/** @type {Record<string, number[]>} */ samples_ms) => {
    if (!job.watched) return true;
    began ||= performance.now();
    await report({ type: "round", samples_ms, ...about });
    if (job.budget_ms === null) return true;
    const spent = performance.now() - began;
    return spent < job.budget_ms || (samples_ms.sentinel.length < LEAST_ROUNDS && spent < LONGEST * job.budget_ms);
  };
  const samples_ms = await interleave(contenders, job.policy, undefined, onRound);
  for (const contender of contenders) await contender.release();
  await report({ type: "row", samples_ms, ...about });
}

/** @param {Job} job @param {string} name */
function entryOf(job, name) {
  const entry = job.contenders.find((each) => each.name === name);
  if (!entry) throw new Error(`There is no session ${name}.`);
  return entry;
}

/** @param {Job} job @param {string} name */
async function profile(job, name) {
  const lines = catchLines();
  const entry = entryOf(job, name);
  const opened = await openOnnxRuntime(file(entry.source), entry.threads || job.threads, { ...ortOptions(entry), profiled: true });
  const nodes = await nodeTimes(opened.session, opened.feeds(await fetchInputs(job)), lines);
  await report({ type: "nodes", nodes });
}

/** @param {Job} job @param {string} name */
async function coldStart(job, name) {
  const inputs = await fetchInputs(job);
  const entry = entryOf(job, name);
  const opened = await open(job, entry);
  const created_ms = performance.now();
  await runAndRead(opened, opened.feeds(inputs));
  await report({ type: "cold", name, created_ms, first_output_ms: performance.now() });
}

await conduct(async () => {
  watchMemories();
  /** @type {Job} */
  const job = await fetchJob();
  const asked = new URL(location.href).searchParams;
  const [cold, nodes] = [asked.get("cold"), asked.get("nodes")];
  await (cold ? coldStart(job, cold) : nodes ? profile(job, nodes) : measure(job));
});
