import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Engine } from "../../../resources/engine/engine.js";
import { layoutMemory } from "../../../resources/engine/plan.js";
import { ENGINE_VERSION } from "../../../resources/engine/version.js";
import { addKernel, f32, floats, header, kernel, planOf, rowAddKernel, trap } from "../wasm.js";

const [K, N] = [3, 5];
const weight = Array.from({ length: K * N }, (_, i) => i / 4);
const x = [10, 20, 30];
const expected = weight.map((w, i) => 2 * (x[Math.floor(i / N)] + w));
const input = (values = x) => [{ name: "x", dtype: "f32", shape: [K], data: f32(...values) }];
const first = (width) => ({ ...header("rowadd", K * N, width ? [[1, width]] : []), bytes: rowAddKernel(K, N, width) });
const second = { ...header("add", K * N), bytes: addKernel };

async function ready(width = 0) {
  const engine = new Engine();
  engine.load(planOf(K, N));
  engine.setWeights(64, f32(...weight));
  await engine.register([first(width), second]);
  return engine;
}
const result = (engine) => floats(engine.infer(input()).outputs[0].data);

test("memory: weights from 1024, arena aligned behind them, exact size", () => {
  const plan = planOf(K, N);
  const layout = layoutMemory([plan]);
  assert.deepEqual(layout.addresses, [[1088, 1280, 1344, 1408]]);
  assert.equal(layout.total_bytes, 1024 + plan.weights_bytes + plan.arena_bytes);
  assert.equal(layout.pages, 1);
  assert.equal(new Engine().load({ ...plan, arena_bytes: 200_000 }), 4 * 65536);
});

test("memory over 4 GiB is refused", () => {
  assert.throws(() => layoutMemory([{ ...planOf(K, N), arena_bytes: 2 ** 32 }]), /4096 MiB/);
});

test("the plan runs and gives outputs with name, dtype and shape", async () => {
  const engine = await ready();
  const { outputs, runs_ms, steps_ms } = engine.infer(input(), { runs: 3 });
  assert.deepEqual({ ...outputs[0], data: floats(outputs[0].data) }, { name: "y", dtype: "f32", shape: [K, N], data: expected });
  assert.equal(runs_ms.length, 3);
  assert.deepEqual(steps_ms, []);
});

test("with profile every call of the plan has its time", async () => {
  const { steps_ms, runs_ms, outputs } = (await ready()).infer(input(), { runs: 5, profile: true });
  assert.equal(steps_ms.length, 2);
  assert.ok(steps_ms.every((ms) => ms >= 0 && ms <= Math.max(...runs_ms)));
  assert.deepEqual(floats(outputs[0].data), expected);
});

test("hot swaps between panel widths keep the results", async () => {
  const engine = await ready();
  for (const width of [4, 16, 0, 8, 12, 4]) {
    const { repack_ms } = await engine.register([first(width)]);
    assert.ok(repack_ms >= 0);
    assert.deepEqual(result(engine), expected);
  }
});

test("a foreign import is refused and the old kernels go on", async () => {
  const engine = await ready(4);
  const body = () => [];
  const foreign = kernel(3, body, { imports: [["env", "memory"], ["env", "log"]] });
  await assert.rejects(engine.register([first(8), { ...second, bytes: foreign }]), /imports env.memory, env.log/);
  await assert.rejects(engine.register([{ ...second, bytes: kernel(3, body, { imports: [] }) }]), /imports nothing/);
  await assert.rejects(engine.register([{ ...second, bytes: kernel(3, body, { imports: [["js", "memory"]] }) }]), /imports js.memory/);
  await assert.rejects(engine.register([{ ...second, bytes: kernel(3, body, { name: "main" }) }]), /exports no function/);
  await assert.rejects(engine.register([{ ...second, bytes: kernel(2, body) }]), /takes 4 parameters/);
  await assert.rejects(engine.register([{ ...second, bytes: Uint8Array.of(1, 2, 3) }]), /is not valid here/);
  assert.deepEqual(result(engine), expected);
});

