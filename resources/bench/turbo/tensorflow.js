/** The page of `nnjit bench turbo` for TensorFlow.js: products and convolutions with each build of its module. */
import { randomBy } from "../../live/images.js";
import { conduct, fetchJob, file, post, report } from "../page.js";
import { interleave } from "../rounds.js";

/** @import { Contender, Policy } from "../rounds.js" */
/** @typedef {{name: string, operator: string, a: number[], b: number[]}} Case */
/**
 * @typedef {object} Job
 * @property {Record<string, string>} builds modules by name
 * @property {number} threads
 * @property {Case[]} cases
 * @property {Policy | null} policy of timing; without it outputs alone are wanted
 */

/** @type {Record<string, (tf: any, a: any, b: any) => any>} */
const OPERATORS = {
  matMul: (tf, a, b) => tf.matMul(a, b),
  matMulRelu: (tf, a, b) => tf.fused.matMul({ a, b, activation: "relu" }),
  conv2d: (tf, a, b) => tf.conv2d(a, b, 1, "same"),
  depthwiseConv2d: (tf, a, b) => tf.depthwiseConv2d(a, b, 1, "same"),
};
const FLAVOURS = ["", "-simd", "-threaded-simd"];

/** A frame with a TensorFlow.js of its own, which keeps its state in global variables. @param {Job} job @param {string} name */
async function start(job, name) {
  const frame = document.createElement("iframe");
  frame.src = "tensorflow-frame.html";
  const loaded = new Promise((resolve) => frame.addEventListener("load", resolve));
  document.body.append(frame);
  await loaded;
  const scope = /** @type {any} */ (frame.contentWindow);
  const { tf } = scope;
  // It wants an address for every flavour, and asks for one of them.
  tf.wasm.setWasmPaths(Object.fromEntries(FLAVOURS.map((flavour) => [`tfjs-backend-wasm${flavour}.wasm`, file(job.builds[name])])));
  if (job.threads === 1) tf.env().set("WASM_HAS_MULTITHREAD_SUPPORT", false);
  else tf.wasm.setThreadsCount(job.threads);
  if (!(await tf.setBackend("wasm"))) throw new Error("TensorFlow.js did not start its wasm backend.");
  await tf.ready();
  // Tensors are made of arrays of the frame.
  return { tf, floats: (/** @type {Float32Array} */ data) => new scope.Float32Array(data) };
}

/** @param {() => number} random @param {number[]} dims */
const drawn = (random, dims) => new Float32Array(dims.reduce((a, b) => a * b)).map(() => 2 * random() - 1);

await conduct(async () => {
  /** @type {Job} */
  const job = await fetchJob();
  /** @type {Record<string, any>} */
  const libraries = {};
  for (const name of Object.keys(job.builds)) libraries[name] = await start(job, name);
  for (const [index, { name, operator, a, b }] of job.cases.entries()) {
    const random = randomBy(index + 1);
    const [x, y] = [drawn(random, a), drawn(random, b)];
    /** @type {Contender[]} */
    const contenders = [];
    for (const [build, { tf, floats }] of Object.entries(libraries)) {
      const [left, right] = [tf.tensor(floats(x), a), tf.tensor(floats(y), b)];
      const compute = () => OPERATORS[operator](tf, left, right);
      const whole = compute();
      await post(`upload/${index}-${build}`, whole.dataSync());
      whole.dispose();
      contenders.push({
        name: build,
        threads: job.threads,
        call: async () => {
          const result = compute();
          const [first] = result.dataSync();
          result.dispose();
          return first;
        },
        output: async () => new Float32Array(),
        release: () => tf.dispose([left, right]),
      });
    }
    const samples_ms = job.policy ? await interleave(contenders, job.policy) : {};
    for (const contender of contenders) contender.release();
    const threads = Object.values(libraries).map(({ tf }) => (job.threads === 1 ? 1 : tf.wasm.getThreadsCount()));
    await report({ type: "row", index, name, samples_ms, threads });
  }
  const [{ tf }] = Object.values(libraries);
  await report({ type: "done", user_agent: navigator.userAgent, versions: { "tfjs-core": tf.version_core } });
});
