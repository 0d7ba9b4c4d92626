/**
 * A nest as a module of its own, on made-up memory: what its kernel has to agree with before it is
 * used. The page's memory is not touched, and says too little: a first call may hold nothing but
 * zeros, and what lies outside of the plan's outputs is not compared there.
 */
import { collect, gather, scatter } from "./memory.js";

/** @import { Alone, Nest } from "./plan.js" */
/** `expected`: what the loop makes of the inputs, for each output. @typedef {{inputs: Uint8Array[], expected: Float32Array[]}} Image */

const SPECIAL = [NaN, Infinity, -Infinity, NaN, Infinity, -Infinity];
/** Inputs of fewer floats have only finite ones: too many others would hide what the kernel does. */
const SPARSE = 32;

/**
 * @param {Nest} nest
 * @param {number} count
 * @param {() => number} random
 * @returns {{images: Image[], wrong: string}} wrong where the loop does what the plan does not say
 */
export function imagesOf(nest, count, random) {
  try {
    return nest.alone ? made(nest, nest.alone, count, random) : { images: [], wrong: "" };
  } catch (e) {
    return { images: [], wrong: `the loop does not run alone: ${/** @type {Error} */ (e).message}` };
  }
}

/** @param {Nest} nest @param {Alone} alone @param {number} count @param {() => number} random */
function made(nest, { wasm, regions, places }, count, random) {
  const bytes = Uint8Array.from(atob(wasm), (c) => c.charCodeAt(0));
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes));
  const { buffer } = /** @type {WebAssembly.Memory} */ (exports.memory);
  /** @type {Image[]} */
  const images = [];
  for (let number = 0; number < count; number++) {
    for (const [offset, floats] of regions) fill(new Float32Array(buffer, offset, floats), number, random);
    if (number % 2) nest.inputs.forEach((nbytes, i) => spoil(new Float32Array(buffer, places.inputs[i], nbytes / 4), random));
    const inputs = gather(nest, places, buffer).map((input) => input.slice());
    const before = buffer.slice(0);
    /** @type {() => void} */ (exports.run)();
    const expected = nest.outputs.map((output, i) => collect(output, places.outputs[i], buffer));
    nest.outputs.forEach((output, i) => scatter(output, places.outputs[i], new Uint8Array(expected[i].buffer), before));
    const at = changed(new Int32Array(before), new Int32Array(buffer));
    if (at >= 0) return { images, wrong: `the loop writes byte ${4 * at} of its own memory, which is in no output of the plan` };
    images.push({ inputs, expected });
  }
  return { images, wrong: "" };
}

/** Puts what is not finite into an input. @param {Float32Array} to @param {() => number} random */
function spoil(to, random) {
  if (to.length >= SPARSE) for (const x of SPECIAL) to[Math.floor(random() * to.length)] = x;
}

/**
 * Even images are of one magnitude, with ties and zeros; odd ones of many.
 * @param {Float32Array} to @param {number} image @param {() => number} random
 */
function fill(to, image, random) {
  for (let i = 0; i < to.length; i++) {
    const x = 2 * random() - 1;
    if (image % 2) to[i] = x * 2 ** Math.floor(16 * random() - 8);
    else to[i] = random() < 0.25 ? Math.round(2 * x) : x;
  }
}

/** The first place at which two memories differ, or -1. @param {Int32Array} a @param {Int32Array} b */
function changed(a, b) {
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return i;
  return -1;
}
