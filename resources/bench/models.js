/**
 * The page of `nnjit bench models`: one model, ours and the peers in turns; with
 * `?cold=NAME`, one contender from navigation to its first output.
 */
import { memoryBytes, watchMemories } from "./memories.js";
import { conduct, fetchInputs, fetchJob, file, post, report } from "./page.js";
import { interleave } from "./rounds.js";
import { openOnnxRuntime, openOurs } from "./sessions.js";

/** @import { Contender, Policy } from "./rounds.js" */
/** @import { Opened } from "./sessions.js" */
/**
 * @typedef {object} Job
 * @property {number} threads
 * @property {string[]} contenders
 * @property {Policy} policy
 * @property {string} manifest
 * @property {string} onnx
 * @property {{name: string, type: string, dims: number[], file: string}[]} inputs
 */

const OPEN = { ours: openOurs, ort: openOnnxRuntime };

/** @param {Job} job @param {string} name @returns {Promise<Opened>} */
function open(job, name) {
  const source = file(name === "ours" ? job.manifest : job.onnx);
  return OPEN[/** @type {keyof typeof OPEN} */ (name)](source, job.threads);
}

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

/** @param {Job} job */
async function measure(job) {
  const inputs = await fetchInputs(job);
  /** @type {Contender[]} */
  const contenders = [];
  /** @type {Record<string, {create_ms: number, first_run_ms: number, memory_bytes: number, threads: number, tier?: string}>} */
  const facts = {};
  for (const name of job.contenders) {
    const before = memoryBytes();
    const start = performance.now();
    const opened = await open(job, name);
    const created = performance.now();
    const feeds = opened.feeds(inputs);
    const outputs = await opened.session.run(feeds);
    facts[name] = {
      create_ms: created - start,
      first_run_ms: performance.now() - created,
      memory_bytes: memoryBytes() - before,
      threads: opened.threads,
      tier: opened.tier,
    };
    for (const [output, tensor] of Object.entries(outputs)) {
      await post(`upload/${name}-${output}`, tensor.data);
      tensor.dispose();
    }
    contenders.push({
      name,
      threads: opened.threads,
      call: () => runAndRead(opened, feeds),
      output: async () => new Float32Array(),
      release: () => opened.session.release(),
    });
  }
  const samples_ms = await interleave(contenders, job.policy);
  for (const contender of contenders) await contender.release();
  await report({ type: "row", samples_ms, facts, user_agent: navigator.userAgent });
}

/** @param {Job} job @param {string} name */
async function coldStart(job, name) {
  const inputs = await fetchInputs(job);
  const opened = await open(job, name);
  const created_ms = performance.now();
  await runAndRead(opened, opened.feeds(inputs));
  await report({ type: "cold", name, created_ms, first_output_ms: performance.now() });
}

await conduct(async () => {
  watchMemories();
  /** @type {Job} */
  const job = await fetchJob();
  const cold = new URL(location.href).searchParams.get("cold");
  await (cold ? coldStart(job, cold) : measure(job));
});
