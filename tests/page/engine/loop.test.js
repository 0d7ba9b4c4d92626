/** Loops of a plan for any size: registers, swapped places, counts from sizes and from values. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Engine } from "../../../resources/engine/engine.js";
import { Sizes } from "../../../resources/engine/open/sizes.js";
import { addKernel, f32, floats, header } from "../wasm.js";

const n = [[1, "n"]];
const WIDTH = 4;
const arena = (/** @type {any} */ nbytes) => ({ region: "arena", offset: 0, nbytes, pack: null, unit_bytes: 4 });
const row = (/** @type {number} */ nbytes) => ({ ...arena(nbytes), region: "row" });
const ROW = 4 * WIDTH;

/**
 * Sums of rows: x of n rows, h of one; each run adds a row to what is carried, from zeros on, and
 * writes the sum behind the others. Or, `counted`, it adds h to itself as often as an input says.
 */
function plan(counted = false, going = false) {
  const buffers = [
    arena([[ROW, "n"]]), arena([[ROW, "n"]]), arena(ROW), // x, y, the last sum
    arena(8), arena(ROW), row(ROW), row(ROW), row(ROW), row(ROW), // number, other place; before, after, of x, of y
    arena(ROW), arena(8), arena(1), arena(1), row(1), row(1), // where it begins; count; condition: last, other, read, written
  ]; // prettier-ignore
  const sum = { start: 9, read: 5, written: 6, last: 2, other: 4 };
  const condition = { start: 10, read: 13, written: 14, last: 11, other: 12 };
  const loop = {
    trips: counted ? 2 ** 20 : 0, count: counted ? 10 : -1, number: 3, going,
    carried: going ? [condition, sum] : [sum],
    rows: counted ? [] : [{ whole: 0, row: 7, backward: false }, { whole: 1, row: 8, backward: true }],
    copies: counted ? (going ? [[9, 14]] : []) : [[6, 8]],
  }; // prettier-ignore
  const f = (/** @type {string} */ name, /** @type {any} */ shape, /** @type {number} */ buffer) => ({ name, dtype: "f32", shape, buffer });
  const held = [2, 3, 4, 9, 0, 1, 10, 11, 12];
  return {
    version: 6,
    name: "sums",
    dims: [{ name: "n", low: 1, high: 2 ** 30, step: 1 }],
    example: { n: 3 },
    inputs: [f("x", [n, WIDTH], 0), f("h", [WIDTH], 9), { name: "count", dtype: "i64", shape: [], buffer: 10 }],
    outputs: [f("y", [n, WIDTH], 1), f("last", [WIDTH], 2)],
    buffers,
    steps: [
      { op: "loop", workload: "", args: held, node: "sums", loop },
      { op: "call", workload: "k", args: counted ? [5, 9, 6] : [5, 7, 6], node: "add" },
      { op: "end", workload: "", args: held, node: "sums" },
      { op: "return", workload: "", args: [], node: "" },
    ],
    kernels: { k: { selectors: [], variants: [{ workload: "add", scalars: [], extent: WIDTH }] } },
    weights_bytes: 0,
    trips: [counted ? 2 ** 20 : n],
  };
}

/** @param {ReturnType<typeof plan>} given */
async function ready(given) {
  const sizes = new Sizes(/** @type {any} */ (given));
  const engine = new Engine();
  engine.load(sizes.everyVariant, {}, sizes);
  await engine.register([{ ...header("add", WIDTH), bytes: addKernel }]);
  const run = (/** @type {number} */ rows, count = 0n) => {
    const data = f32(...Array.from({ length: rows * WIDTH }, (_, i) => Math.floor(i / WIDTH) + 1));
    const inputs = [
      { name: "x", dtype: "f32", shape: [rows, WIDTH], data },
      { name: "h", dtype: "f32", shape: [WIDTH], data: f32(1, 1, 1, 1) },
      { name: "count", dtype: "i64", shape: [], data: new Uint8Array(new BigInt64Array([count]).buffer) },
    ];
    return engine.infer(inputs).outputs.map(({ data: made }) => floats(made).filter((_, i) => i % WIDTH === 0));
  };
  return run;
}

test("a loop runs as often as sizes say, over rows in place", async () => {
  const run = await ready(plan());
  for (const rows of [1, 2, 3, 8, 7, 300]) {
    const sums = Array.from({ length: rows }, (_, i) => 1 + ((i + 1) * (i + 2)) / 2);
    const [y, last] = run(rows);
    assert.deepEqual(y, sums.reverse()); // written from the end on
    assert.deepEqual(last, [sums[0]]);
  }
});

test("a count that is a value: none, many, and those that are refused", async () => {
  const run = await ready(plan(true));
  assert.deepEqual(run(1, 0n)[1], [1]);
  assert.deepEqual(run(1, 5n)[1], [6]);
  assert.throws(() => run(1, -1n), /The loop sums is to run -1 times/);
  assert.throws(() => run(1, 2n ** 31n), /The loop sums is to run 2147483648 times, at most 1048576 are run/);
  assert.deepEqual(run(1, 4n)[1], [5]); // the session goes on
});

test("a condition ends a loop, wherever the last result lies", async () => {
  const run = await ready(plan(true, true));
  // The condition begins as the low byte of the count, and is the low byte of 1.0 behind a run: 0.
  assert.deepEqual(run(1, 256n)[1], [1]);
  assert.deepEqual(run(1, 4n)[1], [2]);
  assert.deepEqual(run(1, 5n)[1], [2]);
});

test("a loop outside its buffers is refused when it is loaded", async () => {
  const given = plan();
  given.trips = [[[1, "n"], [1]]]; // one more than there are rows
  await assert.rejects(ready(given), /The loop sums of the plan does not fit into its buffers/);
});
