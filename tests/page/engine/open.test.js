/** Plans for any size: made from formulas in the engine, over kernels that were compiled once. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Engine } from "../../../resources/engine/engine.js";
import { OpenModel } from "../../../resources/engine/open/model.js";
import { Sizes } from "../../../resources/engine/open/sizes.js";
import { dimsOf, scalarOf, textOf, valueOf } from "../../../resources/engine/open/size.js";
import { bindCalls, execute } from "../../../resources/engine/steps.js";
import { placer } from "../../../resources/engine/open/storage.js";
import { openPlan as plan } from "../tiny_bundle.js";
import { addKernel, doubleKernel, f32, floats, header } from "../wasm.js";

const n = [[1, "n"]];
async function ready() {
  const sizes = new Sizes(/** @type {any} */ (plan()));
  const engine = new Engine();
  engine.load(sizes.everyVariant, {}, sizes);
  await engine.register([{ ...header("even", 4), bytes: addKernel }, { ...header("odd", 4), bytes: doubleKernel }]);
  return { engine, sizes };
}

const x = (/** @type {number[]} */ shape, /** @type {number} */ length) => ({ name: "x", dtype: "f32", shape, data: f32(...Array.from({ length }, (_, i) => i)) });

test("a size that is kept is found without a walk through the others, and the one used longest ago goes", () => {
  /** @type {OpenModel<number>} */
  const model = new OpenModel(/** @type {any} */ (plan()));
  let made = 0;
  const at = (/** @type {number} */ n) => model.kept({ n }, () => ++made);
  for (let n = 1; n <= 128; n++) at(n);
  at(1);
  const { keys } = Map.prototype;
  let walked = 0;
  model.made.keys = function* () {
    for (const key of keys.call(this)) {
      walked++;
      yield key;
    }
  };
  at(1);
  assert.deepEqual([made, walked, model.made.size], [128, 1, 128]);
  at(129);
  assert.deepEqual([made, walked, model.made.size], [129, 2, 128]);
  at(1);
  assert.equal(made, 129, "it was used last");
  at(2);
  assert.equal(made, 130, "it was used longest ago");
});

test("any size runs, and comes back to one that ran before", async () => {
  const { engine } = await ready();
  for (const size of [4, 1, 7, 300, 4, 7]) {
    const [y] = engine.infer([x([1, size], size)]).outputs;
    assert.deepEqual(y.shape, [1, size]);
    assert.deepEqual(floats(y.data), Array.from({ length: size }, (_, i) => 4 * i));
  }
});

test("a length that is longer than what it counts is refused, and the session goes on", async () => {
  const open = /** @type {any} */ (plan());
  open.inputs.push({ name: "lens", dtype: "i64", shape: [2], most: [[1, "n"]], buffer: open.buffers.length });
  open.buffers.push({ region: "arena", offset: 0, nbytes: 16, pack: null });
  const sizes = new Sizes(open);
  const engine = new Engine();
  engine.load(sizes.everyVariant, {}, sizes);
  await engine.register([{ ...header("even", 4), bytes: addKernel }, { ...header("odd", 4), bytes: doubleKernel }]);
  const run = (/** @type {number} */ n, /** @type {bigint[]} */ ...lens) =>
    engine.infer([x([1, n], n), { name: "lens", dtype: "i64", shape: [2], data: new Uint8Array(new BigInt64Array(lens).buffer) }]).outputs[0].shape;
  assert.deepEqual(run(7, 7n, 0n), [1, 7]);
  assert.throws(() => run(7, 7n, 8n), /input "lens" is 8, the model was compiled for 0 to 7/);
  assert.throws(() => run(8, -1n, 8n), /input "lens" is -1, the model was compiled for 0 to 8/);
  assert.deepEqual(run(8, 7n, 8n), [1, 8]);
});

