/** Ours and the peers, each called the way its documentation tells a page to. */
import { callOn, compiled } from "./litert.js";
import { loadScripts, NODE_MODULES, versionsOf } from "./page.js";
import { onnxRuntimeLoaded, openOnnxRuntime, openOurs } from "./sessions.js";

/** @import { Contender } from "./rounds.js" */
/** @import { Opened } from "./sessions.js" */
/** @typedef {{name: string, dims: number[], data: Float32Array, constant: boolean}} Input */
/**
 * @typedef {object} Shape
 * @property {string} spec
 * @property {string[]} epilogue
 * @property {Input[]} inputs A, B, then what the epilogue reads
 * @property {string} manifest address of our one-kernel bundle
 * @property {string} onnx address of the model for ONNX Runtime
 * @property {string} tflite address of the model for LiteRT
 */

const OUTPUT = "out0";

/** @param {Shape} shape */
const variable = (shape) => shape.inputs.filter((input) => !input.constant);

/**
 * The same code for ours and ONNX Runtime: run, read, give the output up.
 * @param {any} session
 * @param {Record<string, any>} feeds
 * @returns {Promise<number>}
 */
async function runAndRead(session, feeds) {
  const output = (await session.run(feeds))[OUTPUT];
  const [first] = output.data;
  output.dispose();
  return first;
}

/** @param {Opened} opened @param {Shape} shape */
function product({ session, feeds, threads }, shape) {
  const given = feeds(variable(shape));
  return {
    threads,
    call: () => runAndRead(session, given),
    output: async () => (await session.run(given))[OUTPUT].data,
    release: () => session.release(),
  };
}

/** @param {Shape} shape @param {number} threads @returns {Promise<Contender & {tier: string}>} */
export async function ours(shape, threads) {
  const opened = await openOurs(shape.manifest, threads);
  return { name: "ours", tier: opened.tier, ...product(opened, shape) };
}

/** @param {Shape} shape @param {number} threads @returns {Promise<Contender>} */
export async function onnxRuntime(shape, threads) {
  return { name: "ort", ...product(await openOnnxRuntime(shape.onnx, threads), shape) };
}

/** @type {any} */
let tf = null;

/** @param {number} threads */
async function startTensorFlow(threads) {
  ({ tf } = await loadScripts("@tensorflow", "tfjs-core/dist/tf-core.min.js", "tfjs-backend-wasm/dist/tf-backend-wasm.min.js"));
  tf.wasm.setWasmPaths(`${NODE_MODULES}@tensorflow/tfjs-backend-wasm/dist/`);
  tf.wasm.setThreadsCount(threads);
  if (!(await tf.setBackend("wasm"))) throw new Error("TensorFlow.js did not start its wasm backend.");
  await tf.ready();
}

/** @param {Shape} shape @param {number} threads @returns {Promise<Contender>} */
export async function tensorFlow(shape, threads) {
  if (!tf) await startTensorFlow(threads);
  const tensor = (/** @type {Input} */ i) => tf.tensor(i.data, i.dims, "float32");
  const kept = shape.inputs.map((i) => i.constant && tensor(i));
  const product = () => expression(shape.epilogue, shape.inputs.map((i, at) => kept[at] || tensor(i)));
  return {
    name: "tfjs",
    // asked for two on a machine of two cores it runs on one
    threads: tf.wasm.getThreadsCount(),
    call: async () => {
      const result = tf.tidy(product);
      const [first] = result.dataSync();
      result.dispose();
      return first;
    },
    output: async () => tf.tidy(() => product().dataSync()),
    release: () => tf.dispose(kept.filter(Boolean)),
  };
}

/** @param {Shape} shape @param {number} threads @returns {Promise<Contender>} */
export async function liteRt(shape, threads) {
  const { litert, program } = await compiled(shape.tflite, threads);
  const given = variable(shape).map((i) => /** @type {[Float32Array, number[]]} */ ([i.data, i.dims]));
  const run = async () => {
    const [output] = await callOn(litert, program, given);
    const data = await output.data();
    output.delete();
    return data;
  };
  return {
    name: "litert",
    threads,
    call: async () => (await run())[0],
    output: run,
    release: () => program.delete(),
  };
}

/** @param {string[]} epilogue @param {any[]} tensors */
function expression(epilogue, [a, b, ...operands]) {
  const biased = epilogue[0] === "bias";
  const clipped = biased && epilogue[1] === "relu";
  let value = biased
    ? tf.fused.matMul({ a, b, bias: operands[0], activation: clipped ? "relu" : "linear" })
    : tf.matMul(a, b);
  const rest = operands.slice(Number(biased));
  for (const word of epilogue.slice(Number(biased) + Number(clipped))) {
    if (word === "relu") value = tf.relu(value);
    else if (word === "gelu") value = tf.mul(tf.mul(value, 0.5), tf.add(tf.erf(tf.div(value, Math.SQRT2)), 1));
    else value = tf.add(value, rest.shift());
  }
  return value;
}

export const versions = () => versionsOf(onnxRuntimeLoaded(), tf);
