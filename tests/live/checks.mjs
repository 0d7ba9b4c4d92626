/** Run by test_live_js.py in node, with the folder of the modules: the page's side without a page. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

const [resources, folder] = process.argv.slice(2);
const module = (name) => import(new URL(name, `file://${resources}/`));
const bytes = (name) => new Uint8Array(readFileSync(`${folder}/${name}.wasm`));
const layout = await module("layout.js");
const { Cases } = await module("prove.js");
const { Donors } = await module("donors.js");
const { watchInstances } = await module("hook.js");
const { Inferences } = await module("inferences.js");
const { install } = await module("install.js");
const { randomBy, randomProduct, walk } = await module("images.js");
const { record } = await module("recorder.js");

const { ORIGINAL, SLOTS, TABLE } = layout;
globalThis.Worker ??= class {};
globalThis.crossOriginIsolated ??= true;
const checks = {};

checks.layout = () => assert.deepEqual({ ...layout }, JSON.parse(readFileSync(`${folder}/layout.json`, "utf8")));

checks["functions are told apart by what they do"] = () => {
  const donors = new Donors(bytes("originals"), ["f1", "f0", "f3"], bytes("exact"));
  assert.deepEqual(donors.kinds, ["add", "zero", ""]);
};

checks["donors are proven, and wrong ones are not"] = async () => {
  const donors = new Donors(bytes("originals"), ["f0", "f1"], bytes("exact"));
  const exact = await donors.add("exact", bytes("exact"));
  assert.deepEqual(exact, { cases: 80, identical: 80, worst: 0, error: "" });
  const fused = await donors.add("fused", bytes("fused"));
  assert.ok(fused.identical < fused.cases && fused.worst > 0 && fused.worst <= 1, JSON.stringify(fused));
  const swapped = await donors.add("swapped", bytes("swapped"));
  assert.ok(swapped.worst > 1);
  assert.ok(donors.rate("exact", [{ kernel: "zero", m: 8, k: 16, n: 16, lda: 16, ldc: 16, calls: 1, flops: 4096 }], 1) > 0);
};

checks["one wrong bit anywhere is seen"] = () => {
  const memory = new WebAssembly.Memory({ initial: 8 });
  const kernel = new WebAssembly.Instance(new WebAssembly.Module(bytes("own")), { env: { memory } }).exports;
  const cases = new Cases(memory, 20);
  const expected = cases.expected(kernel.zero);
  assert.equal(cases.prove(kernel.zero, expected, false).identical, 20);
  for (const at of [0, 100, 4000]) {
    const mutant = (...given) => {
      new Uint32Array(memory.buffer)[at] ^= 1;
      return kernel.zero(...given);
    };
    assert.ok(cases.prove(mutant, expected, false).identical < 20, `float ${at}`);
  }
  const greedy = (a, b, c, k, m, ...rest) => kernel.zero(a, b, c, k, m, ...rest) + m;
  assert.match(cases.prove(greedy, expected, false).error, /rows/);
};

const live = await install(bytes("dispatch"), ["zero", "add"]);
const { instance } = await WebAssembly.instantiate(bytes("rewritten"));
const image = new Float32Array(instance.exports.memory.buffer, 0, 1 << 14);
const random = randomBy(5);
let product = randomProduct(image, random);
while (product.m < 9 || product.k < 4) product = randomProduct(image, random);
const before = image.slice();
const run = () => {
  image.set(before);
  const { a, b, c, k, m, n, lda, ldc, alpha } = product;
  instance.exports.walk(4 * a, 4 * b, 4 * c, k, m, n, lda, ldc, alpha);
  return image.slice();
};
const plain = run();

checks["an instance is seen and its table filled"] = () => {
  assert.equal(live.runtimes.length, 1);
  assert.equal(live.runtimes[0].memory, instance.exports.memory);
  assert.equal(instance.exports[TABLE].length, 2 * SLOTS);
  assert.equal(live.chosen, ORIGINAL);
};

checks["a kernel is bound when it is first called, and the original comes back"] = () => {
  const [exact, fused] = [live.publish(bytes("own")), live.publish(bytes("own_fused"))];
  const table = instance.exports[TABLE];
  const stub = table.get(exact);
  live.choose(exact);
  assert.deepEqual(run(), plain);
  assert.notEqual(table.get(exact), stub);
  live.choose(fused);
  assert.notDeepEqual(run(), plain);
  live.choose(ORIGINAL);
  assert.deepEqual(run(), plain);
};

checks["every row of a block is recorded, whatever the tile"] = async () => {
  const { m, k, n, lda, ldc } = product;
  for (const slot of [ORIGINAL, live.publish(bytes("own"))]) {
    live.choose(slot);
    const { blocks, calls } = await record(live.control, async () => run());
    assert.equal(blocks.length, 1);
    assert.deepEqual({ ...blocks[0], calls: 0 }, { kernel: "zero", m, k, n, lda, ldc, calls: 0, flops: 2 * m * k * n });
    assert.equal(blocks[0].calls, calls);
  }
  assert.equal((await record(live.control, async () => {})).calls, 0);
};

checks["junk, an empty slot and one of another type leave the original"] = () => {
  const { warn } = console;
  let warned = 0;
  console.warn = () => warned++;
  for (const slot of [live.publish(new Uint8Array(64).fill(7)), SLOTS - 1, live.publish(bytes("originals"))]) {
    live.choose(slot);
    assert.deepEqual(run(), plain, `slot ${slot}`);
  }
  console.warn = warn;
  assert.equal(warned, 1);
  live.choose(ORIGINAL);
};

checks["slots are written once, and end"] = () => {
  assert.throws(() => {
    for (let i = 0; i < SLOTS; i++) live.publish(bytes("own"));
  }, /No room is left/);
};

checks["what a watcher throws stays there"] = async () => {
  const { warn } = console;
  let warned = 0;
  console.warn = () => warned++;
  watchInstances(() => {
    throw new Error("not mine");
  });
  assert.ok((await WebAssembly.instantiate(bytes("tiny"))).instance.exports.walk);
  assert.ok(new WebAssembly.Instance(new WebAssembly.Module(bytes("tiny"))) instanceof WebAssembly.Instance);
  console.warn = warn;
  assert.ok(warned >= 2);
};

checks["a wrong answer is counted, a rounded one is not"] = async () => {
  let answer = [1, 2, 4];
  const session = { run: async () => ({ y: { data: Float32Array.from(answer) } }) };
  const inferences = new Inferences(live, session, {});
  inferences.expect(2, true);
  inferences.expect(3, false);
  for (const slot of [ORIGINAL, 2, 3]) await inferences.run(slot);
  assert.equal(inferences.checked.wrong, 0);
  answer = [1, 2, 4.0001];
  await inferences.run(2);
  assert.equal(inferences.checked.wrong, 1, "an exact kernel's bits");
  await inferences.run(3);
  assert.equal(inferences.checked.wrong, 2, "a fused kernel repeats its own answer");
  inferences.expect(4, false);
  await inferences.run(4);
  assert.equal(inferences.checked.wrong, 2);
  inferences.expect(5, false);
  answer = [1, NaN, 4];
  await inferences.run(5);
  assert.equal(inferences.checked.wrong, 3);
  assert.equal(inferences.checked.runs, 7);
};

for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
  } catch (e) {
    console.error(`${name}: ${e.stack}`);
    process.exit(1);
  }
}
console.log(`${Object.keys(checks).length} checks`);