test("register refuses an unknown workload, and panels where none can be", async () => {
  const engine = await ready();
  await assert.rejects(engine.register([{ ...second, workload: "conv" }]), /no workload conv/);
  await assert.rejects(engine.register([{ ...first(4), panels: [[0, 4]] }]), /no packable weight/);
  await assert.rejects(engine.register([{ ...first(4), panels: [[9, 4]] }]), /no argument 9/);
  await assert.rejects(engine.register([{ ...first(4), panels: [[1, 32]] }]), /do not fit/);
  assert.deepEqual(result(engine), expected);
});

test("two kernels that want one weight in different panels are refused", async () => {
  const plan = planOf(K, N);
  plan.steps.splice(1, 0, { op: "call", workload: "rowadd2", args: [1, 0, 2], node: "again" });
  const engine = new Engine();
  engine.load(plan);
  engine.setWeights(64, f32(...weight));
  await engine.register([first(4), second, { ...first(4), workload: "rowadd2" }]);
  await assert.rejects(engine.register([first(8)]), /Two kernels want the weight in buffer 0/);
  assert.deepEqual(result(engine), expected);
});

test("a plan with an unknown instruction is refused by its name", () => {
  const plan = planOf(K, N);
  plan.steps[1].op = "branch";
  assert.throws(() => new Engine().load(plan), /"branch"/);
});

test("a plan of another version, or with broken buffers, is refused", () => {
  assert.throws(() => new Engine().load({ ...planOf(K, N), version: 6 }), /version 6, this engine runs versions 1, 2, 3, 4, 7/);
  for (const change of [{ region: "stack" }, { offset: 32 }, { nbytes: 1e9 }, { pack: [K, 1000] }]) {
    const plan = planOf(K, N);
    Object.assign(plan.buffers[0], change);
    assert.throws(() => new Engine().load(plan), /Buffer 0 of the plan/);
  }
  const plan = planOf(K, N);
  plan.steps[0].args[2] = 9;
  assert.throws(() => new Engine().load(plan), /Step first .* does not exist/);
});

/** The plan with one more input, that tells how much of an axis of the output is there. @param {number} axis */
function foundPlan(axis) {
  const plan = planOf(K, N);
  plan.inputs.push({ spec: { name: "n", shape: [1], dtype: "i64" }, buffer: 4 });
  plan.buffers.push({ region: "arena", offset: plan.arena_bytes, nbytes: 8, pack: null });
  const [{ spec, buffer }] = plan.outputs;
  return { ...plan, version: 7, arena_bytes: plan.arena_bytes + 64, outputs: [{ spec, buffer, found: { axis, count: 4 } }] };
}

test("an output is as long as its data says, in each line of it", async () => {
  for (const [axis, most] of [[0, K], [1, N]]) {
    const engine = new Engine();
    engine.load(foundPlan(axis));
    engine.setWeights(64, f32(...weight));
    await engine.register([first(0), second]);
    for (const count of [2, 0, 1, most, most + 7, 2]) {
      const there = Math.min(count, most);
      const n = { name: "n", dtype: "i64", shape: [1], data: new Uint8Array(BigInt64Array.of(BigInt(count)).buffer) };
      const [{ shape, data }] = engine.infer([...input(), n]).outputs;
      assert.deepEqual(shape, axis ? [K, there] : [there, N]);
      assert.deepEqual(floats(data), expected.filter((_, i) => (axis ? i % N : Math.floor(i / N)) < there));
      engine.recycle(data);
    }
  }
});

test("an output whose count is no buffer, or of no axis of it, is refused", () => {
  for (const change of [{ axis: 2 }, { axis: -1 }, { count: 9 }, { count: -1 }]) {
    const plan = foundPlan(0);
    Object.assign(plan.outputs[0].found, change);
    assert.throws(() => new Engine().load(plan), /buffer of y is missing or too small/);
  }
  const plan = foundPlan(0);
  plan.buffers[4].nbytes = 4;
  plan.inputs.pop();
  assert.throws(() => new Engine().load(plan), /buffer of y is missing or too small/);
});

test("weights outside the plan, or after packing, are refused", async () => {
  const engine = await ready(4);
  assert.throws(() => engine.setWeights(0, new Uint8Array(1e6)), /lie outside/);
  assert.throws(() => engine.setWeights(-8, new Uint8Array(8)), /lie outside/);
  assert.throws(() => engine.setWeights(64, f32(1)), /already packed/);
  assert.deepEqual(result(engine), expected);
});

