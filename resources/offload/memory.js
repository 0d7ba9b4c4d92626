/** What a nest reads and writes of a module's memory. */

/** @import { Nest, Output } from "./plan.js" */
/** A nest's places in memory: the address of each input, of each output (0 of sums for locals). @typedef {{inputs: number[], outputs: number[], scalars: number[]}} Places */

const ELEMENT = 4;

/** @param {Nest} nest @param {number[]} args of the call before it @returns {Places} */
export function placesOf(nest, args) {
  const given = [...args];
  const inputs = nest.inputs.map(() => /** @type {number} */ (given.shift()) >>> 0);
  const outputs = nest.outputs.map(({ result }) => (result ? 0 : /** @type {number} */ (given.shift()) >>> 0));
  return { inputs, outputs, scalars: given };
}

/** First byte and the one behind the last. @param {number} base @param {Output} output @returns {[number, number]} */
function reach(base, { dims }) {
  let [low, high] = [base, base + ELEMENT];
  for (const [step, extent] of dims) {
    if (step < 0) low += step * (extent - 1);
    else high += step * (extent - 1);
  }
  return [low, high];
}

/**
 * Why a nest cannot run on copies of memory at these places; empty where it can.
 * @param {Nest} nest @param {Places} places @param {number} nbytes of memory
 */
export function conflict(nest, places, nbytes) {
  const reads = nest.inputs.map((n, i) => /** @type {[number, number]} */ ([places.inputs[i], places.inputs[i] + n]));
  const writes = nest.outputs.map((output, i) => (output.result ? null : reach(places.outputs[i], output)));
  for (const span of [...reads, ...writes]) if (span && (span[0] < 0 || span[1] > nbytes)) return "bounds";
  for (const { input, other, output, same } of nest.apart) {
    const written = writes[output];
    const met = input === undefined ? writes[/** @type {number} */ (other)] : reads[input];
    if (!written || !met || met[1] <= written[0] || written[1] <= met[0]) continue;
    if (!(same && input !== undefined && places.inputs[input] === places.outputs[output])) return "aliasing";
  }
  return "";
}

/** Copies of what a nest reads, a last one of its scalars. @param {Nest} nest @param {Places} places @param {ArrayBufferLike} memory */
export function gather(nest, places, memory) {
  const inputs = nest.inputs.map((n, i) => new Uint8Array(memory, places.inputs[i], n));
  if (nest.scalars) inputs.push(new Uint8Array(Float32Array.from(places.scalars).buffer));
  return inputs;
}

/** Bytes that outputs have, dense. @param {Output} output */
export const bytesOf = ({ dims }) => dims.reduce((product, [, extent]) => product * extent, ELEMENT);

/**
 * Runs of neighbours of an output: address, first element, length.
 * @param {Output} output @param {number} base
 * @returns {Generator<[number, number, number]>}
 */
function* runs({ dims }, base) {
  let inner = dims.length;
  let length = 1;
  while (inner && dims[inner - 1][0] === length * ELEMENT) length *= dims[--inner][1];
  const outer = dims.slice(0, inner);
  const count = outer.reduce((product, [, extent]) => product * extent, 1);
  for (let i = 0; i < count; i++) {
    let [rest, at] = [i, base];
    for (let d = outer.length - 1; d >= 0; d--) {
      const [step, extent] = outer[d];
      at += (rest % extent) * step;
      rest = Math.floor(rest / extent);
    }
    yield [at, i * length, length];
  }
}

/** The element of an output that lies at an address, or -1. @param {Output} output @param {number} base @param {number} address */
export function elementAt(output, base, address) {
  for (const [at, first, length] of runs(output, base)) if (address >= at && address < at + ELEMENT * length) return first + (address - at) / ELEMENT;
  return -1;
}

/** Writes an output to memory. @param {Output} output @param {number} base @param {Uint8Array} values @param {ArrayBufferLike} memory */
export function scatter(output, base, values, memory) {
  const to = new Uint8Array(memory);
  for (const [at, first, length] of runs(output, base)) to.set(values.subarray(first * ELEMENT, (first + length) * ELEMENT), at);
}

/** What memory holds of an output, dense. @param {Output} output @param {number} base @param {ArrayBufferLike} memory */
export function collect(output, base, memory) {
  const found = new Uint8Array(bytesOf(output));
  for (const [at, first, length] of runs(output, base)) found.set(new Uint8Array(memory, at, length * ELEMENT), first * ELEMENT);
  return new Float32Array(found.buffer);
}
