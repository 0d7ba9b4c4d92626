/** Devices that go wrong from one of their runs on, and memory of many kinds, for tests of the guard. */

import { PROBE } from "../../offload/gpu.js";

/** @import { GpuBuf, GpuDevice } from "../../types/gpu.js" */
/** @typedef {Uint8Array<ArrayBuffer>} Bytes */
/** `begins`: the run, counted from 0, that is the first to go wrong. @typedef {{kind: keyof FAULTS, begins: number}} Fault */
/**
 * What a device does instead, call by call; `right` is the call itself, `last` what was read before.
 * @typedef {object} Wrong
 * @property {(first: boolean, right: () => void) => void} [write] whether of the nest's first input
 * @property {(right: () => void, device: GpuDevice) => void} [encode]
 * @property {(bytes: Bytes, last: Bytes) => Bytes} [read]
 */

/** @satisfies {Record<string, Wrong>} */
export const FAULTS = {
  "stale input": { write: (first, right) => void (first || right()) },
  "stale inputs": { write: () => undefined },
  "no dispatch": { encode: () => undefined },
  "result of the run before": { read: (_, last) => last },
  "last quarter not read": { read: (bytes) => bytes.fill(0, 4 * Math.floor((3 * bytes.length) / 16)) },
  "one element off": { read: (bytes) => changed(bytes, (x) => x + 1) },
  "one element NaN": { read: (bytes) => changed(bytes, () => NaN) },
  "a bit of an exponent": { read: (bytes) => flipped(bytes) },
  "device lost in the run": { encode: (right, device) => (right(), device.lose()) },
};

/** @param {GpuDevice} device @param {Fault} fault @returns {GpuDevice} */
export function faulty(device, { kind, begins }) {
  /** @type {Wrong} */
  const { write, encode, read } = FAULTS[kind];
  const given = { write: device.write.bind(device), encode: device.encode.bind(device), read: device.read.bind(device) };
  /** Runs so far; one is its writes, one `encode`, its reads. */
  let runs = 0;
  /** @type {GpuBuf | null} */ let first = null;
  let last = new Uint8Array(0);
  device.write = (buffer, offset, bytes) => {
    const right = () => given.write(buffer, offset, bytes);
    if (buffer.label !== PROBE) first ??= buffer;
    if (runs >= begins && write) write(buffer === first, right);
    else right();
  };
  device.encode = (commands) => {
    const right = () => given.encode(commands);
    if (runs++ >= begins && encode) encode(right, device);
    else right();
  };
  device.read = async (buffer, offset, nbytes) => {
    const bytes = await given.read(buffer, offset, nbytes);
    const answer = runs > begins && read ? read(bytes, last.length === nbytes ? last : bytes) : bytes;
    last = bytes.slice();
    return answer;
  };
  return device;
}

/** @param {Bytes} bytes @param {(x: number) => number} change of the element in the middle */
function changed(bytes, change) {
  const floats = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2);
  const at = floats.length >> 1;
  floats[at] = change(floats[at]);
  return bytes;
}

/** @param {Bytes} bytes */
function flipped(bytes) {
  bytes[4 * (bytes.length >> 3) + 3] ^= 4;
  return bytes;
}

/** Memory of many kinds. @type {((random: () => number) => number)[]} */
export const KINDS = [
  (random) => 2 * random() - 1,
  (random) => Math.floor(5 * random()) - 2,
  (random) => 1000 * (2 * random() - 1),
  (random) => (2 * random() - 1) * 2 ** Math.floor(40 * random() - 20),
  (random) => (random() < 0.002 ? [NaN, Infinity, -Infinity, -0][Math.floor(4 * random())] : 2 * random() - 1),
  () => 0,
  (random) => 0.5 + random() / 2,
  (random) => (random() < 0.5 ? 0 : -random()),
];
