/** Kernels are tried on made-up memory, by the loop as a module of its own. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { imagesOf } from "../../../resources/offload/alone.js";
import { CHECK, Guard, RUN } from "../../../resources/offload/guard.js";

/** 16 floats at 256 become twice those at 0. */
const DOUBLES = [
  [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0], [1, 4, 1, 0x60, 0, 0], [3, 2, 1, 0], [5, 3, 1, 0, 1],
  [7, 16, 2, 3, ...Buffer.from("run"), 0, 0, 6, ...Buffer.from("memory"), 2, 0],
  [10, 39, 1, 37, 1, 1, 0x7f, 3, 0x40, 0x20, 0, 0x20, 0, 0x2a, 2, 0, 0x43, 0, 0, 0, 0x40, 0x94, 0x38, 2, 0x80, 2],
  [0x20, 0, 0x41, 4, 0x6a, 0x22, 0, 0x41, 0xc0, 0, 0x47, 0x0d, 0, 0x0b, 0x0b],
].flat();
/** @type {any} */
const nest = {
  function: 1, name: "double", loop: 0, pattern: "element-wise", fingerprint: "f1", flops: 16, slots: { before: 1, after: 2 },
  inputs: [64], scalars: 0, outputs: [{ result: false, dims: [[4, 16]], formula: ["mul", ["const", 0x40000000], ["load", 0, 0, [0, 1]]] }], workspaces: [], apart: [], terms: 1, rounding: 0, kernel: {},
  alone: { wasm: Buffer.from(DOUBLES).toString("base64"), regions: [[0, 16], [256, 16]], places: { inputs: [0], outputs: [256], scalars: [] } },
};

test("an image is what the loop reads, and what it makes of it", () => {
  const { images, wrong } = imagesOf(nest, 2, Math.random);
  assert.equal(wrong, "");
  assert.equal(images.length, 2);
  for (const { inputs, expected } of images) assert.deepEqual(expected[0], new Float32Array(inputs[0].buffer).map((x) => 2 * x));
  assert.notDeepEqual(images[0].inputs, images[1].inputs);
});

test("a plan that leaves out what the loop writes is told", () => {
  const short = { ...nest, outputs: [{ ...nest.outputs[0], dims: [[4, 15]] }] };
  const never0 = () => 0.6; // what is 0 before and twice 0 after would not be told from what is not written
  assert.match(imagesOf(short, 1, never0).wrong, /^the loop writes byte 316 /);
  const broken = { ...nest, alone: { ...nest.alone, wasm: "AGFzbQ==" } };
  assert.match(imagesOf(broken, 1, Math.random).wrong, /^the loop does not run alone/);
});

test("a kernel that is right in the page's memory alone is not used", () => {
  const memory = new ArrayBuffer(1024); // all zeros: twice them is what any kernel says
  const guard = new Guard({ version: 3, hooks: "", nests: [nest] }, () => memory, { always: true });
  guard.opened({ key: "gpu", floor: () => 0 });
  const zeros = () => new Uint8Array(64);
  const price = { upload: 1, dispatch: 1, readback: 1, total: 3 };
  const { job } = guard.enter(0, [0, 256]);
  assert.equal(guard.ran(/** @type {any} */ (job), { outputs: [zeros()], tried: job?.images.map(() => [zeros()]) ?? [], price }), RUN);
  assert.match(guard.status[0].text, /^on made-up memory element \d+ is 0/);
  assert.deepEqual(guard.counters.json().fallback, { "numerical-divergence": 1 });
});

test("a kernel passes once on each device", () => {
  const memory = new ArrayBuffer(1024);
  const guard = new Guard({ version: 3, hooks: "", nests: [nest] }, () => memory, { always: true });
  const price = { upload: 1, dispatch: 1, readback: 1, total: 3 };
  for (const [key, count] of /** @type {[string, number][]} */ ([["gpu", 2], ["gpu", 0], ["other", 2]])) {
    guard.opened({ key, floor: () => 0 });
    const job = /** @type {any} */ (guard.enter(0, [0, 256]).job);
    assert.equal(job.images.length, count);
    const tried = job.images.map((/** @type {any} */ { expected }) => [new Uint8Array(expected[0].buffer)]);
    assert.equal(guard.ran(job, { outputs: [new Uint8Array(64)], tried, price }), CHECK);
    guard.leave(0, []);
  }
});