test("inputs with a wrong name, dtype, shape or size are refused", async () => {
  const engine = await ready();
  const [good] = input();
  assert.throws(() => engine.infer([]), /input "x" is missing/);
  assert.throws(() => engine.infer([good, { ...good, name: "z" }]), /no input "z".*inputs are x/);
  assert.throws(() => engine.infer([{ ...good, dtype: "i32" }]), /dtype i32, the model wants f32/);
  assert.throws(() => engine.infer([{ ...good, shape: [1, K] }]), /shape \[1,3\], the model wants \[3\]/);
  assert.throws(() => engine.infer([{ ...good, data: f32(1) }]), /4 bytes, its shape needs 12/);
  assert.throws(() => engine.infer([good], { runs: 0 }), /at least 1/);
});

test("an input whose value the plan was laid out for must have it", async () => {
  const engine = new Engine();
  const plan = planOf(K, N);
  const [x] = plan.inputs;
  plan.buffers.push({ region: "arena", offset: plan.arena_bytes, nbytes: 8, pack: null });
  plan.arena_bytes += 64;
  const spec = { name: "sr", shape: [], dtype: "i64" };
  engine.load({ ...plan, version: 4, inputs: [x, { spec, buffer: plan.buffers.length - 1, value: 16000 }] });
  const rate = (/** @type {bigint} */ n) => ({ ...spec, data: new Uint8Array(new BigInt64Array([n]).buffer) });
  assert.throws(() => engine.infer([...input(), rate(8000n)]), /input "sr" is 8000, the model was compiled for 16000/);
  assert.throws(() => engine.infer([...input(), rate(16000n)]), /No kernel is registered/);
});

test("nothing runs without a model, without a kernel, or after dispose", async () => {
  assert.throws(() => new Engine().infer(input()), /No model is loaded/);
  const engine = new Engine();
  engine.load(planOf(K, N));
  await engine.register([second]);
  assert.throws(() => engine.infer(input()), /No kernel is registered for rowadd/);
  engine.dispose();
  assert.throws(() => engine.infer(input()), /No model is loaded/);
});

test("inputs are written before every run, since the plan may reuse their memory", async () => {
  const plan = planOf(K, K);
  plan.inputs[0].spec = { name: "x", shape: [K, K], dtype: "f32" };
  Object.assign(plan, { inputs: [{ spec: plan.inputs[0].spec, buffer: 2 }], outputs: [{ spec: plan.outputs[0].spec, buffer: 2 }] });
  plan.steps = [{ op: "call", workload: "add", args: [2, 2, 2], node: "in place" }];
  const engine = new Engine();
  engine.load(plan);
  await engine.register([{ ...header("add", K * K), bytes: addKernel }]);
  const ones = { name: "x", dtype: "f32", shape: [K, K], data: f32(...Array(K * K).fill(1)) };
  const { outputs } = engine.infer([ones], { runs: 4 });
  assert.deepEqual(floats(outputs[0].data), Array(K * K).fill(2));
});

test("a kernel that grows the memory does not break the engine", async () => {
  const engine = await ready();
  const grow = kernel(3, (i) => [0x41, 1, 0x40, 0, 0x1a, ...i, 0x1a]);
  await engine.register([{ ...header("add", 1), bytes: grow }]);
  assert.equal(engine.infer(input()).outputs[0].data.length, K * N * 4);
  await engine.register([second]);
  assert.deepEqual(result(engine), expected);
});

test("a trap is an error of that inference only", async () => {
  const engine = await ready();
  await engine.register([{ ...second, bytes: kernel(3, () => trap) }]);
  assert.throws(() => engine.infer(input()), WebAssembly.RuntimeError);
  await engine.register([second]);
  assert.deepEqual(result(engine), expected);
});

test("the engine's version is the Studio's", () => {
  const package_init = readFileSync(new URL("../../../nnjit_studio/__init__.py", import.meta.url), "utf8");
  assert.match(package_init, new RegExp(`^__version__ = "${ENGINE_VERSION}"$`, "m"));
});