test("the first run of a size begins with what another one learned of the kernel", () => {
  const sizes = new Sizes(/** @type {any} */ (plan()));
  const memory = new WebAssembly.Memory({ initial: 2 });
  const ran = /** @type {string[]} */ ([]);
  const kernel = (/** @type {number} */ id) => ({ header: header("k", 4), id, choice: null, run: () => ran.push("solo") });
  const kernels = new Map([["even", kernel(1)], ["odd", kernel(2)]]);
  const team = { run: () => ran.push("team") };
  const calls = (/** @type {number} */ size) => /** @type {any[]} */ (bindCalls(sizes.at([x([1, size], size)], memory), /** @type {any} */ (kernels), /** @type {any} */ (team)));
  const [first, second] = calls(40);
  assert.equal(first.choice, second.choice, "steps of one kernel learn together");
  Object.assign(first.choice, { team: true, settled: true });
  calls(300).forEach(execute);
  assert.deepEqual(ran.splice(0), ["team", "team"]);
  calls(41).forEach(execute);
  assert.equal(ran[0], "solo", "another kernel has its own");
});

test("memory grows to the largest size and is then flat, whatever comes", async () => {
  const { engine, sizes } = await ready();
  const at = (/** @type {number} */ size) => void engine.infer([x([1, size], size)]);
  at(100_000);
  const grown = engine.memoryBytes;
  assert.equal(grown, sizes.memoryAt({ n: 100_000 }));
  for (let i = 1; i < 1000; i++) at((i * 7919) % 500 + 1);
  assert.equal(engine.memoryBytes, grown);
});

