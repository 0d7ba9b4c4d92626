/** A right kernel is not refused where a sum nearly cancels; a wrong one is. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { randomBy } from "../../../resources/live/images.js";
import { CHECK, Guard } from "../../../resources/offload/guard.js";
import { explained } from "../../../resources/offload/rounding.js";

const N = 4096;
const LOAD = [["load", 0, 0, [0, 1]], ["load", 1, 0, [0, 1]]];
/** @type {any} */
const dot = {
  function: 1, name: "dot", loop: 0, pattern: "dot", fingerprint: "f1", flops: 2 * N, slots: { before: 1, after: 2 },
  inputs: [4 * N, 4 * N], scalars: 0, outputs: [{ result: true, dims: [], formula: ["reduce", [[0, N]], ["mul", ...LOAD]] }],
  workspaces: [], terms: N, rounding: 0, alone: null, apart: [], kernel: {},
};

/** Two vectors whose dot product is next to nothing: the last product takes the sum of the others back. */
function cancelling() {
  const random = randomBy(7);
  const [a, b] = [0, 1].map(() => Float32Array.from({ length: N }, () => 2 * random() - 1));
  let rest = 0;
  for (let i = 0; i < N - 1; i++) rest += a[i] * b[i];
  a[N - 1] = 1;
  b[N - 1] = -rest;
  return [a, b];
}

/** The sum as a loop makes it, and in 64 parts. @param {Float32Array[]} vectors @param {number} [count] @returns {[number, number]} */
function sums([a, b], count = N) {
  let alone = 0;
  const parts = new Float32Array(64);
  for (let i = 0; i < count; i++) {
    alone = Math.fround(alone + Math.fround(a[i] * b[i]));
    parts[i % 64] += Math.fround(a[i] * b[i]);
  }
  return [alone, parts.reduce((x, y) => Math.fround(x + y), 0)];
}

test("a kernel that adds in another order is used where the sum nearly cancels", () => {
  const vectors = cancelling();
  const [loop, kernel] = sums(vectors);
  assert.ok(Math.abs(loop - kernel) > 0.01 * Math.abs(loop), "or the sum does not cancel");
  const memory = new ArrayBuffer(8 * N);
  vectors.forEach((vector, i) => new Float32Array(memory, 4 * N * i, N).set(vector));
  /** @param {number} found */
  const state = (found) => {
    const guard = new Guard({ version: 3, hooks: "", nests: [dot] }, () => memory, { always: true });
    guard.opened({ key: "gpu", floor: () => 0 });
    const job = /** @type {any} */ (guard.enter(0, [0, 4 * N]).job);
    const outputs = [new Uint8Array(Float32Array.of(found).buffer)];
    assert.equal(guard.ran(job, { outputs, tried: [], price: { upload: 1, dispatch: 1, readback: 1, total: 3 } }), CHECK);
    guard.leave(0, [loop]);
    return guard.status[0].state;
  };
  assert.equal(state(kernel), "on");
  assert.equal(state(kernel - vectors[0][7] * vectors[1][7]), "off", "a term is missing");
  assert.equal(state(NaN), "off");
});

test("what the loop says has to be a rounding of the plan, too", () => {
  const vectors = cancelling();
  const inputs = vectors.map((vector) => new Uint8Array(vector.buffer));
  const [loop, kernel] = sums(vectors);
  assert.equal(explained(dot, 0, 0, inputs, kernel, loop, false), true);
  assert.equal(explained(dot, 0, 0, inputs, kernel, loop + 0.5, false), false);
});

test("an element is told by its place in the output, with the operations of the plan", () => {
  const formula = ["select", ["gt", ["load", 0, 1, [0, 2]], ["scalar", 0]], ["sqrt", ["load", 0, 1, [0, 2]]], ["div", ["const", 0x3f800000], ["neg", ["load", 0, 1, [0, 2]]]]];
  /** @type {any} */
  const nest = { ...dot, inputs: [32], scalars: 1, terms: 1, outputs: [{ result: false, dims: [[4, 3]], formula }] };
  const inputs = [Float32Array.of(0, 9, 0, -4, 0, 2, 0, 0), Float32Array.of(2)].map((given) => new Uint8Array(given.buffer));
  [3, 0.25, -0.5].forEach((right, i) => {
    assert.equal(explained(nest, 0, i, inputs, right * (1 + 2 ** -23), right, false), true, `element ${i}`);
    assert.equal(explained(nest, 0, i, inputs, right * (1 + 2 ** -19), right, false), false, `element ${i}`);
  });
});

test("a clipped or infinite sum explains no other number", () => {
  const bits = (/** @type {number} */ x) => ["const", new Uint32Array(Float32Array.of(x).buffer)[0]];
  const sum = ["reduce", [[0, 4]], ["load", 0, 0, [0, 1]]];
  const infinite = [1, Infinity, 2, 3];
  /** @type {[string, any, number[], number, number][]} */
  const cases = [
    ["min of infinity", ["min", sum, bits(6)], infinite, 3, 6],
    ["select of infinity", ["select", ["lt", sum, bits(6)], sum, bits(6)], infinite, 3, 6],
    ["one part of infinity", ["div", bits(1), ["add", bits(1), sum]], infinite, 3, 0],
    ["a sum far below zero", ["max", sum, bits(0)], [-1e6, -2e6, -1e6, -3e6], 0.3, 0],
  ];
  for (const [name, formula, loaded, wrong, right] of cases) {
    const inputs = [loaded, []].map((values) => new Uint8Array(Float32Array.from(values).buffer));
    /** @type {any} */
    const nest = { ...dot, inputs: [16], terms: 4, outputs: [{ result: true, dims: [], formula }] };
    for (const mixed of [true, false]) {
      assert.equal(explained(nest, 0, 0, inputs, wrong, right, mixed), false, name);
      assert.equal(explained(nest, 0, 0, inputs, right, right, mixed), true, name);
    }
  }
});

test("behind a divisor that may be 0, or a sum without a bound, nothing is explained", () => {
  const bits = (/** @type {number} */ x) => ["const", new Uint32Array(Float32Array.of(x).buffer)[0]];
  const [x, many] = [["load", 0, 0], ["sum", ["load", 0, 0], bits(1)]];
  /** @type {[any, number][]} */
  const cases = [
    [["div", bits(1), ["add", bits(1), ["div", x, bits(0)]]], 1],
    [["min", ["div", bits(1), ["add", x, bits(-1)]], bits(6)], 1],
    [["min", many, bits(6)], 2 ** 24],
  ];
  for (const [formula, terms] of cases) {
    const inputs = [[1], []].map((values) => new Uint8Array(Float32Array.from(values).buffer));
    /** @type {any} */
    const nest = { ...dot, inputs: [4], terms, outputs: [{ result: true, dims: [], formula }] };
    assert.equal(explained(nest, 0, 0, inputs, 0.3, 0.3, false), false, JSON.stringify(formula));
  }
});