test("sizes that the model does not take are refused with a sentence, and the session goes on", async () => {
  const { engine } = await ready();
  for (const [shape, told] of /** @type {[number[], RegExp][]} */ ([
    [[1, 0], /n is 0; the model takes 1 or more/],
    [[1, -1], /n is -1/],
    [[1, 2 ** 31], /n is 2147483648/],
    [[1, 2 ** 30], /a page's memory ends at 4096 MiB/],
    [[1, 1.5], /n is 1.5/],
    [[2, 3], /shape \[2,3\], the model wants \[1, n\]/],
    [[3], /shape \[3\]/],
  ]))
    assert.throws(() => engine.infer([x(shape, 3)]), told);
  const hint = (/** @type {RegExp} */ told) => (/** @type {any} */ e) => told.test(e.hint);
  assert.throws(() => engine.infer([x([3], 3)]), hint(/README\.txt lists the sizes/)); // which says what was kept, and why
  assert.throws(() => engine.infer([x([1, 0], 3)]), hint(/README\.txt lists the sizes/));
  assert.throws(() => engine.infer([]), /"x" is missing/);
  assert.throws(() => engine.infer([x([1, 5], 3)]), /12 bytes, its shape needs 20/);
  assert.deepEqual(floats(engine.infer([x([1, 3], 3)]).outputs[0].data), [0, 4, 8]);
});

test("a mask that covers a past and one more stands before the past", () => {
  const port = (/** @type {string} */ name, /** @type {any} */ shape) => ({ name, dtype: "f32", shape, buffer: 0 });
  const inputs = [port("mask", [[[1, "n"], [1]]]), port("past", [2, n])];
  const open = /** @type {any} */ ({ ...plan(), inputs });
  const given = (/** @type {number} */ whole) => [{ ...x([whole], 0), name: "mask" }, { ...x([2, 5], 0), name: "past" }];
  assert.deepEqual(dimsOf(open, given(6)), { n: 5 });
  assert.throws(() => dimsOf(open, given(7)), /"mask" has shape \[7\], the model wants \[n \+ 1\]/);
});

test("sizes are sums of products of dimensions and operations on them", () => {
  const size = [[3], [-2, "a", "b"], [1, ["floordiv", [[1, "a"]], 4]], [1, ["max", [[1, "a"]], 9]]];
  assert.equal(valueOf(size, { a: 7, b: 5 }), 3 - 70 + 1 + 9);
  assert.equal(valueOf(12, {}), 12);
  assert.equal(textOf(size), "3 + -2*a*b + floordiv(a, 4) + max(a, 9)");
  assert.equal(scalarOf({ kind: "inverse", size: n }, { n: 4 }), 0x3e800000);
  assert.equal(scalarOf({ kind: "float", size: n }, { n: 1 }), 0x3f800000);
  const scale = { kind: "quotient", size: n, over: [[-3], [1, "n"]] };
  assert.deepEqual([3, 5].map((k) => scalarOf(scale, { n: k })), [0, 0x40200000]); // 0 and 2.5
});

test("tensors that live at once never overlap, and one that is over gives its place", () => {
  const sizes = [100, 300, 300, 64];
  const buffers = sizes.map((nbytes) => ({ region: "arena", offset: 0, nbytes, pack: null }));
  const call = (/** @type {number[]} */ ...args) => ({ op: "call", workload: "k", args, node: "" });
  const place = placer({ buffers, steps: [call(0, 1), call(1, 2), call(2, 3)], inputs: [{ buffer: 0 }], outputs: [{ buffer: 3 }] });
  const arena_bytes = place(buffers);
  const [a, b, c, d] = buffers.map(({ offset }, i) => [offset, offset + sizes[i]]);
  for (const [p, q] of [[a, b], [b, c], [c, d], [a, d], [a, c]]) assert.ok(p[1] <= q[0] || q[1] <= p[0]);
  assert.equal(arena_bytes, 320 + 320 + 128);
});

test("every kernel that a remainder chooses runs ahead, near the sizes that are wanted", () => {
  const sizes = new Sizes(/** @type {any} */ (plan()));
  const shapes = (/** @type {any} */ given) => [...sizes.warmInputs(given)].filter(Boolean).map((/** @type {any} */ [{ shape, data }]) => [...shape, data.length]);
  assert.deepEqual(shapes({ n: 9 }), [[1, 9, 36], [1, 8, 32]]);
  assert.deepEqual(shapes({ n: 1 }), [[1, 1, 4], [1, 2, 8]]);
  assert.deepEqual(shapes({}), [[1, 4, 16], [1, 3, 12]]);
  assert.throws(() => shapes({ n: 0 }), /n is 0; the model takes 1 or more/);
});

/** An engine whose idle moments the test gives. @param {import("node:test").TestContext} t */
async function idle(t) {
  const { engine, sizes } = await ready();
  const ran = /** @type {number[]} */ ([]);
  const waiting = /** @type {((idle: any) => void)[]} */ ([]);
  Object.assign(globalThis, { requestIdleCallback: (/** @type {any} */ work) => waiting.push(work) });
  t.after(() => delete (/** @type {any} */ (globalThis).requestIdleCallback));
  const stepwise = engine.stepwise.bind(engine);
  engine.stepwise = function* (inputs) {
    for (const step of stepwise(inputs)) yield void (ran.push(inputs[0].shape[1]), step);
  };
  const moment = (left_ms = 0) => waiting.splice(0).forEach((work) => work({ timeRemaining: () => left_ms }));
  return { ahead: sizes.ahead(engine), engine, sizes, ran, waiting, moment };
}

test("after an answer the kernels of all remainders run while the page is idle, a step at a time", async (t) => {
  const { ahead, ran, waiting, moment } = await idle(t);
  ahead.behindRun();
  ahead.behindRun();
  assert.equal(waiting.length, 1, "an idle moment is asked for once");
  const most = [];
  for (let turn = 0; turn < 20 && waiting.length; turn++) {
    const before = ran.length;
    moment();
    most.push(ran.length - before);
  }
  assert.deepEqual(ran, [1, 1, 2, 2], "two steps at each of two sizes");
  assert.equal(Math.max(...most), 1);
  ahead.behindRun();
  assert.equal(waiting.length, 0, "once");
});

test("a run ahead that an answer came into begins again, and ends with the session", async (t) => {
  const { ahead, engine, ran, waiting, moment } = await idle(t);
  ahead.behindRun();
  moment();
  ahead.behindRun();
  assert.deepEqual(floats(engine.infer([x([1, 3], 3)]).outputs[0].data), [0, 4, 8]);
  moment();
  assert.deepEqual(ran, [1, 1]);
  moment(50);
  assert.deepEqual(ran, [1, 1, 1, 2, 2], "as much as an idle moment holds");
  const other = await idle(t);
  other.ahead.behindRun();
  other.moment();
  other.ahead.stop();
  other.moment(50);
  assert.deepEqual([other.ran, other.waiting.length, waiting.length], [[1], 0, 0]);
});
